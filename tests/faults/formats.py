"""Formats of files that anybody may hand in: a good file of each, and its reader.

Of a changed file, a reader says in one line what is wrong (ValueError, OSError), or
returns what was in the good one, wherever the format has checksums.
"""

from collections.abc import Callable
import functools
import gzip
import json
import os
import pathlib
import shutil
import tarfile
from typing import Any, NamedTuple

import numpy as np
import pytest

from baselines import config
from baselines import scripts
from baselines.data import archives
from baselines.data import hardware
from baselines.data import raw
from baselines.data.tile import records
from baselines.evaluation import submission
from baselines.hlo import candidates
from baselines.hlo import graph
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.runs import listing
from baselines.scoring import prediction
from baselines.training import checkpoints
from baselines.trees import booster
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import tile_records
from tpugraphs.inspect import contents

_FOLDER = 'npz/tile/xla/train'  # of the files in an archive
_MODULE = hlo_modules.good_tile()


class Format(NamedTuple):
    """A format.

    Attributes:
        read: reads a file by its path.
        good: a good file; b'' where `write_good_files` makes it.
        form: 'json', 'gzip' (of JSON) or 'text', which `strategies.contents` can
            change in it; '' for bytes.
        is_exact: whether it has checksums, so that nothing else may be read.
    """

    read: Callable[[str], Any]
    good: bytes = b''
    form: str = ''
    is_exact: bool = False


def _read_modules(path):
    contents.read_contents(path)
    file = reading.read_tuning(path)
    for tuning in file.modules:
        nodes = graph.extract_graph(tuning.module, extra=True)
        raw.extract_configs(file.kind, tuning, nodes)


def _read_unfinished(path):
    [line] = listing.list_unfinished([os.path.dirname(path)])
    assert line.isprintable()
    return checkpoints.read_state(path)


def _read_run(path):
    """Reads a file of a run as `tpugraphs runs` and `predict` do."""
    folder = path.partition('/run/')[0] + '/run'
    listing.read_rows([folder])
    options = prediction.Options(data_root=folder, cache_dir=folder)
    normalizer = prediction.load(f'{folder}/model_0', options).scorer.scaling.normalizer
    columns = np.zeros((2, len(normalizer.used['node'])), np.float32)
    assert np.isfinite(normalizer.nodes(columns)).all()


def _read_trees(path):
    trees = booster.Trees.read(path)
    rows = np.zeros((2, len(trees.used)), np.float32)
    assert np.isfinite(trees.predict(rows)).all()


def _read_space(path):
    space = pytest.importorskip('tpugraphs.sweep.space')  # needs Optuna
    space.read_space(path, config.TileConfig())


def _unpack(path):
    root = pathlib.Path(path).parent / 'root'
    before = {*root.parent.rglob('*')}
    archives.unpack(path, str(root), _FOLDER)
    for file in {*root.parent.rglob('*')} - before:
        if not file.is_dir():
            assert (file.parent, file.suffix) == (root / _FOLDER, '.npz')
            assert not file.is_symlink()
            file.unlink()


FORMATS = {
    'tile.npz': Format(records.TileRecord.read, is_exact=True),
    'layout.npz': Format(layout_files.read, is_exact=True),
    'unfinished_0.npz': Format(_read_unfinished, is_exact=True),
    'npz_without_suffix': Format(contents.read_contents),
    'run/run_0.jsonz': Format(_read_run, form='gzip'),
    'run/model_0/variables/variables.index': Format(_read_run),
    'archive.tar': Format(_unpack),
    'tile.pb': Format(_read_modules, hlo_modules.tile_file(_MODULE)),
    'layout.pb': Format(_read_modules, hlo_modules.good_layout().SerializeToString()),
    'module.pb': Format(contents.read_contents, _MODULE.module.SerializeToString()),
    'measured.json': Format(
        lambda path: hardware.read_measured_on(os.path.dirname(path)),
        b'{"machine": {"cpu": "x"}, "sources": [{"platform": "gpu"}]}',
        'json',
    ),
    'candidates.json': Format(
        lambda path: candidates.make_tuning_data(
            _MODULE, candidates.read(path), reading.TILE
        ),
        b'[{"kernel_bounds": [1, 8]}, {"kernel_bounds": [1, 2]}]',
        'json',
    ),
    'recipe.json': Format(
        lambda path: config.apply_recipe(config.TileConfig(recipe=path), {}),
        b'{"collection": "tile:xla", "settings": {"lr": 0.5, "model": "MLP"}}',
        'json',
    ),
    'ranking.csv': Format(
        functools.partial(submission.read_predictions, padded=True),
        b'ID,TopConfigs\ntile:xla:a,4;1;0;2;3\nlayout:nlp:random:b,1;0;2\n',
        'text',
    ),
    'config.toml': Format(
        functools.partial(scripts.read_toml, config.TileConfig),
        b'lr = 0.5\nbatch = 3\nmodel_kwargs_json = {a = [1, {b = 2}]}',
        'text',
    ),
    'space.toml': Format(
        _read_space,
        b'epochs = 7\nlr = {low = 1e-3, high = 1, log = true}\n'
        b'model = {choices = ["MLP", "EarlyJoinSAGE"]}\n'
        b'batch = {low = 4, high = 10, step = 2, when = {model = "MLP"}}\n',
        'text',
    ),
    'trees.txt': Format(
        _read_trees,
        b'tree\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n'
        b'max_feature_idx=1\nfeature_names=a b\n\nTree=0\nnum_leaves=3\nnum_cat=0\n'
        b'split_feature=0 1\nthreshold=0.5 1e-35\ndecision_type=2 2\n'
        b'left_child=1 -1\nright_child=-3 -2\nleaf_value=1.5 -2 0.25\nis_linear=0\n\n'
        b'end of trees\n',
        'text',
    ),
}


def write_good_files(folder):
    """Writes a good file of each format."""
    for name, form in FORMATS.items():
        if form.good:
            (folder / name).write_bytes(form.good)
    rng, extra = np.random.default_rng(0), np.zeros((4, len(schema.EXTRA)), np.float32)
    changes = dict(pad=-1, node_feat_extra=extra)
    kernel = tile_records.make_record(rng, nodes=4, configs=5, **changes)
    kernel.write(str(folder / 'tile.npz'))
    program = layout_files.make_record(rng, nodes=6, configs=4)
    program.write(str(folder / 'layout.npz'))
    shutil.copy(folder / 'tile.npz', folder / 'npz_without_suffix')
    state = {f'now_{i:04d}': np.arange(3.0) + i for i in range(12)}
    curve = {'curve': {'epoch': [0, 1]}}
    checkpoints.write_state_file(f'{folder}/unfinished_0.npz', state, curve)
    with tarfile.open(folder / 'archive.tar', mode='w') as tar:
        for name in ('a', 'b' * 120):
            tar.add(folder / 'tile.npz', f'{_FOLDER}/{name}.npz')
    rankings = {f'tile:xla:{i}': [4, 1, 0, 2, 3] for i in range(20)}
    made = made_runs.make_tile_run(folder / 'run', test_predictions=rankings)
    run = finished_runs.read_info(pathlib.Path(made))
    del run['digest']  # which would refuse most changes
    (folder / 'run/run_0.jsonz').write_bytes(gzip.compress(json.dumps(run).encode()))
    os.rename(made, folder / 'run/model_0')
