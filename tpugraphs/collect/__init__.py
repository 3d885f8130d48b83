"""Measures the kernels of programs into a collection of npz files."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
