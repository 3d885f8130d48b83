"""The second simulator's programs: none is the first one's, nor its shapes."""

from typing import Any, Dict

import numpy as np

from baselines.data.collections import SPLITS
from baselines.simulated.tile.programs import Program, weighted

_COUNTS = {'train': 30, 'valid': 8, 'test': 10}

_SNIPPETS = (
    'relu residual bias scale scale_shift gelu swish dropout clip square mask_bias '
    'momentum root_divide divide_rows normalise_rows exponentials'
).split()
_POINTWISE = (
    'gated 2, pointwise 3, normalise_whole 2, sum_middle 2, sum_all_but_first 1, '
    'sum_last 2, split_heads 2, step 1, lone_copy 1, flip 1, table 1'
)


def program(split: str, index: int, seed: int) -> Program:
    """Returns the program of a kernel of a split; programs take turns."""
    number = index % _COUNTS[split]
    rng = np.random.default_rng([seed, 9109, SPLITS.index(split), number])
    family = ('encoder', 'vision', 'sequence')[number % 3]
    make = {'encoder': _encoder, 'vision': _vision, 'sequence': _sequence}[family]
    return make(f'sim_other_{family}_{split}_{number}', split, rng)


def _near(rng, low: int, high: int, multiple: int) -> int:
    """A size, uniform in its logarithm, a multiple of something."""
    value = np.exp(rng.uniform(np.log(low), np.log(high)))
    return max(int(round(value / multiple)), 1) * multiple


def _common(name: str, split: str, rng) -> Dict[str, Any]:
    chosen = rng.choice(len(_SNIPPETS), size=8, replace=False)
    return {
        'name': name,
        'split': split,
        'layout': {},
        'dtype': 'bf16' if rng.random() < 0.4 else 'f32',
        'narrow': 0.5,
        'permuted': float(rng.choice([0.0, 0.0, 0.5])),
        'snippets': ' '.join(_SNIPPETS[i] for i in sorted(chosen)),
    }


def _encoder(name: str, split: str, rng) -> Program:
    batch, length = _near(rng, 2, 48, 1), _near(rng, 40, 600, 4)
    hidden = _near(rng, 192, 1280, 32)
    inner = int(hidden * rng.choice([2, 3, 4]))
    heads = int(rng.choice([4, 6, 8, 12]))
    depth = max(hidden // heads, 16)
    rows = batch * length
    return Program(
        **_common(name, split, rng),
        activations=((batch, length, hidden), (batch, length, inner),
                     (batch, heads, length, depth), (rows, hidden)),
        weights=((hidden, inner), (inner, hidden), (hidden, 3 * hidden)),
        products=((rows, hidden, inner), (rows, inner, hidden),
                  (rows, hidden, hidden), (batch, hidden, 500)),
        attentions=((batch * heads, length, length, depth),
                    (batch * heads, length, depth, length)),
        kinds=weighted(f'{_POINTWISE}, project 7, weight_gradient 5, mix_values 5'),
    )  # fmt: skip


def _vision(name: str, split: str, rng) -> Program:
    batch, side = _near(rng, 2, 128, 2), _near(rng, 10, 60, 2)
    width = _near(rng, 24, 320, 8)
    channels = int(rng.choice([3, 4, 12, 16]))
    rows, half = batch * side, side // 2
    return Program(
        **_common(name, split, rng),
        activations=((batch, side, side, width), (batch, half, half, 2 * width),
                     (batch, side, side, 3 * width)),
        weights=((9 * width, width), (width, 4 * width), (25 * width, 2 * width)),
        products=((rows, width, 4 * width), (rows, 4 * width, width)),
        convolutions=((batch, side, channels, width, 7, 2),
                      (batch, side, width, width, 3, 1),
                      (batch, side, width, 4 * width, 1, 1),
                      (batch, half, width, 2 * width, 5, 2),
                      (batch, half, 4 * width, width, 1, 1)),
        kinds=weighted(
            f'{_POINTWISE}, pool 4, convolve 14, project 2, weight_gradient 2'),
    )  # fmt: skip


def _sequence(name: str, split: str, rng) -> Program:
    steps, batch = _near(rng, 12, 200, 1), _near(rng, 8, 256, 4)
    hidden, words = _near(rng, 128, 900, 8), _near(rng, 1500, 12000, 50)
    heads = int(rng.choice([2, 4, 8]))
    return Program(
        **_common(name, split, rng),
        activations=((batch, hidden), (steps, batch, hidden),
                     (batch, steps, 2 * hidden), (batch, words)),
        weights=((hidden, 4 * hidden), (words, hidden), (2 * hidden, hidden)),
        products=((batch, hidden, 4 * hidden), (steps * batch, hidden, words // 4),
                  (batch, hidden, words), (steps * batch, 2 * hidden, hidden)),
        attentions=((batch * heads, steps, steps, max(hidden // heads, 16)),),
        kinds=weighted(f'{_POINTWISE}, project 7, weight_gradient 5, mix_values 2'),
    )  # fmt: skip
