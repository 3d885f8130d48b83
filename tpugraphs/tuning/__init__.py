"""Searches for faster configurations of a program, and proves the gain by timing."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
