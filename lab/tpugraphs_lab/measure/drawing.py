"""Draws the sizes, types and operations of a random program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
import types
from typing import TYPE_CHECKING, TypeVar

import numpy as np

if TYPE_CHECKING:
    import tensorflow as tf

_T = TypeVar('_T')

# Elements of an array in the smallest programs: enough to time.
LEAST, MOST = 1 << 14, 1 << 17
# How many times larger than the smallest arrays those of a program can be.
LARGEST = 256


class Draw:
    """Draws the sizes, types and inputs of one program.

    The functions in `FAMILIES` take it and return the output tensor of their part.

    Args:
        tensorflow: the module of that name.
        new_input: (dimensions, dtype) -> a tensor, one more input of the program.
        largest: largest scale: elements of an array, relative to the smallest
            programs.

    Attributes:
        tf: the module tensorflow.
        rng: the generator.
        inputs: the program's input tensors so far.
        tape: the tf.GradientTape that records the current part.
        kind: the program's floating-point dtype, bfloat16 or float32.
        scale: elements of an array, relative to the smallest programs; log-uniform
            from 1 to `largest`.
    """

    def __init__(
        self,
        tensorflow: types.ModuleType,
        rng: np.random.Generator,
        new_input: Callable[..., tf.Tensor],
        largest: int = LARGEST,
    ):
        self.tf = tensorflow
        self.rng = rng
        self.inputs: list[tf.Tensor] = []
        self.tape: tf.GradientTape  # set for each part
        self._new_input = new_input
        self.kind = self.tf.bfloat16 if rng.random() < 0.4 else self.tf.float32
        self.scale = largest ** rng.random()

    def array(self, *dims: int, kind: tf.DType | None = None) -> tf.Tensor:
        """Adds an input of these dimensions; its dtype is `self.kind` by default."""
        tensor = self._new_input([int(d) for d in dims], kind or self.kind)
        self.inputs.append(tensor)
        if tensor.dtype.is_floating:
            self.tape.watch(tensor)
        return tensor

    def choice(self, options: Sequence[_T]) -> _T:
        """Draws one of the options, all with equal chances."""
        return options[self.rng.integers(len(options))]

    def size(self, low: int, high: int, power: float = 0.25) -> int:
        """Draws a size evenly in its logarithm, half of the time a multiple of 8.

        Args:
            low: smallest size.
            high: largest size in the smallest programs.
            power: exponent of the program's scale, by which `high` is multiplied;
                sizes that count alone, such as the rows of a table, have a larger one
                than sizes that are multiplied with others.
        """
        high = int(high * self.scale**power)
        drawn = round(2 ** self.rng.uniform(np.log2(low), np.log2(high)))
        if drawn >= 16 and self.rng.random() < 0.5:
            drawn = drawn // 8 * 8
        return int(min(high, max(low, drawn)))

    def dims(self, rank: int, least: int = LEAST, most: int = MOST) -> list[int]:
        """Draws the dimensions of an array.

        Args:
            rank: number of dimensions.
            least: least number of elements in the smallest programs.
            most: largest number of elements in the smallest programs.
        """
        least, most = int(least * self.scale), int(most * self.scale)
        for _ in range(1000):
            dims = [self.size(1 if rank > 2 else 4, 1024) for _ in range(rank)]
            if least <= np.prod(dims, dtype=np.int64) <= most:
                return dims
        return [self.size(2, 8) for _ in range(rank - 1)] + [least // 8]

    def any_array(self, low_rank: int = 2, high_rank: int = 5) -> tf.Tensor:
        """Adds an input of a random rank and random dimensions."""
        return self.array(*self.dims(int(self.rng.integers(low_rank, high_rank + 1))))

    def image(self, channels: int = 0) -> tf.Tensor:
        """Adds an input [batch, height, width, channels]; 0 draws the channels."""
        channels = channels or self.size(1, 64)
        side = self.size(7, 40)
        pixels = channels * side * (side + 1)
        batch = max(1, self.size(LEAST, MOST // 2, 0.5) // pixels)
        return self.array(batch, side, side + 1, channels)

    def unary(self, x: tf.Tensor) -> tf.Tensor:
        """Applies a random elementwise function, such as an activation."""
        tf = self.tf
        return self.choice(
            [
                tf.nn.relu,
                tf.nn.relu6,
                tf.tanh,
                tf.sigmoid,
                tf.nn.silu,
                lambda v: tf.nn.gelu(v, approximate=True),
                tf.nn.softplus,
                tf.nn.elu,
                lambda v: tf.nn.leaky_relu(v, 0.1),
                tf.math.rsqrt,
                lambda v: tf.math.log(v + 1),
                lambda v: tf.cos(v) * tf.sin(v),
                tf.square,
                tf.exp,
                lambda v: tf.math.pow(v, 3),
                tf.math.erf,
            ]
        )(x)
