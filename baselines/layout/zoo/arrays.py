"""The arrays of a program's nodes, read from scaled features by column name."""

from typing import Callable, Dict, Mapping, NamedTuple, Optional, Sequence

import tensorflow as tf

from baselines.hlo import schema

RANK = schema.RANK

# Of output, input and kernel, as configurations list them.
_ROLES = (
    (schema.OUTPUT_BATCH, schema.OUTPUT_FEATURE),
    (schema.INPUT_BATCH, schema.INPUT_FEATURE),
    (schema.KERNEL_INPUT, schema.KERNEL_OUTPUT),
)
_EVERY = range(len(schema.NODE))
_NODE_COLUMNS = {
    'kind': _EVERY[schema.TYPES],
    'dims': _EVERY[schema.DIMENSIONS],
    'dimensions': _EVERY[schema.NODE.block('dimensions')],
    'roles': [column for roles in _ROLES for column in roles],
    'window': [schema.NODE.at('window_size_product')],
}
# Output, input and kernel, each from the fastest dimension on.
_LAYOUTS = range(len(schema.LAYOUT))

Scaling = Optional[Mapping[str, Sequence[float]]]


class Arrays(NamedTuple):
    """Sizes, types and roles of the arrays of n nodes."""

    op: tf.Tensor  # int32 [n]
    dims: tf.Tensor  # float32 [n, 6], 0 where there is none
    rank: tf.Tensor  # int32 [n]
    elements: tf.Tensor  # float32 [n]
    bytes: tf.Tensor  # float32 [n]
    dimensions: tf.Tensor  # int32 [n, 6]: of a transpose or reduction
    roles: tf.Tensor  # float32 [n, 3, 2], batch and features of each array
    window: tf.Tensor  # float32 [n], its positions

    def size_of(self, node: tf.Tensor, array: int, role: int) -> tf.Tensor:
        """Returns sizes in node[i] of the dimension of node i's role: float32 [n]."""
        place = tf.cast(self.roles[:, array, role], tf.int32)
        return tf.reduce_sum(tf.gather(self.dims, node) * tf.one_hot(place, RANK), 1)


def make_arrays(op: tf.Tensor, columns: Mapping[str, tf.Tensor]) -> Arrays:
    """Computes arrays from raw columns.

    Args:
        op: int [n], opcodes.
        columns: raw ones, as `unscaled_nodes` returns them.
    """
    dims = columns['dims']
    elements = tf.reduce_prod(tf.maximum(dims, 1.0), 1)
    sizes = tf.constant([kind.bytes for kind in schema.ELEMENT_TYPES], tf.float32)
    size = tf.reduce_sum(columns['kind'] * sizes, 1)
    dimensions = tf.cast(columns['dimensions'], tf.int32)
    return Arrays(
        op=tf.cast(op, tf.int32),
        dims=dims,
        rank=tf.reduce_sum(tf.cast(dims > 0, tf.int32), 1),
        elements=elements,
        # A tuple or a token counts, too: a byte for each element.
        bytes=elements * tf.maximum(size, 1.0),
        dimensions=tf.clip_by_value(dimensions, 0, RANK - 1),
        roles=tf.reshape(columns['roles'], [-1, 3, 2]),
        window=tf.nn.relu(columns['window'][:, 0]),
    )


def has_opcode(op: tf.Tensor, *names: str) -> tf.Tensor:
    """Marks the nodes with one of the named opcodes: bool [n]."""
    numbers = [schema.OPCODE_NUMBERS[name] for name in names]
    return tf.reduce_any(tf.equal(op[:, tf.newaxis], tf.constant(numbers)), 1)


class Unscaled:
    """Undoes the scaling of features: raw columns by name.

    Args:
        scaling: `node_used`, `node_min`, `node_max` and the same for `config`:
            lists with an entry for each raw column; None: nothing is scaled.
    """

    def __init__(self, scaling: Scaling):
        self._scaling = {
            part: scaling
            and [list(scaling[f'{part}_{name}']) for name in ('used', 'min', 'max')]
            for part in ('node', 'config')
        }

    def nodes(self, feats: tf.Tensor) -> Dict[str, tf.Tensor]:
        """Reads `kind`, `dims`, `dimensions`, `roles`, `window` of [n, scaled columns].

        A column that does not exist is 0 everywhere.
        """
        return self._columns('node', feats, _NODE_COLUMNS, 0.0, tf.round)

    def fastest(self, configs: tf.Tensor) -> tf.Tensor:
        """Reads the two fastest dimensions of output, input and kernel: [cells, 3, 2].

        -1 where there is none.  Not rounded: what reads them is linear in between.
        """
        two = [column for column in _LAYOUTS if column % RANK < 2]
        return tf.reshape(self._layout('config', configs, two), [-1, 3, 2])

    def layouts(self, configs: tf.Tensor) -> tf.Tensor:
        """Reads the layouts of output, input, kernel: [cells, 3, 6], as `fastest`."""
        return tf.reshape(self._layout('config', configs, _LAYOUTS), [-1, 3, RANK])

    def own_layout(self, feats: tf.Tensor) -> tf.Tensor:
        """Reads the layouts that nodes have without a configuration: [n, 6]."""
        layout = self._layout('node', feats, _EVERY[schema.MINOR_TO_MAJOR])
        rank = tf.math.count_nonzero(self.nodes(feats)['dims'], 1, dtype=tf.int32)
        return tf.where(tf.sequence_mask(rank, RANK), layout, -1.0)

    def _layout(self, part: str, x: tf.Tensor, columns: Sequence[int]):
        return self._columns(part, x, {'': columns}, -1.0, tf.identity)['']

    def _columns(
        self,
        part: str,
        x: tf.Tensor,
        columns: Mapping[str, Sequence[int]],
        missing: float,
        finish: Callable[[tf.Tensor], tf.Tensor],
    ):
        width = x.shape[-1]
        used, low, high = self._scaling[part] or (
            [True] * width,
            [0.0] * width,
            [1.0] * width,
        )
        place = {c: i for i, c in enumerate(c for c, u in enumerate(used) if u)}
        index, factor, offset = [], [], []
        for column in (c for wanted in columns.values() for c in wanted):
            exists, kept = column < len(used), column in place
            index.append(place.get(column, 0))
            factor.append(high[column] - low[column] if kept else 0.0)
            offset.append(low[column] if exists else missing)
        raw = finish(tf.gather(x, index, axis=1) * factor + offset)
        parts = tf.split(raw, [len(wanted) for wanted in columns.values()], 1)
        return dict(zip(columns, parts))
