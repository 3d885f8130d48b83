"""The layout task: whole programs, scored under layouts of their nodes."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
