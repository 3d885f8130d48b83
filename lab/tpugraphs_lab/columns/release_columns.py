"""Which of XLA's two CPU runtimes measured a kernel, as a column.

Since jaxlib 0.4.32, XLA executes a program for a CPU as a sequence of thunks; earlier
releases compiled it to one function.  The two rank the tiles of a kernel differently
(lab/docs/xla-releases.md), so a model that learns from both gets this column.
"""

import numpy as np

from baselines.data.packed import splits
from baselines.features import column_sets
from baselines.features import kernel_nodes

FIRST_WITH_THUNKS = 4032  # 0.4.32


class Columns(column_sets.ColumnSet):
    """Whether a kernel was measured on a CPU since XLA has thunks.

    Kernels without a release count as measured by the earlier runtime: they were
    collected before `collect` wrote the release.
    """

    position = 3
    names = ('release_thunks',)

    def __init__(self, nodes: kernel_nodes.KernelNodes):
        self._thunks = have_thunks(nodes.store)

    def __call__(self, kernels: np.ndarray, configs: np.ndarray) -> np.ndarray:
        """Computes float32 [rows, 1]; see `ColumnSet`."""
        return self._thunks[kernels, np.newaxis].astype(np.float32)

    @classmethod
    def is_useful(cls, store: splits.PackedSplit) -> bool:
        """Returns whether both runtimes measured kernels of a split."""
        return len(np.unique(have_thunks(store))) > 1


def have_thunks(store: splits.PackedSplit) -> np.ndarray:
    """Returns whether a runtime with thunks measured each kernel: bool [G]."""
    return np.asarray(store.arrays['xla_release']) >= FIRST_WITH_THUNKS
