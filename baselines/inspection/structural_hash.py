"""Finds equal neighbourhoods of graphs, as Weisfeiler and Leman refine colours.

At depth 0 the nodes of a class have equal rows of numbers; at depth l also equal
classes at depth l - 1 and, for each kind of edge, as many neighbours of each
class.  After l layers that sum or average neighbours such nodes have equal
embeddings (l - 1 layers if weights depend on the degrees of neighbours), so one
per class has to be computed: in a program of 24 equal blocks, one block and what
lies near its ends.

A multiset is hashed to the sum of its members' 64-bit hashes, which knows no
order.  Of N different things two have the same hash with a probability of about
N^2 / 2^65: 3e-8 for a million.

B. Weisfeiler, A. Leman, "The reduction of a graph to canonical form", 1968;
N. Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 12, 2011.
"""

from typing import List

import numpy as np
import scipy.sparse

# Odd, and with no pattern: the golden ratio's digits.
_STEP = 0x9E3779B97F4A7C15


def mix(numbers: np.ndarray) -> np.ndarray:
    """Hashes integers to uint64 of the same shape; different to different.

    The finaliser of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
    """
    x = numbers.astype(np.uint64) + np.uint64(_STEP)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x ^= x >> np.uint64(shift)
        x *= np.uint64(factor)
    return x ^ (x >> np.uint64(31))


def number_rows(rows: np.ndarray) -> np.ndarray:
    """Numbers the distinct rows of an array, compared bit by bit: int64 [n]."""
    if not rows.size:
        return np.zeros(len(rows), np.int64)
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    keys = flat.view(np.dtype((np.void, flat.strides[0])))[:, 0]
    return np.unique(keys, return_inverse=True)[1].reshape(-1)


def first_equal(hashes: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """For each thing, the first one that is equal to it.

    Args:
        hashes: uint64 [n].
        exact: int [n]; things whose hashes collide stay apart if they differ
            here.

    Returns:
        int32 [n].
    """
    _, start, number = np.unique(hashes, return_index=True, return_inverse=True)
    first = start[number.reshape(-1)].astype(np.int32)
    apart = np.flatnonzero(exact[first] != exact)
    first[apart] = apart
    return first


def sum_messages(rows, cols, values, x: np.ndarray, size: int) -> np.ndarray:
    """Sums values * x[cols] into uint64 [size] by row, modulo 2^64."""
    return scipy.sparse.coo_matrix((values, (rows, cols)), (size, len(x))) @ x


def node_classes(
    opcodes: np.ndarray, features: np.ndarray, edges: np.ndarray, depth: int
) -> List[np.ndarray]:
    """Classes of a graph's nodes; edges out and in are two kinds.

    Args:
        opcodes: int [n].
        features: [n, f], of any type.
        edges: int [m, 2], rows (consumer, producer).
        depth: of the last classes.

    Returns:
        For depth 0, 1, .., `depth` the first node of each one's class, int32 [n].
    """
    opcodes = np.asarray(opcodes, np.int64)
    start = number_rows(np.stack([number_rows(np.asarray(features)), opcodes], 1))
    hashes = mix(start)
    classes = [first_equal(hashes, start)]
    consumers, producers = np.asarray(edges, np.int64).reshape(-1, 2).T
    ones = np.ones(len(edges), np.uint64)
    for _ in range(depth):
        heard = mix(hashes)
        hashes = mix(
            hashes
            + sum_messages(consumers, producers, ones, heard, len(start))
            + mix(sum_messages(producers, consumers, ones, heard, len(start)))
        )
        classes.append(first_equal(hashes, classes[-1]))
    return classes


def repeated_shares(classes: List[np.ndarray]) -> List[float]:
    """At each depth, the share of nodes that an earlier one is equal to."""
    return [
        float(np.mean(first != np.arange(len(first)))) if len(first) else 0.0
        for first in classes
    ]
