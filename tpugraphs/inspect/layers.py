"""Places the nodes of a graph for drawing: in layers, with few crossings."""

from typing import Dict, List, Sequence, Tuple

import numpy as np

_SWEEPS = 12


def layers(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Computes the layers of nodes, below their operands: int64 [n], 0 is the top.

    A node stands right above its first user: HLO graphs are nearly trees, so
    this leaves few long lines.  Nodes on a cycle (in damaged files) stay in the layer
    in which they were reached first.

    Args:
        num_nodes: n.
        edges: int [m, 2], (consumer, producer).
    """
    consumers: List[List[int]] = [[] for _ in range(num_nodes)]
    waiting = np.zeros(num_nodes, np.int64)
    for consumer, producer in edges.tolist():
        consumers[producer].append(consumer)
        waiting[consumer] += 1
    layer = np.zeros(num_nodes, np.int64)
    ready = np.flatnonzero(waiting == 0).tolist()
    reached = []
    while ready:
        producer = ready.pop()
        reached.append(producer)
        for consumer in consumers[producer]:
            layer[consumer] = max(layer[consumer], layer[producer] + 1)
            waiting[consumer] -= 1
            if not waiting[consumer]:
                ready.append(consumer)
    for node in reversed(reached):
        if consumers[node]:
            lowest = min(layer[c] for c in consumers[node]) - 1
            layer[node] = max(layer[node], lowest)
    return layer


def place(
    layer: np.ndarray, edges: np.ndarray, gaps: Sequence[float]
) -> Tuple[np.ndarray, List[np.ndarray]]:
    """Orders the nodes within their layers and computes their positions.

    Edges across several layers get a point in every layer, with room like a node.
    Nodes and points move to the mean position of their neighbours, as far as the room
    of others allows.

    Args:
        layer: int [n], from `layers`.
        edges: int [m, 2], (consumer, producer).
        gaps: [n], the room that a node needs to either side.

    Returns:
        x of every node, float [n]; and for every edge its points (x, layer),
        float [p, 2], from producer to consumer.
    """
    all_layers = layer.tolist()
    room = list(gaps)
    chains = []
    for consumer, producer in edges.tolist():
        chain = [producer]
        for between in range(all_layers[producer] + 1, all_layers[consumer]):
            chain.append(len(all_layers))
            all_layers.append(between)
            room.append(min(gaps) / 3)
        chains.append(chain + [consumer])
    above: Dict[int, List[int]] = {i: [] for i in range(len(all_layers))}
    below: Dict[int, List[int]] = {i: [] for i in range(len(all_layers))}
    for chain in chains:
        for upper, lower in zip(chain, chain[1:]):
            above[lower].append(upper)
            below[upper].append(lower)
    rows: List[List[int]] = [[] for _ in range(max(all_layers, default=-1) + 1)]
    for node, row in enumerate(all_layers):
        rows[row].append(node)
    x = np.zeros(len(all_layers))
    for row in rows:
        x[row] = _spread(np.zeros(len(row)), [room[i] for i in row])
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        if sweep >= _SWEEPS - 2:
            near = {i: above[i] + below[i] for i in above}
        for row in rows if down else rows[::-1]:
            means = np.array([np.mean(x[near[i]]) if near[i] else x[i] for i in row])
            order = np.argsort(means, kind='stable')
            row[:] = [row[i] for i in order]
            x[row] = _spread(means[order], [room[i] for i in row])
    paths = [np.array([(x[i], all_layers[i]) for i in chain]) for chain in chains]
    return x[: len(layer)], paths


def _spread(targets: np.ndarray, room: Sequence[float]) -> np.ndarray:
    """Returns the positions nearest to `targets` (ascending) that keep the room."""
    sizes = np.asarray(room)
    offsets = np.cumsum(sizes) * 2 - sizes
    # Without the offsets, the places only have to ascend.
    from scipy import optimize

    return optimize.isotonic_regression(targets - offsets).x + offsets
