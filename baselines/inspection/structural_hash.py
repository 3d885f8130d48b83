"""Finds equal neighbourhoods of graphs, as Weisfeiler and Leman refine colours.

At depth 0 the nodes of a class have equal rows of numbers; at depth l also equal
classes at depth l - 1 and, of consumers and of producers, as many of each class.
After l layers that sum or average neighbours such nodes have equal embeddings
(l - 1 layers if weights depend on the degrees of neighbours).

A multiset is hashed to the sum of random 64-bit numbers of its members' classes,
which knows no order.  Of N different ones two have the same hash with a probability
of about N^2 / 2^65: 3e-8 for a million.

B. Weisfeiler, A. Leman, "The reduction of a graph to canonical form", 1968;
N. Shervashidze et al., "Weisfeiler-Lehman Graph Kernels", JMLR 12, 2011.
"""

from typing import List

import numpy as np


def node_classes(
    opcodes: np.ndarray, features: np.ndarray, edges: np.ndarray, depth: int
) -> List[np.ndarray]:
    """Classes of a graph's nodes.

    Args:
        opcodes: int [n].
        features: [n, f], of any type; rows are compared bit by bit.
        edges: int [m, 2], rows (consumer, producer).
        depth: of the last classes.

    Returns:
        For depth 0, 1, .., `depth` the first node of each one's class, int64 [n].
    """
    rng = np.random.default_rng(0)
    columns = [first_equal(np.asarray(features)), np.asarray(opcodes, np.int64)]
    classes = [first_equal(np.stack(columns, 1))]
    consumers, producers = np.asarray(edges, np.int64).reshape(-1, 2).T
    for _ in range(depth):
        names = rng.integers(0, 2**64, len(opcodes), np.uint64)[classes[-1]]
        heard = np.zeros((2, len(opcodes)), np.uint64)
        np.add.at(heard[0], consumers, names[producers])
        np.add.at(heard[1], producers, names[consumers])
        classes.append(first_equal(np.stack([names, *heard], 1)))
    return classes


def first_equal(rows: np.ndarray) -> np.ndarray:
    """The first row that is equal to each, bit by bit: [n, ...] -> int64 [n]."""
    if not rows.size:
        return np.zeros(len(rows), np.int64)
    flat = np.ascontiguousarray(rows).reshape(len(rows), -1)
    keys = flat.view(np.dtype((np.void, flat.strides[0])))[:, 0]
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    return first[number.reshape(-1)]


def repeated_shares(classes: List[np.ndarray]) -> List[float]:
    """At each depth, the share of nodes that an earlier one is equal to."""
    return [
        float(np.mean(first != np.arange(len(first)))) if len(first) else 0.0
        for first in classes
    ]
