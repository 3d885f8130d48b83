"""Ranks the configurations of raw files, programs and records with a run."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
