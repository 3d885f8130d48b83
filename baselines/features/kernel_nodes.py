"""The nodes of all kernels of a split, numbered one after the other."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from baselines.data.packed import splits
from baselines.hlo import schema

_T = TypeVar('_T')

_ELEMENT_BYTES = np.array([kind.bytes for kind in schema.ELEMENT_TYPES], np.float64)


class KernelNodes:
    """The N nodes of G kernels.

    Attributes:
        store: the split of the kernels.
        raw: float32 [N, F], their columns.
        opcodes: int32 [N].
        kernel: int64 [N], the number of a node's kernel.
        edges: int64 [M, 2], rows (consumer, producer).
        is_root: bool [N], whether a computation returns it.
        root: int64 [G], the result of each kernel: its last root, or -1.
        dims: int64 [N, 6], sizes of its array; 0 where there is none.
    """

    def __init__(self, store: splits.PackedSplit):
        self.store = store
        self._shared: dict[Any, Any] = {}
        self.raw = np.asarray(store.node_feat)
        self.opcodes = np.asarray(store.node_opcode)
        self._count = len(store)
        self.kernel = np.repeat(np.arange(self._count), np.diff(store.node_offsets))
        # Edges name nodes by their numbers in the kernel, here by those in the split.
        shift = np.repeat(store.node_offsets[:-1], np.diff(store.edge_offsets))
        self.edges = np.asarray(store.edge_index, np.int64) + shift[:, np.newaxis]
        self.is_root = self.raw[:, schema.IS_ROOT] > 0
        self.root = self.last(np.flatnonzero(self.is_root))
        dims = np.maximum(self.raw[:, schema.DIMENSIONS].astype(np.int64), 0)
        self.dims = dims * np.cumprod(dims > 0, axis=1)  # none after the first 0

    def shared(self, make: Callable[['KernelNodes'], _T]) -> _T:
        """Returns `make(self)`, which is made once for all column sets."""
        if make not in self._shared:
            self._shared[make] = make(self)
        return self._shared[make]

    @property
    def element_bytes(self) -> np.ndarray:
        """The size of an element of each node's array: float64 [N]."""
        return self.raw[:, schema.TYPES] @ _ELEMENT_BYTES

    def last(self, nodes: np.ndarray) -> np.ndarray:
        """Returns the last of `nodes` in each kernel, or -1: int64 [G]."""
        last = np.full(self._count, -1)
        last[self.kernel[nodes]] = nodes  # the last one stays
        return last

    def have(self, names: Sequence[str]) -> np.ndarray:
        """Marks the nodes with one of the named opcodes: bool [N]."""
        return np.isin(self.opcodes, schema.find_opcode_numbers(names))
