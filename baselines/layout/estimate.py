"""A program's padded work, as an untrained score of layouts.

    scores = estimate(store, number)  # of a split's program

    score = sum_i share_i * padded_i

share_i is what dot or convolution i has of the program's multiply-adds, and padded_i
how many times as much work its output's layout makes of it (`padding`).  Of most
programs few configurations have distinct scores: many change no product.
"""

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.layout import layout_table
from baselines.layout import padding
from baselines.layout import shapes


def estimate(store: layout_store.LayoutStore, number: int) -> np.ndarray:
    """Scores the configurations of a program: float64 [configurations].

    Args:
        store: a split of programs, with published columns.
    """
    return estimate_groups(store, number)[store.part('config_group', number)]


def estimate_groups(store: layout_store.LayoutStore, number: int) -> np.ndarray:
    """Scores the different configurations of a program: float64 [groups]."""
    products = _count_products(store, number)
    # Sizes of three arrays are expected: [k, 3, 6]; only the output's are used.
    dims = np.stack([products.dims] * 3, axis=1)
    codes, vectors = store.group_codes(number), store.vectors(number)  # [u, k], [d, 18]
    scores = np.empty(len(codes))
    # Configurations of a block, so that its instructions x configurations fit.
    step = max(1, layout_table.PAIRS // max(1, len(products.share)))
    for start in range(0, len(codes), step):
        block = slice(start, start + step)
        # The work of a product is computed once per layout that it has in the block,
        # [a], and summed over the products of each configuration.
        node, code, assigned = layout_table.find_assignments(codes[block], len(vectors))
        fastest = padding.read_fastest_dimensions(vectors[code], dims[node])[:, 0]
        work = products.share[node] * padding.pad_work(products, node, fastest)
        scores[block] = work.astype(np.float64)[assigned].sum(axis=1)
    return scores


def count_multiply_adds(store: layout_store.LayoutStore, number: int) -> float:
    """Counts the multiply-adds of a program's configurable instructions."""
    return float(_count_products(store, number).total)


def _count_products(store: layout_store.LayoutStore, number: int) -> padding.Products:
    """Counts the multiply-adds of each configurable instruction."""
    arrays, _ = shapes.Arrays.from_store(store, number)
    edges = np.asarray(store.part('edge_index', number)).T  # [2, m]
    chosen = np.asarray(store.part('node_config_ids', number))  # [k]
    return padding.count_products(arrays, shapes.find_operands(arrays, *edges), chosen)
