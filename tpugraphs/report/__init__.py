"""Finished runs as one HTML file with pictures.  No TensorFlow, no network."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
