"""Unpublished tile models: every public `tf.keras.Model` here can be a `--model`.

A class that says `is_base = True` cannot.  A new model is a new file.  A class of the
same name in `baselines/tiles/models.py` takes its place.

    kernels           what the models have in common
    late_join         `LateJoinResSAGE`, the recipe's graph model
    config_attention  `ConfigAttentionSAGE`, attention across configurations
"""
