"""Scores and ranks graphs with finished runs, ensembles, or the untrained estimate."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
