"""The models without attention."""

from typing import List

import tensorflow as tf

from baselines.layout.zoo import layered
from baselines.layout.zoo import physical


class HybridSAGE(physical.PhysicalModel):
    """`PhysicalModel` as it is; unlike the tile model, without an estimate of time.

    Args: those of `PhysicalModel`.
    """


class ResSAGE(layered.Layered):
    """Residual GraphSAGE on configurable nodes (the tile model: on all).

        y = W x + U mean over sources + V mean over targets

    Args: those of `Layered`.
    """

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width), *_without_bias(self._width)]

    def _messages(self, kernels, x, messages):
        mine, inwards, outwards = kernels
        y_in, y_out = messages.sums(inwards(x), outwards(x))
        d_in, d_out = tf.split(tf.maximum(messages.degrees(), 1.0), 2, 1)
        x = messages.here(x)
        return x, mine(x) + y_in / d_in + y_out / d_out


class GCN(layered.Layered):
    """Graph convolution on configurable nodes (the tile model: on all).

        y = D^-1/2 (A + A' + I) D^-1/2 x W

    Args: those of `Layered`.
    """

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width)]

    def _messages(self, kernels, x, messages):
        y = x * messages.scale(1.0)
        y = tf.add_n(messages.sums(y, y))
        x = messages.here(x)
        scale = messages.scale(1.0)
        return x, kernels[0](scale * (y + scale * x))


class ChebSAGE(layered.Layered):
    """Chebyshev filters of order 2 alone (the tile model: next to GraphSAGE).

        y = sum_k T_k(L) x W_k,  L = -D^-1/2 (A + A') D^-1/2

    Args: those of `Layered`.
    """

    _hops_per_layer = 2

    def _kernels(self):
        return [tf.keras.layers.Dense(self._width), *_without_bias(self._width)]

    def _messages(self, kernels, x, messages):
        first = self._laplacian(x, messages)
        x = messages.here(x)
        second = 2.0 * self._laplacian(first, messages)
        x, first = messages.here(x), messages.here(first)
        zeroth, *more = kernels
        return x, zeroth(x) + more[0](first) + more[1](second - x)

    def _laplacian(self, x, messages):
        y = x * messages.scale(0.0)
        y = tf.add_n(messages.sums(y, y))
        return -y * messages.scale(0.0)


def _without_bias(width: int) -> List[tf.keras.layers.Layer]:
    return [tf.keras.layers.Dense(width, use_bias=False) for _ in range(2)]
