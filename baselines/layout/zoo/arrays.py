"""The arrays of a program's nodes, read from scaled features by column name."""

from typing import Dict, Mapping, NamedTuple, Optional, Sequence

import numpy as np

from baselines.hlo import schema
from baselines.layout import operations
from baselines.layout.operations import Array

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

    op: Array  # int32 [n]
    dims: Array  # float32 [n, 6], 0 where there is none
    rank: Array  # int32 [n]
    elements: Array  # float32 [n]
    bytes: Array  # float32 [n]
    dimensions: Array  # int32 [n, 6]: of a transpose or reduction
    roles: Array  # float32 [n, 3, 2], batch and features of each array
    window: Array  # float32 [n], its positions

    def size_of(self, node: Array, array: int, role: int) -> Array:
        """Returns sizes in node[i] of the dimension of node i's role: float32 [n]."""
        ops = operations.of(self.dims)
        place = ops.cast(self.roles[:, array, role], ops.int32)
        return ops.reduce_sum(ops.gather(self.dims, node) * ops.one_hot(place, RANK), 1)


def make_arrays(op: Array, columns: Mapping[str, Array]) -> Arrays:
    """Computes arrays from raw columns.

    Args:
        op: int [n], opcodes.
        columns: raw ones, as `unscaled_nodes` returns them.
    """
    ops = operations.of(op)
    dims = columns['dims']
    elements = ops.reduce_prod(ops.maximum(dims, 1.0), 1)
    sizes = ops.constant([kind.bytes for kind in schema.ELEMENT_TYPES], ops.float32)
    size = ops.reduce_sum(columns['kind'] * sizes, 1)
    dimensions = ops.cast(columns['dimensions'], ops.int32)
    return Arrays(
        op=ops.cast(op, ops.int32),
        dims=dims,
        rank=ops.reduce_sum(ops.cast(dims > 0, ops.int32), 1),
        elements=elements,
        # A tuple or a token counts, too: a byte for each element.
        bytes=elements * ops.maximum(size, 1.0),
        dimensions=ops.clip_by_value(dimensions, 0, RANK - 1),
        roles=ops.reshape(columns['roles'], [-1, 3, 2]),
        window=ops.nn.relu(columns['window'][:, 0]),
    )


def has_opcode(op: Array, *names: str) -> Array:
    """Marks the nodes with one of the named opcodes: bool [n]."""
    ops = operations.of(op)
    numbers = [schema.OPCODE_NUMBERS[name] for name in names]
    return ops.reduce_any(ops.equal(op[:, np.newaxis], ops.constant(numbers)), 1)


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

    def nodes(self, feats: Array) -> Dict[str, Array]:
        """Reads `kind`, `dims`, `dimensions`, `roles`, `window` of [n, scaled columns].

        A column that does not exist is 0 everywhere.
        """
        return self._columns('node', feats, _NODE_COLUMNS, 0.0, is_whole=True)

    def fastest(self, configs: Array) -> Array:
        """Reads the two fastest dimensions of output, input and kernel: [cells, 3, 2].

        -1 where there is none.  Not rounded: what reads them is linear in between.
        """
        ops = operations.of(configs)
        two = [column for column in _LAYOUTS if column % RANK < 2]
        return ops.reshape(self._layout('config', configs, two), [-1, 3, 2])

    def layouts(self, configs: Array) -> Array:
        """Reads the layouts of output, input, kernel: [cells, 3, 6], as `fastest`."""
        ops = operations.of(configs)
        return ops.reshape(self._layout('config', configs, _LAYOUTS), [-1, 3, RANK])

    def own_layout(self, feats: Array) -> Array:
        """Reads the layouts that nodes have without a configuration: [n, 6]."""
        ops = operations.of(feats)
        layout = self._layout('node', feats, _EVERY[schema.MINOR_TO_MAJOR])
        rank = ops.math.count_nonzero(self.nodes(feats)['dims'], 1, dtype=ops.int32)
        return ops.where(ops.sequence_mask(rank, RANK), layout, -1.0)

    def _layout(self, part: str, x: Array, columns: Sequence[int]):
        return self._columns(part, x, {'': columns}, -1.0)['']

    def _columns(
        self,
        part: str,
        x: Array,
        columns: Mapping[str, Sequence[int]],
        missing: float,
        is_whole: bool = False,
    ):
        ops, width = operations.of(x), x.shape[-1]
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
        raw = ops.gather(x, index, axis=1) * ops.constant(factor)
        raw += ops.constant(offset)
        raw = ops.round(raw) if is_whole else raw
        parts = ops.split(raw, [len(wanted) for wanted in columns.values()], 1)
        return dict(zip(columns, parts))
