"""Raw HLO files -> npz files."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
