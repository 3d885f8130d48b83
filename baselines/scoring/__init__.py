"""Scores and ranks graphs with finished runs, ensembles, or the untrained estimate."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
