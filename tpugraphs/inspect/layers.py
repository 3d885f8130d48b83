"""Places the nodes of a graph for drawing: in layers, with few crossings."""

from collections.abc import Sequence

import numpy as np

MOST = 400  # nodes of a graph that is drawn
_SWEEPS = 12


def compute_layers(num_nodes: int, edges: np.ndarray) -> np.ndarray:
    """Computes the layers of nodes, below their operands: int64 [n], 0 is the top.

    A node is right above its first user, as HLO graphs are nearly trees.

    Args:
        num_nodes: n.
        edges: int [m, 2], (consumer, producer).

    Raises:
        ValueError: there is a cycle, as in a damaged file.
    """
    # networkx takes a third of a second to import.
    import networkx

    graph = networkx.DiGraph(edges.tolist())
    graph.add_nodes_from(range(num_nodes))
    height = np.zeros(num_nodes, np.int64)
    try:
        for number, generation in enumerate(networkx.topological_generations(graph)):
            height[generation] = number  # 0: without users
    except networkx.NetworkXUnfeasible:
        raise ValueError('its edges form a cycle') from None
    return height.max(initial=0) - height


def place_nodes(
    layer: np.ndarray, edges: np.ndarray, gaps: Sequence[float]
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Orders the nodes of each layer and computes their positions.

    Edges across several layers get a point in every layer, with room like a node.
    Nodes and points move to the mean position of their neighbours, as far as the room
    of others allows.  (networkx's `multipartite_layout` does neither: it keeps the
    given order, and long edges cross the boxes between.)

    Args:
        layer: int [n], from `compute_layers`.
        edges: int [m, 2], (consumer, producer).
        gaps: [n], the room that a node needs to either side.

    Returns:
        x of every node, float [n]; and for every edge its points (x, layer),
        float [p, 2], from producer to consumer.
    """
    # Points are numbered after the n nodes: `count` in all, with a layer and a room
    # each.  A chain has the numbers along an edge.
    row_of, room = layer.tolist(), list(gaps)
    chains = []
    for consumer, producer in edges.tolist():
        between = range(row_of[producer] + 1, row_of[consumer])
        points = range(len(row_of), len(row_of) + len(between))
        chains.append([producer, *points, consumer])
        row_of += between
        room += [min(gaps) / 3] * len(between)
    widths, count = np.array(room), len(row_of)
    # [links]: the ends of links between neighbouring layers.
    links = [link for chain in chains for link in zip(chain, chain[1:])]
    upper, lower = np.array(links, np.int64).reshape(-1, 2).T
    both = np.concatenate([lower, upper]), np.concatenate([upper, lower])
    rows = [np.flatnonzero(np.equal(row_of, row)) for row in range(max(row_of) + 1)]
    x = np.zeros(count)
    for row in rows:
        x[row] = _spread_nodes(x[row], widths[row])
    # Barycentres (Sugiyama et al., 1981): down, a layer is sorted by the means of the
    # layer above, then up by that below; the last two sweeps balance both.
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        nodes, neighbours = (lower, upper) if down else (upper, lower)
        if sweep >= _SWEEPS - 2:
            nodes, neighbours = both
        # [count], how many neighbours each has on that side.
        degree = np.bincount(nodes, minlength=count)
        for row in rows if down else rows[::-1]:
            sums = np.bincount(nodes, x[neighbours], count)
            # [nodes of the layer]; who has no neighbour stays.
            means = np.where(degree, sums / np.maximum(degree, 1), x)[row]
            order = np.argsort(means, kind='stable')
            row[:] = row[order]
            x[row] = _spread_nodes(means[order], widths[row])
    paths = [np.array([(x[i], row_of[i]) for i in chain]) for chain in chains]
    return x[: len(layer)], paths


def _spread_nodes(targets: np.ndarray, room: np.ndarray) -> np.ndarray:
    """Returns the positions nearest to `targets` (ascending) at which nodes have room.

    `room` is needed to either side of each node.
    """
    # [nodes], where they would be side by side without gaps.
    offsets = np.cumsum(room) * 2 - room
    # Without the offsets, the places only have to ascend.
    from scipy import optimize

    return optimize.isotonic_regression(targets - offsets).x + offsets
