"""Writes a graph model as a SavedModel that scores raw features with TensorFlow alone.

One signature, `serving_default`, with named inputs of free sizes (n nodes, m edges,
c configurations, k configurable nodes) and the output `scores`, float32 [c]:

    tile    node_feat [n, F], node_opcode [n], edge_index [m, 2], config_feat [c, 24]
    layout  the first three, node_config_ids [k], node_config_feat [c, k, 18]

A tile model with computed columns (--estimate, --tile_columns, --loop_columns) has one
more input, `config_table` [c, T]: see `features.tile_table`, which needs no TensorFlow.
So has a layout model with --estimate: `prior` [c], see `tasks.layout.prior`.

The normaliser is inside, and memory stays small: configurations are scored in slices,
as `tiles.scoring` and `layout.scoring` do it.  Shapes and numbers of nodes are checked
inside, because TensorFlow accepts inputs of other sizes than a signature's.

`assets.extra/metadata.json` describes the model: versions, the names of columns, units.
Trees are exported as LightGBM's own text file, with such a description.
"""

import json
import os
import shutil
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
import tensorflow as tf

from baselines.core import files
from baselines.data import collections
from baselines.data import variants
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.layout import graphs as layout_graphs
from baselines.runs import run_files
from baselines.runs import scaling as scaling_lib
from baselines.tiles import scoring
from baselines.trees import booster

_Inputs = Mapping[str, tf.Tensor]

_SCORES = (
    'of each configuration; lower is predicted faster. No unit: only the order within '
    'a graph means something'
)
# Configurations of a program that are scored together; a number that models can
# read, so that every one of them is exported alike.
_LAYOUTS_AT_ONCE = 16

_MEANINGS = {
    'node_feat': 'one row per node; sizes in elements, flags 0 or 1',
    'node_opcode': 'place in `opcodes`, from 1; 0 for others',
    'edge_index': 'rows (consumer, producer), nodes counted from 0',
    'config_feat': 'one row per configuration; bounds as in the training data',
    'config_table': 'one row per configuration, computed by features.tile_table',
    'node_config_ids': 'nodes whose layouts are configured, counted from 0',
    'node_config_feat': 'minor_to_major by configuration and configurable node',
    'prior': 'scores by the formula, computed by tasks.layout.prior; they are added',
}


class GraphModel(NamedTuple):
    """A run's graph model, and what it reads.

    Attributes:
        run: the run.
        model: the Keras model.
        scaling: of the features.
        variant: the columns of the raw features.
        collection: of the graphs that it is to score.
        adds_to_formula: whether its scores are added to those of --estimate.
        flags: columns that all nodes have after those of `variant`, with the values of
            the collection, in a run of several.
    """

    run: run_files.Run
    model: tf.keras.Model
    scaling: scaling_lib.Scaling
    variant: variants.Variant
    collection: collections.Collection
    adds_to_formula: bool = False
    flags: Sequence[float] = ()


def check_output(output: str) -> None:
    """Raises ValueError unless the folder is new, or empty."""
    path = files.expand(output)
    if os.path.exists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise ValueError(f'{path} is there already: name a new folder')


def export(exported: GraphModel, output: str) -> Dict[str, List[Any]]:
    """Writes a graph model as a SavedModel.

    Args:
        exported: the model.
        output: a folder that does not exist yet, or is empty.

    Returns:
        The inputs: their shapes by name, None where a size is free.

    Raises:
        ValueError: the folder is in use, or the model cannot be traced.
        OSError: it cannot be written.
    """
    check_output(output)
    output = files.expand(output)
    model, name = exported.model, exported.run.args['model']
    if getattr(model, 'scores_depend_on_list', False):
        raise ValueError(
            f'{name} scores configurations together, in random lists; '
            '`tpugraphs rank --json` serves it'
        )
    make = {reading.TILE: _tile_scorer, reading.LAYOUT: _layout_scorer}
    score = make[exported.run.task](exported)
    specs = _specs(exported)
    module = tf.Module()
    # Variables alone: to load a Keras model, a program would have to know its class.
    module.weights = list(model.variables)
    module.score = tf.function(
        lambda **inputs: {'scores': score(_checked(inputs, specs))}
    )
    # Sizes that a signature fixes would be taken for granted, and not be checked.
    free = {
        key: tf.TensorSpec([None] * spec.shape.rank, spec.dtype, key)
        for key, spec in specs.items()
    }
    try:
        signature = module.score.get_concrete_function(**free)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        first = str(error).strip().partition('\n')[0]
        raise ValueError(f'{name} cannot be traced for any size: {first}') from error
    with files.folder_atomically(output) as folder:
        try:
            tf.saved_model.save(module, folder, signatures=signature)
        except tf.errors.OpError as error:
            raise OSError(f'{output}: the model cannot be saved: {error}') from None
        extra = os.path.join(folder, 'assets.extra')  # TensorFlow's, for others' files
        os.mkdir(extra)
        _write_json(os.path.join(extra, 'metadata.json'), _metadata(exported, specs))
    return {key: list(spec.shape) for key, spec in specs.items()}


def export_trees(run: run_files.Run, output: str) -> booster.Trees:
    """Writes the trees of a run as LightGBM's text file, `trees.txt`.

    Args:
        run: a run with trees.
        output: a folder that does not exist yet, or is empty.

    Returns:
        The trees.

    Raises:
        ValueError: the folder is in use, or the trees are damaged.
        OSError: it cannot be written.
    """
    check_output(output)
    booster.check_installed(run.model_dir)
    trees = booster.Trees.read(run.trees_file)
    run.check_digest('trees', trees.digest())
    described = {
        'format': 1,
        **_origin(run, run.collection()),
        'columns': trees.names,
        'prior': trees.prior and trees.prior._asdict(),
        'outputs': {'scores': {'dtype': 'float64', 'meaning': _SCORES}},
    }
    with files.folder_atomically(files.expand(output)) as folder:
        shutil.copyfile(run.trees_file, os.path.join(folder, 'trees.txt'))
        _write_json(os.path.join(folder, 'metadata.json'), described)
    return trees


def _write_json(path: str, content: Mapping[str, Any]) -> None:
    with open(path, 'w', encoding='utf-8') as stream:
        json.dump(content, stream, indent=1)


def _by_slices(
    score: Callable[[tf.Tensor], tf.Tensor], rows: tf.Tensor, size: int
) -> tf.Tensor:
    """Scores configurations in slices of one size, which bounds the memory.

    Args:
        score: gives float32 [size] for `size` rows.
        rows: [configurations, ...]; a last slice is filled up with the last row.
        size: of a slice.

    Returns:
        float32 [configurations].
    """
    count = tf.shape(rows)[0]

    def score_slice(start: tf.Tensor) -> tf.Tensor:
        return score(tf.gather(rows, tf.minimum(start + tf.range(size), count - 1)))

    scores = tf.map_fn(
        score_slice,
        tf.range(0, count, size),
        fn_output_signature=tf.float32,
        parallel_iterations=1,
    )
    return tf.reshape(scores, [-1])[:count]


def _origin(run: run_files.Run, collection: collections.Collection) -> Dict[str, Any]:
    """Returns the fields of a description that say where a model comes from."""
    return {
        'run': run.model_dir.rpartition(os.sep)[2],
        'model': run.args['model'],
        'collection': collection.name,
        'versions': {**run.info.get('versions', {}), 'exporter': tf.__version__},
    }


def _metadata(
    exported: GraphModel, specs: Mapping[str, tf.TensorSpec]
) -> Dict[str, Any]:
    """Describes an exported model: versions, inputs, the output, as JSON."""
    nodes = schema.NODE_AND_EXTRA if exported.variant.extra else schema.NODE
    names = {
        'node_feat': nodes.names,
        'config_feat': schema.TILE.names,
        'config_table': _table_columns(exported),
        'node_config_feat': schema.LAYOUT.names,
    }
    inputs = {
        key: {
            'dtype': spec.dtype.name,
            'shape': list(spec.shape),
            'meaning': _MEANINGS[key],
            **({'columns': list(names[key])} if key in names else {}),
        }
        for key, spec in specs.items()
    }
    return {
        'format': 1,
        **_origin(exported.run, exported.collection),
        'inputs': inputs,
        'absent_entries': exported.variant.pad,
        'opcodes': list(schema.OPCODES),
        'outputs': {
            'scores': {'dtype': 'float32', 'shape': [None], 'meaning': _SCORES}
        },
    }


def _table_columns(exported: GraphModel) -> List[str]:
    """Names the columns that `features.tile_table` computes for a model, in order."""
    parts = exported.scaling.normalizer.table_parts
    return [name for part in parts for name in tile_table.PARTS[part].names]


def _specs(exported: GraphModel) -> Dict[str, tf.TensorSpec]:
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
        computed = _table_columns(exported)
        if computed:
            shape = [None, len(computed)]
            specs.append(tf.TensorSpec(shape, tf.float32, 'config_table'))
    else:
        shape = [None, None, columns]
        specs.append(tf.TensorSpec([None], tf.int32, 'node_config_ids'))
        specs.append(tf.TensorSpec(shape, tf.float32, 'node_config_feat'))
        if exported.adds_to_formula:
            specs.append(tf.TensorSpec([None], tf.float32, 'prior'))
    return {spec.name: spec for spec in specs}


def _checked(
    inputs: _Inputs, specs: Mapping[str, tf.TensorSpec]
) -> Dict[str, tf.Tensor]:
    """Returns the inputs, computed only when their checks have passed.

    An InvalidArgumentError names the input that is not as `specs` says, or that does
    not fit another one.
    """
    sizes = {key: tf.shape(tensor) for key, tensor in inputs.items()}
    checks: List[tf.Operation] = []

    def require(condition: tf.Tensor, key: str, wanted: str) -> None:
        message = f'{key}: {wanted}; its shape is'
        with tf.control_dependencies(list(checks)):  # the first that fails is named
            checks.append(tf.debugging.Assert(condition, [message, sizes[key]]))

    def require_rows(key: str, axis: int, like: str) -> None:
        wanted = f'axis {axis} should be as long as {like}'
        require(tf.equal(sizes[key][axis], sizes[like][0]), key, wanted)

    def require_range(key: str, end: Any, wanted: str) -> None:
        tensor = inputs[key]
        require(tf.reduce_all((tensor >= 0) & (tensor < end)), key, wanted)

    for key, spec in specs.items():
        columns = spec.shape[-1]
        if columns is not None:
            wanted = f'should have {columns} columns'
            require(tf.equal(sizes[key][-1], columns), key, wanted)
        if key != 'edge_index':  # a graph of one node has no edges
            require(tf.reduce_all(sizes[key] > 0), key, 'is empty')
    require_rows('node_opcode', 0, 'node_feat')
    require_range('node_opcode', 1 << 16, 'opcodes are from 0 to 65535')
    nodes = sizes['node_feat'][0]
    require_range('edge_index', nodes, 'has a node that does not exist')
    if 'config_table' in inputs:
        require_rows('config_table', 0, 'config_feat')
    if 'node_config_ids' in inputs:
        require_range('node_config_ids', nodes, 'has a node that does not exist')
        require_rows('node_config_feat', 1, 'node_config_ids')
    if 'prior' in inputs:
        require_rows('prior', 0, 'node_config_feat')
    with tf.control_dependencies(checks):
        return {
            key: tf.ensure_shape(tf.identity(tensor), specs[key].shape)
            for key, tensor in inputs.items()
        }


def _nodes(inputs: _Inputs, exported: GraphModel) -> Dict[str, tf.Tensor]:
    """Packs a graph's nodes and edges, which both tasks have."""
    op, scaling = inputs['node_opcode'], exported.scaling
    features = inputs['node_feat']
    if exported.flags:
        of_all = tf.tile([[*map(float, exported.flags)]], [tf.shape(op)[0], 1])
        features = tf.concat([features, of_all], axis=1)
    return {
        # Opcodes that the model has no row for get the number of unknown ones.
        'op': tf.where(op < scaling.num_ops, op, schema.UNKNOWN_OPCODE),
        'feats': scaled(features, 'node', scaling.normalizer),
        'edges': inputs['edge_index'],
    }


def _tile_scorer(exported: GraphModel) -> Callable[[_Inputs], tf.Tensor]:
    model, scaling = exported.model, exported.scaling
    most = scoring.pairs_per_item(model)

    def score(inputs: _Inputs) -> tf.Tensor:
        nodes, edges = (
            tf.shape(inputs[name])[0] for name in ('node_opcode', 'edge_index')
        )
        configs = tf.shape(inputs['config_feat'])[0]
        items = -(-configs // tf.maximum(most // nodes, 1)) if most else tf.constant(1)
        share, rest = configs // items, configs % items
        sizes = share + tf.cast(tf.range(items) < rest, tf.int32)
        same = tf.zeros([items], tf.int32)
        features = scaled(inputs['config_feat'], 'config', scaling.normalizer)
        if 'config_table' in inputs:
            table = scaling.normalizer.table(inputs['config_table'])
            features = tf.concat([features, table], axis=1)
        packed = {
            **_nodes(inputs, exported),
            'config_feats': features,
            'runtimes': tf.ones([configs]),
            'normalizers': tf.ones([configs]),
            'node_start': same,
            'edge_start': same,
            'config_start': tf.cumsum(sizes, exclusive=True),
            'node_sizes': tf.fill([items, 1], nodes),
            'edge_sizes': tf.fill([items, 1], edges),
            'configs_per_kernel': sizes,
            'tile_ids': tf.fill([items, 1], ''),
        }
        return scoring.score_items(model, packed)

    return score


def _layout_scorer(exported: GraphModel) -> Callable[[_Inputs], tf.Tensor]:
    most, forward = _LAYOUTS_AT_ONCE, exported.model.forward
    scaling = exported.scaling

    def score(inputs: _Inputs) -> tf.Tensor:
        graph = _nodes(inputs, exported)
        features = inputs['node_config_feat']
        configurable = tf.shape(features)[1]
        rows = scaled(features, 'config', scaling.normalizer)
        nodes, edges = tf.shape(graph['op'])[0], tf.shape(graph['edges'])[0]

        def score_slice(taken: tf.Tensor) -> tf.Tensor:
            vectors = tf.reshape(taken, [-1, rows.shape[2]])
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

        scores = _by_slices(score_slice, rows, most)
        return scores + inputs['prior'] if 'prior' in inputs else scores

    return score


def scaled(
    raw: tf.Tensor, part: str, normalizer: normalizer_lib.Normalizer
) -> tf.Tensor:
    """Scales columns as `Normalizer.nodes` and `configs` do, in TensorFlow.

    Args:
        raw: float32 [..., columns].
        part: 'node' or 'config'.
        normalizer: the run's.
    """
    used, low, span = normalizer.scales[part]
    kept = tf.gather(raw, used.astype(np.int32), axis=-1)
    return (kept - low) / span
