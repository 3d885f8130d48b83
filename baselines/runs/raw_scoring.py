"""Scores raw features of graphs with a run's graph model, in TensorFlow alone.

The normaliser is inside, and memory stays small: configurations are scored in slices,
as `tiles.scoring` and `layout.scoring` do it.  Shapes and numbers of nodes are checked
inside, because TensorFlow accepts inputs of other sizes than a signature's.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from baselines.data import collections
from baselines.data.packed import splits
from baselines.features import column_sets
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.layout import graphs as layout_graphs
from baselines.runs import run_files
from baselines.tiles import scoring

_Inputs = Mapping[str, tf.Tensor]

# Configurations of a program that are scored together; a number that models can
# read, so that every one of them is exported alike.
_LAYOUTS_AT_ONCE = 16


class GraphModel(NamedTuple):
    """A run's graph model, and what it reads."""

    run: run_files.RunFile  # the run
    model: tf.keras.Model  # the Keras model
    scaling: normalizer_lib.Scaling  # of the features
    variant: splits.Variant  # the columns of the raw features
    collection: collections.Collection  # of the graphs that it is to score
    adds_to_formula: bool = False  # whether its scores are added to those of --estimate
    # columns that all nodes have after those of `variant`, with the values of the
    # collection, in a run of several
    flags: Sequence[float] = ()


def name_table_columns(exported: GraphModel) -> list[str]:
    """Names the columns that `features.tile_table` computes for a model, in order."""
    sets = column_sets.find(exported.scaling.normalizer.table_ranges)
    return [name for columns in sets.values() for name in columns.names]


def list_input_specs(exported: GraphModel) -> dict[str, tf.TensorSpec]:
    """Returns the types of the inputs by name."""
    variant = exported.variant
    specs = [
        tf.TensorSpec([None, variant.node_features], tf.float32, 'node_feat'),
        tf.TensorSpec([None], tf.int32, 'node_opcode'),
        tf.TensorSpec([None, 2], tf.int32, 'edge_index'),
    ]
    columns = variant.config_features
    if exported.run.task == reading.TILE:
        specs.append(tf.TensorSpec([None, columns], tf.float32, 'config_feat'))
        computed = name_table_columns(exported)
        if computed:
            shape = [None, len(computed)]
            specs.append(tf.TensorSpec(shape, tf.float32, 'config_table'))
    else:
        # The sizes of both axes are free: configurations, and configurable nodes.
        shape = [None, None, columns]
        specs.append(tf.TensorSpec([None], tf.int32, 'node_config_ids'))
        specs.append(tf.TensorSpec(shape, tf.float32, 'node_config_feat'))
        if exported.adds_to_formula:
            specs.append(tf.TensorSpec([None], tf.float32, 'prior'))
    return {spec.name: spec for spec in specs}


def make_scorer(exported: GraphModel) -> Callable[..., dict[str, tf.Tensor]]:
    """Returns a function of the inputs by name that returns 'scores', float32 [c].

    Its inputs are those of `list_input_specs`.
    An input that does not fit raises an InvalidArgumentError that names it.
    """
    make = {reading.TILE: _make_tile_scorer, reading.LAYOUT: _make_layout_scorer}
    score = make[exported.run.task](exported)
    specs = list_input_specs(exported)

    def scores(**inputs: tf.Tensor) -> dict[str, tf.Tensor]:
        return {'scores': score(_check_inputs(inputs, specs))}

    return scores


def _check_inputs(
    inputs: _Inputs, specs: Mapping[str, tf.TensorSpec]
) -> dict[str, tf.Tensor]:
    """Returns the inputs, computed only when their checks have passed.

    An InvalidArgumentError names the first input that is not as `specs` says, or that
    does not fit another one.
    """
    # Assertions inside the graph: a SavedModel is called from other languages, where
    # nothing else checks its inputs.
    checks: list[tf.Operation] = []
    for condition, key, wanted in _list_requirements(inputs, specs):
        message = f'{key}: {wanted}; its shape is'
        # Each waits for the one before, or any of several failures could be reported.
        with tf.control_dependencies(list(checks)):
            shape = tf.shape(inputs[key])
            checks.append(tf.debugging.Assert(condition, [message, shape]))
    with tf.control_dependencies(checks):
        return {
            key: tf.ensure_shape(tf.identity(tensor), specs[key].shape)
            for key, tensor in inputs.items()
        }


def _list_requirements(
    inputs: _Inputs, specs: Mapping[str, tf.TensorSpec]
) -> Iterator[tuple[tf.Tensor, str, str]]:
    """Yields what inputs must satisfy: (condition, name of the input, message)."""
    sizes = {key: tf.shape(tensor) for key, tensor in inputs.items()}

    def require_length(key: str, axis: int, like: str) -> tuple[tf.Tensor, str, str]:
        condition = tf.equal(sizes[key][axis], sizes[like][0])
        return condition, key, f'axis {axis} must be as long as {like}'

    def require_below(
        key: str, end: int | tf.Tensor, message: str
    ) -> tuple[tf.Tensor, str, str]:
        tensor = inputs[key]
        return tf.reduce_all((tensor >= 0) & (tensor < end)), key, message

    for key, spec in specs.items():
        columns = spec.shape[-1]
        if columns is not None:
            condition = tf.equal(sizes[key][-1], columns)
            yield condition, key, f'must have {columns} columns'
        if key != 'edge_index':  # a graph of one node has no edges
            yield tf.reduce_all(sizes[key] > 0), key, 'is empty'
    yield require_length('node_opcode', 0, 'node_feat')
    yield require_below('node_opcode', 1 << 8, 'opcodes are from 0 to 255')
    nodes = sizes['node_feat'][0]
    yield require_below('edge_index', nodes, 'has a node that does not exist')
    if 'config_table' in inputs:
        yield require_length('config_table', 0, 'config_feat')
    if 'node_config_ids' in inputs:
        yield require_below('node_config_ids', nodes, 'has a node that does not exist')
        yield require_length('node_config_feat', 1, 'node_config_ids')
    if 'prior' in inputs:
        yield require_length('prior', 0, 'node_config_feat')


def _pack_nodes(inputs: _Inputs, exported: GraphModel) -> dict[str, tf.Tensor]:
    """Packs a graph's nodes and edges, which both tasks have."""
    op, scaling = inputs['node_opcode'], exported.scaling
    features = inputs['node_feat']
    if exported.flags:
        of_all = tf.tile([[*map(float, exported.flags)]], [tf.shape(op)[0], 1])
        features = tf.concat([features, of_all], axis=1)
    return {
        # Opcodes that the model has no row for get the number of unknown ones.
        'op': tf.cast(
            tf.where(op < scaling.num_ops, op, schema.UNKNOWN_OPCODE), tf.uint8
        ),
        'feats': scale_columns(features, 'node', scaling.normalizer),
        'edges': inputs['edge_index'],
    }


def _make_tile_scorer(exported: GraphModel) -> Callable[[_Inputs], tf.Tensor]:
    """Returns a function that scores a kernel with TensorFlow alone: float32 [c]."""
    model, scaling = exported.model, exported.scaling
    most = scoring.pairs_per_item(model)

    def score(inputs: _Inputs) -> tf.Tensor:
        # As `TileGraphs.pack_all`: slices of at most `most` pairs of a node and a
        # configuration, of nearly equal size.  All items share the nodes and edges.
        nodes, edges, configs = (
            tf.shape(inputs[name], tf.int64)[0]
            for name in ('node_opcode', 'edge_index', 'config_feat')
        )
        one = tf.constant(1, tf.int64)
        # Rounded up; at least one configuration in an item, however large the kernel.
        items = -(-configs // tf.maximum(most // nodes, one)) if most else one
        share, rest = configs // items, configs % items
        # The first `rest` items have one configuration more.
        sizes = share + tf.cast(tf.range(items) < rest, tf.int64)
        same = tf.zeros([items], tf.int64)  # all begin with node 0, and edge 0
        features = scale_columns(inputs['config_feat'], 'config', scaling.normalizer)
        if 'config_table' in inputs:
            table = scaling.normalizer.table(inputs['config_table'])
            features = tf.concat([features, table], axis=1)
        packed = {
            **_pack_nodes(inputs, exported),
            'edges': tf.cast(inputs['edge_index'], tf.int64),
            'config_feats': features,
            # Labels are not needed; `unpack` reads them.
            'runtimes': tf.ones([configs], tf.float64),
            'normalizers': tf.ones([configs], tf.int64),
            'node_start': same,
            'edge_start': same,
            'config_start': tf.cumsum(sizes, exclusive=True),
            'node_sizes': tf.fill([items, 1], nodes),
            'edge_sizes': tf.fill([items, 1], edges),
            'configs_per_kernel': tf.cast(sizes, tf.int32),
            'tile_ids': tf.fill([items, 1], ''),
        }
        return scoring.score_items(model, packed)

    return score


def _make_layout_scorer(exported: GraphModel) -> Callable[[_Inputs], tf.Tensor]:
    """Returns a function that scores a program with TensorFlow alone: float32 [c]."""
    most, forward = _LAYOUTS_AT_ONCE, exported.model.forward
    scaling = exported.scaling

    def score(inputs: _Inputs) -> tf.Tensor:
        graph = _pack_nodes(inputs, exported)
        features = inputs['node_config_feat']
        configurable = tf.shape(features)[1]
        rows = scale_columns(features, 'config', scaling.normalizer)
        nodes, edges = tf.shape(graph['op'])[0], tf.shape(graph['edges'])[0]

        def score_slice(taken: tf.Tensor) -> tf.Tensor:
            # As the packed layouts: `vectors` are rows of features, and `codes` say
            # which one a node (row) has in a configuration (column).
            vectors = tf.reshape(taken, [-1, rows.shape[2]])
            # [k, most]: the vector of node i in configuration j is row j * k + i.
            codes = tf.range(most) * configurable + tf.range(configurable)[:, None]
            packed = {
                **graph,
                'config_ops': inputs['node_config_ids'],
                'codes': codes,
                'vectors': vectors,
                'node_start': [0],
                'edge_start': [0],
                'config_start': [0],
                'node_sizes': [[nodes]],
                'edge_sizes': [[edges]],
                'config_sizes': [[configurable]],
                'segments': [[[0, nodes]]],
                'runtimes': tf.ones([1, 1, most]),
                'graph_ids': [['']],
            }
            tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
            batch, _ = layout_graphs.unpack(tensors, 0, 1, most)
            return tf.reshape(forward(batch, most), [most])

        # [c, k, features] in slices of 16 configurations.
        scores = _score_slices(score_slice, rows, most)
        return scores + inputs['prior'] if 'prior' in inputs else scores

    return score


def _score_slices(
    score: Callable[[tf.Tensor], tf.Tensor], rows: tf.Tensor, size: int
) -> tf.Tensor:
    """Scores configurations in slices of one size, which bounds the memory.

    Args:
        score: gives float32 [size] for `size` rows.
        rows: [configurations, ...]; a last slice is filled up with the last row.

    Returns:
        float32 [configurations].
    """
    # The model is traced for one number of configurations, so the last slice
    # repeats its last row.
    count = tf.shape(rows)[0]

    def score_slice(start: tf.Tensor) -> tf.Tensor:
        return score(tf.gather(rows, tf.minimum(start + tf.range(size), count - 1)))

    scores = tf.map_fn(
        score_slice,
        tf.range(0, count, size),
        fn_output_signature=tf.float32,
        parallel_iterations=1,  # one slice in memory at a time
    )
    return tf.reshape(scores, [-1])[:count]


def scale_columns(
    raw: tf.Tensor, part: str, normalizer: normalizer_lib.Normalizer
) -> tf.Tensor:
    """Scales columns as `Normalizer.nodes` and `configs` do, in TensorFlow.

    Args:
        raw: float32 [..., columns].
        part: 'node' or 'config'.
    """
    used, low, span = normalizer.scales[part]
    kept = tf.gather(raw, used.astype(np.int32), axis=-1)
    return (kept - low) / span
