"""Converts raw HLO protobufs to arrays: nodes, edges and configurations.

    graph.extract_graph(module)         nodes, edges and splits of one HloModuleProto
    tile.extract_configs(tuning)        tile configurations of one tuned kernel
    layout.extract_configs(tuning)      layout configurations of one tuned program
    reading.read_tuning(path)           the modules of a raw file
    tensorflow_functions.module_from_tf(fn)  the HLO of a TensorFlow function

Nothing here imports TensorFlow (`module_from_tf` does so when it is called).
"""
