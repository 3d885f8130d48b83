"""The programs of a packed split with scaled features."""

from collections.abc import Callable, Sequence

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.layout import graphs

# Scaled features that are kept: of 350 programs with 10,000 nodes.
_KEPT_BYTES = 2 << 30


class StoredPrograms(Sequence[graphs.ScaledProgram]):
    """A split's programs by number.

    Node features are scaled at the first access to a program, and kept until those of
    later ones take 2 GiB; codes stay memory-mapped.

    Args:
        mean_runtimes: whether equal configurations get the mean of their runtimes, for
            training, or keep their own.
        prior: (store, number) -> scores of a program's different configurations,
            float [u], that those of a model are added to; None: 0.
    """

    def __init__(
        self,
        store: layout_store.LayoutStore,
        normalizer: normalizer_lib.Normalizer,
        mean_runtimes: bool = False,
        prior: Callable[[layout_store.LayoutStore, int], np.ndarray] | None = None,
    ):
        self.store = store
        self._normalizer = normalizer
        self._mean_runtimes = mean_runtimes
        self._prior = prior
        self._programs: dict[int, graphs.ScaledProgram] = {}  # the oldest first
        self._kept = 0  # bytes

    def __len__(self) -> int:
        return len(self.store)

    def __getitem__(  # type: ignore[override]  # one at a time, no slices
        self, number: int
    ) -> graphs.ScaledProgram:
        if number not in self._programs:
            program = self._programs[number] = self._read(number)
            self._kept += program.feats.nbytes
            while self._kept > _KEPT_BYTES and len(self._programs) > 1:
                first = next(iter(self._programs))
                self._kept -= self._programs.pop(first).feats.nbytes
        return self._programs[number]

    def _read(self, number: int) -> graphs.ScaledProgram:
        """Reads and scales a program."""
        store = self.store
        group = store.part('config_group', number)
        if self._mean_runtimes:
            runtimes = store.part('group_runtime', number)[group]
        else:
            runtimes = store.part('config_runtime', number)
        prior = None
        if self._prior is not None:
            prior = self._prior(store, number).astype(np.float32)
        return graphs.ScaledProgram(
            graph_id=store.graph_ids[number],
            op=store.part('node_opcode', number),
            feats=self._normalizer.nodes(store.part('node_feat', number)),
            edges=store.part('edge_index', number),
            config_ops=store.part('node_config_ids', number).astype(np.int32),
            vectors=self._normalizer.configs(store.vectors(number)),
            codes=store.group_codes(number),
            group=group,
            runtimes=runtimes,
            prior=prior,
        )
