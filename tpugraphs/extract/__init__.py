"""Raw HLO files -> npz files."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
