"""The arrays that a program's nodes produce, and their operands, from raw columns."""

from typing import NamedTuple

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.hlo import schema

# Columns of a convolution's batch and features in its output, input and kernel.
_ROLES = (
    (schema.OUTPUT_BATCH, schema.OUTPUT_FEATURE),
    (schema.INPUT_BATCH, schema.INPUT_FEATURE),
    (schema.KERNEL_INPUT, schema.KERNEL_OUTPUT),
)
_WINDOW = schema.NODE.at('window_size_product')


class Arrays(NamedTuple):
    """Sizes, types and roles of the arrays of n nodes."""

    op: np.ndarray  # int32 [n], opcodes
    dims: np.ndarray  # float32 [n, 6], 0 where there is none
    elements: np.ndarray  # float32 [n]
    bytes: np.ndarray  # float32 [n]
    roles: np.ndarray  # int64 [n, 3, 2], batch and features of each array
    window: np.ndarray  # float32 [n], number of positions

    @classmethod
    def read(cls, op: np.ndarray, feats: np.ndarray) -> 'Arrays':
        """Reads arrays from raw columns.

        Args:
            op: int [n], opcodes.
            feats: [n, F], the columns of `schema.NODE`; missing ones count as 0.
        """
        missing = max(0, len(schema.NODE) - feats.shape[1])
        feats = np.rint(np.pad(np.asarray(feats, np.float32), [(0, 0), (0, missing)]))
        dims = feats[:, schema.DIMENSIONS]
        sizes = np.array([kind.bytes for kind in schema.ELEMENT_TYPES], np.float32)
        elements = np.maximum(dims, 1).prod(axis=1)
        return cls(
            op=np.asarray(op, np.int32),
            dims=dims,
            elements=elements,
            # A tuple or a token counts, too: a byte for each element.
            bytes=elements * np.maximum(feats[:, schema.TYPES] @ sizes, 1),
            roles=feats[:, _ROLES].astype(np.int64),
            window=np.maximum(feats[:, _WINDOW], 0),
        )

    @classmethod
    def from_store(
        cls, store: layout_store.LayoutStore, number: int
    ) -> tuple['Arrays', np.ndarray]:
        """Reads the arrays of a program, and the flags of its collection, if any."""
        feats = store.part('node_feat', number)
        feats, flags = np.split(feats, [feats.shape[1] - len(store.flags)], axis=1)
        return cls.read(store.part('node_opcode', number), feats), flags[0]

    def has_opcode(self, *names: str) -> np.ndarray:
        """Marks the nodes with one of the named opcodes: bool [n]."""
        return np.isin(self.op, [schema.OPCODE_NUMBERS[name] for name in names])

    def read_sizes(self, node: np.ndarray, array: int, role: int) -> np.ndarray:
        """Returns sizes of node[i] along the dimension of a role of i: float32 [n].

        `role` 0 is the batch and 1 the features of `array` (output, input, kernel).
        """
        return (self.dims[node] * one_hot(self.roles[:, array, role])).sum(axis=1)


class Operand(NamedTuple):
    """The input, or the kernel, of every node."""

    node: np.ndarray  # int [n], its number
    exists: np.ndarray  # bool [n]


def find_operands(
    arrays: Arrays, consumer: np.ndarray, producer: np.ndarray
) -> list[Operand]:
    """Returns the input and the kernel of every node: its first two operands.

    Edges do not tell which is which; the input of a convolution is the operand
    with the output's batch.

    Args:
        consumer: int [m], where each edge begins.
        producer: int [m], where it ends.
    """
    n, m = len(arrays.op), len(consumer)
    number = np.arange(m)
    # [n]: the first and the second edge of each node; m where it has none.
    first, second = np.full(n, m), np.full(n, m)
    np.minimum.at(first, consumer, number)
    is_other = number != first[consumer]  # [m]
    np.minimum.at(second, consumer[is_other], number[is_other])
    ends = np.append(producer, 0)  # any node where there is no edge
    nodes, exists = (ends[first], ends[second]), (first < m, second < m)
    batch = arrays.read_sizes(np.arange(n), 0, 0)  # [n], of the output
    fits = [arrays.read_sizes(node, 1, 0) == batch for node in nodes]
    swap = arrays.has_opcode('convolution') & exists[1] & fits[1] & ~fits[0]
    return [
        Operand(
            np.where(swap, nodes[1 - i], nodes[i]),
            np.where(swap, exists[1 - i], exists[i]),
        )
        for i in (0, 1)
    ]


def one_hot(dimension: np.ndarray) -> np.ndarray:
    """Encodes dimensions 0 to 5: [..] -> float32 [.., 6].

    All 0 for an absent dimension (-1), and for those from 6 on, whose sizes are not
    among the columns.
    """
    is_at = np.asarray(dimension)[..., np.newaxis] == np.arange(schema.RANK)
    return is_at.astype(np.float32)
