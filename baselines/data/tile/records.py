"""One kernel of the tile collection: its arrays, read, checked and written."""

from collections.abc import Mapping
import dataclasses

import numpy as np

from baselines.core import npz
from baselines.data import graph_files

# n nodes, m edges, c configurations, F and K columns.
TILE_SCHEMA: Mapping[str, npz.Field] = {
    **graph_files.GRAPH,
    **graph_files.EXTRA,
    'config_feat': npz.Field('fiu', ('c', 'K'), np.float32),
    'config_runtime': graph_files.RUNTIME,
    'config_runtime_normalizers': npz.Field(
        'iu', ('c',), np.int64, 1, 2**62, 'runtimes are divided by it'
    ),
    'pad': graph_files.PAD,
    'xla_release': graph_files.XLA_RELEASE,
}


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class TileRecord(graph_files.GraphRecord):
    """A kernel and its tile configurations.

    Attributes:
        config_feat: float32 [c, K].
        config_runtime_normalizers: int64 [c]; label = runtime / normaliser.
        xla_release: the jaxlib that measured it, as `hardware.parse_release` has it;
            0 where it is not known.
        Those of `GraphRecord`.
    """

    config_feat: np.ndarray
    config_runtime_normalizers: np.ndarray
    xla_release: int = dataclasses.field(default=0, kw_only=True)

    schema = TILE_SCHEMA
    max_bytes = 1 << 30  # the largest kernels have some 100,000 configurations, 10 MB
