"""Which of XLA's two CPU runtimes measured a kernel, as a column.

Since jaxlib 0.4.32, XLA executes a program for a CPU as a sequence of thunks; earlier
releases compiled it to one function.  The two rank the tiles of a kernel differently
(docs/findings/xla-releases.md), so a model that learns from both gets this column.
"""

import numpy as np

from baselines.data.packed import splits

FIRST_WITH_THUNKS = 4032  # 0.4.32


class ReleaseColumns:
    """The column of a split's configurations.

    Kernels without a release count as measured by the earlier runtime: they were
    collected before `collect` wrote the release.
    """

    names = ('release_thunks',)

    def __init__(self, store: splits.PackedSplit):
        self._thunks = have_thunks(store)

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes float32 [rows, 1]; see `tile_table.PARTS`."""
        return self._thunks[kernels, np.newaxis].astype(np.float32)


def differ(store: splits.PackedSplit) -> bool:
    """Tells whether kernels of a split were measured by both runtimes."""
    return len(np.unique(have_thunks(store))) > 1


def have_thunks(store: splits.PackedSplit) -> np.ndarray:
    """Returns whether a runtime with thunks measured each kernel: bool [G]."""
    return np.asarray(store.arrays['xla_release']) >= FIRST_WITH_THUNKS
