"""Writes a graph model as a SavedModel that scores raw features with TensorFlow alone.

One signature, `serving_default`, with named inputs of free sizes (n nodes, m edges,
c configurations, k configurable nodes) and the output `scores`, float32 [c]:

    tile    node_feat [n, F], node_opcode [n], edge_index [m, 2], config_feat [c, 24]
    layout  the first three, node_config_ids [k], node_config_feat [c, k, 18]

A tile model with computed columns (--columns) has one
more input, `config_table` [c, T]: see `features.tile_table`, which needs no TensorFlow.
So has a layout model with --estimate: `prior` [c], see `layout.task.compute_prior`.

`assets.extra/metadata.json` describes the model: versions, the names of columns, units.
Trees are exported as LightGBM's own text file, with such a description.
"""

from collections.abc import Mapping
import json
import os
import shutil

import tensorflow as tf

from baselines.core import files
from baselines.core import text
from baselines.data import collections
from baselines.hlo import schema
from baselines.runs import raw_scoring
from baselines.runs import run_files
from baselines.trees import booster

_SCORES = (
    'of each configuration; lower is predicted faster. No unit: only the order within '
    'a graph means something'
)

_MEANINGS = {
    'node_feat': 'one row per node; sizes in elements, flags 0 or 1',
    'node_opcode': 'place in `opcodes`, from 1; 0 for others',
    'edge_index': 'rows (consumer, producer), nodes counted from 0',
    'config_feat': 'one row per configuration; bounds as in the training data',
    'config_table': 'one row per configuration, computed by features.tile_table',
    'node_config_ids': 'nodes whose layouts are configured, counted from 0',
    'node_config_feat': 'minor_to_major by configuration and configurable node',
    'prior': 'scores by the formula, of layout.task.compute_prior; they are added',
}


def export_model(
    exported: raw_scoring.GraphModel, output: str
) -> dict[str, list[int | None]]:
    """Writes a graph model as a SavedModel.

    Args:
        output: a folder, new or empty.

    Returns:
        The inputs: their shapes by name, None where a size is free.

    Raises:
        ValueError: the model cannot be traced.
        OSError: it cannot be written.
    """
    output = files.expand(output)
    model, name = exported.model, exported.run.args['model']
    if getattr(model, 'scores_depend_on_list', False):
        raise ValueError(
            f'{name} scores configurations together, in random lists; '
            '`tpugraphs rank --json` serves it'
        )
    specs = raw_scoring.list_input_specs(exported)
    module = tf.Module()
    # Variables alone: to load a Keras model, a program would have to know its class.
    module.weights = list(model.variables)
    module.score = tf.function(raw_scoring.make_scorer(exported))
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
    with files.make_folder_atomically(output) as folder:
        try:
            tf.saved_model.save(module, folder, signatures=signature)
        except tf.errors.OpError as error:
            raise OSError(f'{output}: the model cannot be saved: {error}') from None
        extra = os.path.join(folder, 'assets.extra')  # TensorFlow's, for others' files
        os.mkdir(extra)
        _write_json(os.path.join(extra, 'metadata.json'), _describe(exported, specs))
    return {key: list(spec.shape) for key, spec in specs.items()}


def export_trees(run: run_files.RunFile, output: str) -> booster.Trees:
    """Writes the trees of a run as LightGBM's text file, `trees.txt`; returns them.

    Args:
        output: a folder, new or empty.

    Raises:
        ValueError: the trees are damaged.
        OSError: it cannot be written.
    """
    trees = booster.Trees.read(run.trees_file)
    run.check_digest('trees', trees.digest())
    described = {
        'format': 1,
        **_describe_origin(run, run.collection),
        'columns': trees.names,
        'prior': trees.prior and trees.prior._asdict(),
        'outputs': {'scores': {'dtype': 'float64', 'meaning': _SCORES}},
    }
    with files.make_folder_atomically(files.expand(output)) as folder:
        shutil.copyfile(run.trees_file, os.path.join(folder, 'trees.txt'))
        _write_json(os.path.join(folder, 'metadata.json'), described)
    return trees


def _write_json(path: str, content: text.JsonObject) -> None:
    with open(path, 'w', encoding='utf-8') as stream:
        json.dump(content, stream, indent=1)


def _describe_origin(
    run: run_files.RunFile, collection: collections.Collection
) -> text.JsonObject:
    """Returns the fields of a description that say where a model comes from."""
    return {
        'run': run.model_dir.rpartition(os.sep)[2],
        'model': run.args['model'],
        'collection': collection.name,
        'versions': {**run.info.get('versions', {}), 'exporter': tf.__version__},
    }


def _describe(
    exported: raw_scoring.GraphModel, specs: Mapping[str, tf.TensorSpec]
) -> text.JsonObject:
    """Describes an exported model: versions, inputs, the output, as JSON."""
    # The names let a caller check that its columns are in the trained order.
    nodes = schema.NODE_AND_EXTRA if exported.variant.extra else schema.NODE
    names = {
        'node_feat': nodes.names,
        'config_feat': schema.TILE.names,
        'config_table': raw_scoring.name_table_columns(exported),
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
        **_describe_origin(exported.run, exported.collection),
        'inputs': inputs,
        'absent_entries': exported.variant.pad,
        'opcodes': list(schema.OPCODES),
        'outputs': {
            'scores': {'dtype': 'float32', 'shape': [None], 'meaning': _SCORES}
        },
    }
