"""Finished runs as one HTML file with pictures.  No TensorFlow, no network."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
