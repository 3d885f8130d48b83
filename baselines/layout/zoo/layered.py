"""`PhysicalModel` with more layers of messages between configurable nodes."""

from typing import List

import tensorflow as tf

from baselines.layout import sparse
from baselines.layout.zoo import options
from baselines.layout.zoo import physical


class Layered(physical.PhysicalModel):
    """`PhysicalModel` with more layers of messages between configurable nodes.

    Each layer:  x = x + activation(norm(messages(x)))

    The graph is the pruned one of `PhysicalModel`: an edge goes from a
    configurable node to every one that its layout reaches.

    Args:
        num_configs: configurations per program in `call`.
        num_ops: size of the opcode embedding, 1 + the largest opcode.
        num_gnns: number of layers.
        join: 'late': they encode nodes, and layouts join afterwards; 'early':
            they pass on what layouts do, once per configuration.
        norm: 'layer' or 'none', before the activation.
        others: those of `PhysicalModel`.

    Raises:
        ValueError: an option is not one of those.
    """

    is_base = True
    _hops_per_layer = 1

    def __init__(
        self,
        num_configs: int,
        num_ops: int,
        num_gnns: int = 2,
        join: str = 'late',
        norm: str = 'layer',
        **others,
    ):
        super().__init__(num_configs, num_ops, **others)
        options.one_of('join', join, ('early', 'late'))
        options.one_of('norm', norm, ('layer', 'none'))
        options.at_least_1(num_gnns=num_gnns)
        self._early, self._norm = join == 'early', norm
        self._gnn_layers = [self._kernels() for _ in range(num_gnns)]

    @property
    def num_gnns(self) -> int:
        """Number of times that cells pass messages."""
        return 1 + self._early * len(self._gnn_layers) * self._hops_per_layer

    def _kernels(self) -> List[tf.keras.layers.Layer]:
        """Makes the weights of a layer."""
        raise NotImplementedError

    def _messages(self, kernels, x, messages):
        """What a layer of these kernels adds to x [cells, h] before the activation.

        Returns:
            x and the messages, where the layer ends.
        """
        raise NotImplementedError

    def _encode_nodes(self, x, messages):
        return x if self._early else self._encode(x, messages)

    def _encode_cells(self, x, cells, messages):
        return self._encode(x, messages) if self._early else x

    def _encode(self, x, messages):
        for kernels in self._gnn_layers:
            x, y = self._messages(kernels, x, messages)
            if self._norm == 'layer':
                y = _normalized(y)
            x += self._activation(y)
        return x

    def _connect(self, matrices):
        rows, cols, values = (tf.concat(part, 0) for part in zip(*matrices))
        return [*matrices, sparse.Matrix(cols, rows, values)]


def _normalized(x: tf.Tensor) -> tf.Tensor:
    """Layer normalisation in plain operations: Keras's fused one is not thread-safe."""
    x -= tf.reduce_mean(x, -1, keepdims=True)
    return x * tf.math.rsqrt(tf.reduce_mean(x**2, -1, keepdims=True) + 1e-3)
