"""Ranks the configurations of raw files, programs and records with a run."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
