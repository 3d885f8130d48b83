"""Bulk work on many processes and machines."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
