"""Layout models other than the published one: every public `tf.keras.Model` here.

A model that says `is_base = True` is none.  A new model is a new file.  A class of
the same name in `baselines/layout/models.py` takes its place.

    neighbourhood   what the models have in common, and the part of a program they see
    plain           `GCN`, `SAGE`, `ChebNet`, `ChebSAGE` and `GAT`, as in their papers
    tgraph          `TGraph`, the competition winners' model
"""
