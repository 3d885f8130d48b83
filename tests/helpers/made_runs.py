"""Runs with random weights, in the files that prediction reads."""

import gzip
import json
import uuid

import numpy as np
import tensorflow as tf

from baselines.core import registry
from baselines.data import raw as raw_lib
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.data.tile import store as tile_store
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import graph
from baselines.hlo import tile_configs
from baselines.runs import run_files
from baselines.scoring import scorer
from baselines.tasks import lookup
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_files

KWARGS = '{"hidden_dim": 8, "op_embed_dim": 4, "num_gnns": 1}'
_LAYOUT_KWARGS = {'hidden_dim': 8, 'num_gnns': 1, 'mlp_layers': 1}  # of ResModel


FIRST = hlo_modules.good_tile('fusion.1', 0xA, [40, 10, 20])
_TIMES = [5, 5, 7, 9, 5, 6, 7, 8, 9, 7, 8, 4]
SECOND = hlo_modules.good_tile('copy.2', 0xB, _TIMES)


def kernel_records(modules, pad):
    """Makes records of modules, with all candidates."""
    return [
        raw_lib.record_of(
            raw_lib.name_graph(m),
            graph.extract_graph(m.module, pad),
            tile_configs.extract_configs(m, pad, measured=False),
        )
        for m in modules
    ]


def make_tile_run(folder, pad=0, num_ops=121, estimate=False, seed=0, **changes):
    """Writes a run with random weights; returns its directory."""
    records = kernel_records([FIRST, SECOND], pad)
    store = tile_store.TileStore.from_records('here', records)
    table = tile_table.TileTable(store, ['estimate']) if estimate else None
    normalizer = normalizer_lib.Normalizer.fit(store, table=table)
    tf.keras.utils.set_random_seed(seed)
    model_class = registry.find_model_class('EarlyJoinSAGE', 'tile')
    model = scorer.make_model(
        lookup.TASKS['tile'], model_class, json.loads(KWARGS), 2, num_ops, normalizer
    )
    info = {
        'args': {'model': 'EarlyJoinSAGE', 'model_kwargs_json': KWARGS, 'configs': 2},
        'normalizer': normalizer.to_json(),
        'num_ops': num_ops,
        **splits.Variant.from_store(store).to_json(),
        **changes,
    }
    return _write_run(folder, model, info)


def _write_run(folder, model, info):
    model_dir = f'{folder}/model_{uuid.uuid4().hex}'
    finished_runs.save_weights(model, model_dir)
    with gzip.open(run_files.run_file(model_dir), 'wt') as stream:
        values = [variable.numpy() for variable in model.variables]
        digest = run_files.hash_weights(values)
        json.dump(run_files.add_digests(info, digest), stream)
    return model_dir


def make_layout_run(folder, model='ResModel', kwargs=None, code='', **changes):
    """Writes a run of a layout model with random weights; returns its directory."""
    program = layout_files.make_record(np.random.default_rng(0), nodes=40)
    store = layout_store.LayoutStore.from_records('here', [program])
    normalizer = normalizer_lib.Normalizer.fit(store)
    assert all(used.all() for used in normalizer.used.values())
    tf.keras.utils.set_random_seed(0)
    task = lookup.TASKS['layout']
    kwargs = _LAYOUT_KWARGS if kwargs is None else kwargs
    args = {'model': model, 'model_kwargs_json': json.dumps(kwargs), 'configs': 2}
    args.update(source='xla', search='random', keep_nodes=5000)
    info = {'args': args, 'normalizer': normalizer.to_json(), 'num_ops': 121}
    model_class = registry.find_model_class(model, 'layout', code)
    made = scorer.make_model(task, model_class, kwargs, 2, 121, normalizer)
    return _write_run(folder, made, {**info, **changes})
