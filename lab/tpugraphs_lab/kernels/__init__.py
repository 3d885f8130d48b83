"""Cuts programs into kernels, chooses their tiles, rewrites and reassembles."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
