"""The tile collection: one small fused kernel, many tile sizes."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
