"""Rule books: what of the costs in `costs` depends on layouts, and how strongly.

Nobody knows the rules of the real machine, and a model that is trained on one
book learns that book.  So there are several: train on one, test on another.

    roofline   everything in `costs` counts as it stands; noise 0.3 %
    products   only what padding does to the work of the matrix units counts, and
               configurations decide once for all instructions of a kind: what
               two measured programs look like; noise 0.001 %
    drawn      for each program, how much of everything else counts is drawn
               anew, mostly nothing; as is which of the two rules products have
"""

from typing import Mapping, NamedTuple

import numpy as np


class Rules(NamedTuple):
    """How strongly layouts matter, by what they do."""

    copies: float = 1.0  # share of their time that copies and reshapes take
    turns: float = 1.0  # share of the slots that it takes to turn operands of a product
    # share of what padding adds to the traffic of operands of a product
    operands: float = 1.0
    traffic: float = 1.0  # the same of its output, and of the time of everything else
    # whether products sum over windows and features at once, see `costs.product_ns`
    folded: bool = False
    least_rows: int = 128  # fewer rows take as long, in folded products
    # whether a configuration chooses once for all instructions with the same choice
    shared: bool = False
    noise: float = 0.003  # relative standard deviation of a measurement


BOOKS: Mapping[str, Rules] = {
    'roofline': Rules(),
    'products': Rules(
        copies=0.0,
        turns=0.0,
        operands=0.0,
        traffic=0.0,
        folded=True,
        least_rows=32,
        shared=True,
        noise=1e-5,
    ),
}
NAMES = (*BOOKS, 'drawn')


def rules_of(book: str, rng: np.random.Generator) -> Rules:
    """Returns the rules of one program; `rng` decides where the book leaves it open."""
    if book in BOOKS:
        return BOOKS[book]

    def share(often):
        """Nothing, or as often as that from 1 % to all."""
        return float(rng.random() < often) * 10 ** -rng.uniform(0, 2)

    return Rules(
        copies=share(0.2),
        turns=share(0.2),
        operands=share(0.2),
        traffic=share(0.5),
        folded=bool(rng.random() < 0.75),
        least_rows=int(rng.choice([16, 32, 64, 128])),
        shared=bool(rng.random() < 0.5),
        noise=10 ** -rng.uniform(2.5, 5),
    )
