"""Learned cost models for tensor compilers, on the TpuGraphs dataset.

TF-GNN needs Keras 2, which is `tf.keras` up to TensorFlow 2.15; from 2.16 on it
is the package tf_keras, if this variable says so when `tf.keras` is first used.
Every way in passes here before TensorFlow is imported; processes that we start
inherit it.
"""

import importlib.util
import os

if importlib.util.find_spec('tf_keras'):
    os.environ['TF_USE_LEGACY_KERAS'] = '1'
