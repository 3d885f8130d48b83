"""A program's padded work, as a score of layouts that nobody trained.

    scores = estimate(store, number)  # of a split's program

    score = sum_i share_i * padded_i

share_i is what dot or convolution i has of the program's multiply-adds, and padded_i
how many times as much work its output's layout makes of it (`zoo.products`).  It is
what `PaddedSAGE` begins with.  Of most programs few configurations have scores of
their own: many change no product.
"""

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.layout import flat
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import products as products_lib
from baselines.layout.zoo import spreading


def estimate(store: layout_store.LayoutStore, number: int) -> np.ndarray:
    """Scores the configurations of a program: float64 [configurations].

    Args:
        store: a split of programs, with published columns.
        number: of the program.
    """
    part = store.part
    unscaled = arrays_lib.Unscaled(None)
    features = np.asarray(part('node_feat', number), np.float32)
    op = np.asarray(part('node_opcode', number), np.int32)
    arrays = arrays_lib.make_arrays(op, unscaled.nodes(features))
    consumer, producer = np.asarray(part('edge_index', number), np.int32).T
    chosen = np.asarray(part('node_config_ids', number), np.int32)
    operands = spreading.operands(arrays, (consumer, producer))
    alone = np.ones([len(chosen), 1], np.float32)
    products = products_lib.find(arrays, operands, chosen, alone)
    codes, vectors = store.group_codes(number), store.vectors(number)
    scores = np.empty(len(codes))
    step = max(1, flat.CELLS // max(1, len(chosen)))
    for start in range(0, len(codes), step):
        block = slice(start, start + step)
        node, code, cell = flat.cells(codes[block], len(vectors))
        of_node = products_lib.at(products, node)
        fastest = unscaled.fastest(vectors[code].astype(np.float32))[:, 0]
        fastest = effects.or_row_major(fastest, of_node.dims)
        work = of_node.share * products_lib.padded(of_node, fastest)
        scores[block] = work[:, 0].astype(np.float64)[cell].sum(axis=1)
    return scores[part('config_group', number)]
