"""Describes and draws the graphs and configurations of raw and npz files."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
