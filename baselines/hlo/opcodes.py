"""Numbers of the HLO opcodes in the dataset: 1 to 120, and 0 for all others."""

import functools
from typing import Iterable, Mapping

import numpy as np

UNKNOWN = 0

# In the order of their numbers.  `trace` and `tuple-select` no longer exist in
# XLA; they keep their numbers.
_NAMES = """
    abs add add-dependency after-all all-reduce all-to-all atan2
    batch-norm-grad batch-norm-inference batch-norm-training bitcast
    bitcast-convert broadcast call ceil cholesky clamp collective-permute
    count-leading-zeros compare complex concatenate conditional constant convert
    convolution copy copy-done copy-start cosine custom-call divide domain dot
    dynamic-slice dynamic-update-slice exponential exponential-minus-one fft
    floor fusion gather get-dimension-size set-dimension-size get-tuple-element
    imag infeed iota is-finite log log-plus-one and not or xor map maximum
    minimum multiply negate outfeed pad parameter partition-id popcnt power real
    recv recv-done reduce reduce-precision reduce-window remainder replica-id
    reshape reverse rng rng-get-and-update-state rng-bit-generator
    round-nearest-afz rsqrt scatter select select-and-scatter send send-done
    shift-left shift-right-arithmetic shift-right-logical sign sine slice sort
    sqrt subtract tanh trace transpose triangular-solve tuple tuple-select while
    cbrt all-gather collective-permute-start collective-permute-done logistic
    dynamic-reshape all-reduce-start all-reduce-done reduce-scatter
    all-gather-start all-gather-done opt-barrier async-start async-update
    async-done round-nearest-even stochastic-convert tan
"""


@functools.lru_cache(maxsize=None)
def table() -> Mapping[str, int]:
    """Returns opcode name -> number (1-based)."""
    return {name: i for i, name in enumerate(_NAMES.split(), start=1)}


@functools.lru_cache(maxsize=None)
def names() -> Mapping[int, str]:
    """Returns number -> opcode name."""
    return {number: name for name, number in table().items()}


def numbers(opcodes: Iterable[str]) -> np.ndarray:
    """Returns the numbers of opcode names, uint8; `UNKNOWN` if not in the table.

    Names are matched exactly, case included.
    """
    known = table()
    return np.array([known.get(o, UNKNOWN) for o in opcodes], np.uint8)
