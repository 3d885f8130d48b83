"""Which configurations of a program are measured.

As in the real collections: `random` draws every layout freely; `default` is a
genetic search that starts at what a compiler takes without measuring, and comes
back to the same configurations again and again.
"""

from typing import Any, Callable, Dict, List

import numpy as np

from baselines.simulated.layout.layouts import WIDTH, Slot

SEARCHES = ('random', 'default')

# Share of the configurations that are measured once more.
REPEATED = 0.02
FEW_REPEATED = 0.97

_GENERATION = 64  # configurations, at most
_ELITE = 0.25
_MUTATIONS = 2.0  # nodes per child, about


def shared(slots: List[Slot], choices: np.ndarray) -> np.ndarray:
    """Lets all instructions with the same choice choose as the first of them.

    Real configurations are like that: they map what a compiler takes without
    measuring to something else, for all instructions of a kind at once.  Takes
    and returns uint8 [c, slots].
    """
    nodes: Dict[int, List[int]] = {}
    for number, slot in enumerate(slots):
        nodes.setdefault(slot.node, []).append(number)
    first: Dict[Any, List[int]] = {}
    source = np.arange(len(slots))
    for numbers in nodes.values():
        kind = tuple((slots[n].layouts, slots[n].default) for n in numbers)
        source[numbers] = first.setdefault(kind, numbers)
    return choices[:, source]


def random_search(
    slots: List[Slot], count: int, rng: np.random.Generator, repeated: float = REPEATED
) -> np.ndarray:
    """Draws configurations, all layouts equally likely: uint8 [count, slots].

    A share of them repeats another one; their order is random.
    """
    sizes = np.array([len(s.layouts) for s in slots])
    fresh = max(1, count - int(repeated * count))
    drawn = rng.integers(0, sizes, (fresh, len(sizes)), np.uint8)
    again = drawn[rng.integers(0, fresh, count - fresh)]
    return rng.permutation(np.concatenate([drawn, again]))


def genetic_search(
    slots: List[Slot],
    count: int,
    rng: np.random.Generator,
    measure: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Searches around the default configuration for fast ones.

    Each generation keeps the quarter that measured fastest so far, and makes
    children of two of them: every configurable node comes from either parent,
    then about two nodes are drawn anew.  Returns all that were measured, in
    random order, uint8 [count, slots].

    Args:
        slots: what there is to choose.
        count: how many configurations to measure in all.
        rng: source of randomness.
        measure: takes uint8 [n, slots], returns noisy runtimes, [n].
    """
    sizes = np.array([len(s.layouts) for s in slots])
    nodes = np.array([s.node for s in slots])
    generation = int(np.clip(count // 12, 2, max(_GENERATION, count // 100)))
    best, best_times = np.array([[s.default for s in slots]], np.uint8), np.zeros(0)
    found = []
    for start in range(0, count, generation):
        pairs = rng.integers(0, len(best), (2, generation))
        first = rng.random((generation, nodes[-1] + 1)) < 0.5
        crossed = np.where(first[:, nodes], best[pairs[0]], best[pairs[1]])
        children = _mutated(crossed, sizes, nodes, rng)
        if not start:
            children[0] = best[0]
            best = best[:0]
        children = children[: count - start]
        found.append(children)
        times = np.concatenate([best_times, measure(children)])
        kept = np.argsort(times, kind='stable')[: max(2, int(_ELITE * generation))]
        best, best_times = np.concatenate([best, children])[kept], times[kept]
    return rng.permutation(np.concatenate(found))


def features(slots: List[Slot], choices: np.ndarray) -> np.ndarray:
    """Writes configurations [c, slots] the way the collection has them.

    Returns:
        int8 [c, k, 18]: output, input, kernel layouts of each node, minor to
        major, 6 values each, -1 where there is none.
    """
    most = max(len(s.layouts) for s in slots)
    table = np.full((len(slots), most, WIDTH), -1, np.int8)
    for i, slot in enumerate(slots):
        for choice, layout in enumerate(slot.layouts):
            listed = layout[: slot.written]
            table[i, choice, : len(listed)] = listed
    nodes = np.array([s.node for s in slots])
    tensors = np.array([s.tensor for s in slots])
    found = np.full((len(choices), nodes[-1] + 1, 3, WIDTH), -1, np.int8)
    found[:, nodes, tensors] = table[np.arange(len(slots)), choices]
    return found.reshape(len(choices), nodes[-1] + 1, 3 * WIDTH)


def _mutated(children, sizes, nodes, rng) -> np.ndarray:
    count = nodes[-1] + 1
    changed = rng.random((len(children), count)) < min(0.5, _MUTATIONS / count)
    drawn = rng.integers(0, sizes, children.shape, np.uint8)
    return np.where(changed[:, nodes], drawn, children)
