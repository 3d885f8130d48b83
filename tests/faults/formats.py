"""What is read, in every format: a good file, and what may come of a bad one.

A mutated file is refused in one line (ValueError, OSError), or what was read is
what was in the good one, wherever the format has checksums.
"""

from collections.abc import Callable
import contextlib
import functools
import gzip
import importlib.util
import io
import json
import os
import pathlib
import shutil
import tarfile
import tempfile
from typing import Any, NamedTuple

import numpy as np

from baselines import config
from baselines import scripts
from baselines.core import text
from baselines.core import untrusted
from baselines.data import archives
from baselines.data import hardware
from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.evaluation import submission
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import candidates
from baselines.hlo import graph
from baselines.hlo import layout_configs
from baselines.hlo import reading
from baselines.hlo import schema
from baselines.hlo import tile_configs
from baselines.runs import finding
from baselines.runs import listing
from baselines.runs import run_files
from baselines.runs import weights
from baselines.training import checkpoints
from baselines.trees import booster
from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_files
from tests.helpers import tile_records
from tpugraphs.inspect import contents

_FOLDER = 'npz/tile/xla/train'


class Target(NamedTuple):
    """A format.

    Attributes:
        good: bytes of a good file.
        read: reads a file of that path; returns what was in it, or None where
            the format cannot tell whether that is right.
        readers: the functions of the house that open or parse such a file.
        form: 'json', 'gzip' (of JSON) or 'text', which `strategies.contents` can
            change in it; '' for bytes.
        name: of the file, in a model directory.
    """

    good: bytes
    read: Callable[[str], Any]
    readers: tuple[str, ...]
    form: str = ''
    name: str = 'f.npz'


# Functions that read files, or parse text, of nobody but the house and its user.
OWN = {
    'baselines.data.packed.packer.open_folder': 'the cache of this package',
    'baselines.runs.code_files.read': 'code that the user names, as bytes',
    'baselines.runs.code_files._find_shipped': 'code of the package, as bytes',
    'tpugraphs.beam._read_result': 'results of its own workers',
    'baselines.core.settings.parse_model_kwargs': 'a flag; part of run.jsonz, too',
    'baselines.data.download._read_json': 'a note next to the archive, of this command',
    'baselines.training.devices.parse_cluster': 'the variable TF_CONFIG',
}


def survives(target: Target, data: bytes, folder: str) -> bool:
    """Reads `data` as a file in `folder`; tells whether it was taken.

    Raises:
        AssertionError: it was read as something else than the good file.
        Whatever else should not come out.
    """
    path = os.path.normpath(os.path.join(folder, 'model_0', target.name))
    expected = _expected(target, path)
    os.unlink(path)  # ext4 writes a file to the disk at once if it was emptied before
    with open(path, 'wb') as stream:
        stream.write(data)
    try:
        found = target.read(path)
    except (ValueError, OSError) as error:
        assert str(error)
        assert '\n' not in text.one_line(error)
        return False
    assert found == expected, f'silently different: {found!r:.500}'
    return True


@functools.cache
def _expected(target: Target, path: str) -> Any:
    """Reads the good file, once."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as stream:
        stream.write(target.good)
    return target.read(path)


def targets() -> dict[str, Target]:
    """Returns all formats by name."""
    rng = np.random.default_rng(0)
    kernel = tile_records.make_record(rng, 'f', nodes=4, configs=5)
    program = layout_files.make_record(rng, 'f', nodes=6, configs=4)
    named = {k: v for k, v in vars(kernel).items() if isinstance(v, np.ndarray)}
    named.update(pad=-1, node_feat_extra=np.zeros((4, len(schema.EXTRA))))
    tile, layout = hlo_modules.good_tile(), hlo_modules.good_layout()
    npz = (
        'baselines.core.untrusted.open_archive',
        'baselines.core.npz.read_arrays',
        'baselines.core.npz.read_blocks',
    )
    raw = 'baselines.hlo.reading.read_bytes', 'baselines.core.untrusted.read'
    shown = (
        'tpugraphs.inspect.contents.detect_task',
        'tpugraphs.inspect.contents.is_npz',
    )
    state = (
        'baselines.core.npz.read_all',
        'baselines.runs.listing._describe_interrupted',
        'baselines.training.checkpoints.read_state',
    )
    measured = 'baselines.data.hardware.measured_on', 'baselines.core.untrusted.loads'
    run_file = ('baselines.runs.run_files.read',)
    ranking = ('baselines.evaluation.submission.read_predictions',)
    trees = ('baselines.trees.booster.Trees.read',)
    index = ('baselines.runs.finding.check_weights',)
    toml = ('baselines.core.settings.read_toml',)
    found = {
        'tile.npz': Target(_npz(named), _read_tile, npz),
        'layout.npz': Target(
            _npz(layout_files.list_arrays(program)), _read_layout, npz
        ),
        'shown.npz': Target(_npz(named), _show, shown, name='f.file'),
        'tile.pb': Target(hlo_modules.tile_file(tile), _extract, raw),
        'layout.pb': Target(layout.SerializeToString(), _extract, raw),
        'module.pb': Target(tile.module.SerializeToString(), _read_module, raw),
        'run.jsonz': Target(_run_file(), _load_run, run_file, 'gzip', '../run_0.jsonz'),
        'normalizer': Target(_normalizer(), _read_normalizer, (), 'json'),
        'unfinished.npz': Target(_unfinished(), _read_unfinished, state),
        'archive.tar': Target(_archive(), _unpack, ('baselines.data.archives.unpack',)),
        'ranking.csv': Target(_RANKING, _read_ranking, ranking, 'text'),
        'trees.txt': Target(_TREES, _read_trees, trees, 'text', 'trees.txt'),
        'weights': Target(
            *(_checkpoint()['index'], _read_weights, index),
            name='variables/variables.index',
        ),
        'candidates.json': Target(
            *(_CANDIDATES, _read_candidates, ('baselines.hlo.candidates.read',), 'json')
        ),
        'best.json': Target(
            *(_RECIPE, _read_recipe, ('baselines.recipes._read_file',)),
            *('json', 'f.json'),
        ),
        'config.toml': Target(_CONFIG, _read_config, toml, 'text'),
        'space.toml': Target(_SPACE, _read_space, toml, 'text'),
        'measured.json': Target(
            *(_MEASURED, _read_measured, measured, 'json', 'measured.json')
        ),
    }
    if importlib.util.find_spec('optuna') is None:
        del found['space.toml']
    return found


_RANKING = b'ID,TopConfigs\ntile:xla:a,4;1;0;2;3\nlayout:nlp:random:b,1;0;2\n'
_CANDIDATES = b'[{"kernel_bounds": [1, 8]}, {"kernel_bounds": [1, 2]}]'
_RECIPE = b'{"collection": "tile:xla", "settings": {"lr": 0.5, "model": "MLP"}}'
_CONFIG = b'lr = 0.5\nbatch = 3\nmodel_kwargs_json = {a = [1, {b = 2}]}'
_SPACE = b"""epochs = 7
lr = {low = 1e-3, high = 1, log = true}
model = {choices = ["MLP", "EarlyJoinSAGE"]}
batch = {low = 4, high = 10, step = 2, when = {model = "MLP"}}
"""
_MEASURED = b'{"machine": {"cpu": "x"}, "sources": [{"platform": "gpu"}]}'
_TREES = (
    b'tree\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\nmax_feature_idx=1\n'
    b'feature_names=a b\n\nTree=0\nnum_leaves=3\nnum_cat=0\nsplit_feature=0 1\n'
    b'threshold=0.5 1e-35\ndecision_type=2 2\nleft_child=1 -1\nright_child=-3 -2\n'
    b'leaf_value=1.5 -2 0.25\nis_linear=0\n\nend of trees\n'
)


def _npz(arrays: dict[str, Any]) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _lists(values: dict[str, Any]) -> dict[str, Any]:
    """Makes arrays comparable."""
    return {k: v.tolist() if hasattr(v, 'tolist') else v for k, v in values.items()}


def _read_tile(path: str) -> dict[str, Any]:
    return _lists(vars(records.TileRecord.read(path)))


def _read_layout(path: str) -> dict[str, Any]:
    return _lists(vars(layout_files.read(path)))


def _show(path: str) -> None:
    contents.read_contents(path)


def _read_module(path: str) -> None:
    reading.read_source(path, 'show')


def _extract(path: str) -> None:
    file = reading.read_tuning(path)
    for tuning in file.modules:
        nodes = graph.extract_graph(tuning.module, extra=True)
        if file.kind == 'tile':
            tile_configs.extract_configs(tuning)
        else:
            layout_configs.extract_configs(tuning, len(nodes.node_opcode))


def _normalizer() -> bytes:
    kernels = tile_records.make_records(3)
    store = tile_store.TileStore.from_records('memory', kernels)
    return json.dumps(normalizer_lib.Normalizer.fit(store).to_json()).encode()


def _read_normalizer(path: str) -> None:
    stored = untrusted.loads(pathlib.Path(path).read_bytes())
    found = normalizer_lib.Normalizer.from_json(stored)
    columns = np.zeros((2, len(found.used['node'])), np.float32)
    assert np.isfinite(found.nodes(columns)).all()


def _read_trees(path: str) -> None:
    found = booster.Trees.read(path)
    rows = np.zeros((2, len(found.used)), np.float32)
    assert np.isfinite(found.predict(rows)).all()


@functools.cache
def _linear() -> Any:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model(tf.zeros([1, 3]))
    return model


@functools.cache
def _checkpoint() -> dict[str, bytes]:
    """Returns the files of a checkpoint: the index says where the variables are."""
    with tempfile.TemporaryDirectory() as folder:
        finished_runs.save_weights(_linear(), folder)
        paths = pathlib.Path(folder, 'variables').glob('variables.*')
        return {path.suffix[1:].partition('-')[0]: path.read_bytes() for path in paths}


def _read_weights(path: str) -> None:
    variables = pathlib.Path(path).parent
    data = variables / 'variables.data-00000-of-00001'
    data.write_bytes(_checkpoint()['data'])
    folder = str(variables.parent)
    run = run_files.RunFile(folder, {'args': {'model': 'Tiny'}})
    finding.check_weights(run)
    weights.compute_size_limit(folder, {})
    weights.read_weights(run, _linear())


def _read_candidates(path: str) -> None:
    found = candidates.read(path)
    candidates.tuning_data(hlo_modules.good_tile(), found, reading.TILE)


def _read_recipe(path: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        config.apply_recipe(config.TileConfig(recipe=path), {})


def _read_config(path: str) -> None:
    scripts.read_toml(config.TileConfig, path)


def _read_space(path: str) -> None:
    from tpugraphs.sweep import space

    space.read_space(path, config.TileConfig())


def _read_measured(path: str) -> None:
    hardware.measured_on(os.path.dirname(path))


def _run_file() -> bytes:
    info = {
        'args': {'model': 'Tiny', 'model_kwargs_json': '{}', 'configs': 10},
        'test_predictions': {f'tile:xla:{i}': [4, 1, 0, 2, 3] for i in range(20)},
        'normalizer': {'node_min': [0.25] * 30},
    }
    return gzip.compress(json.dumps(info).encode(), mtime=0)


def _load_run(path: str) -> None:
    """Reads a run file as `tpugraphs runs`, `report` and prediction do."""
    index = pathlib.Path(path).parent / 'model_0/variables/variables.index'
    index.parent.mkdir(parents=True, exist_ok=True)
    index.touch()
    with contextlib.redirect_stderr(io.StringIO()):
        listing.read_rows([os.path.dirname(path)])
    finding.load(str(index.parents[1]))


def _unfinished() -> bytes:
    arrays = {f'now_{i:04d}': np.arange(3.0) + i for i in range(12)}
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, 'unfinished.npz')
        checkpoints.write_state_file(str(path), arrays, {'curve': {'epoch': [0, 1]}})
        return path.read_bytes()


def _read_unfinished(path: str) -> Any:
    assert '\n' not in listing._describe_interrupted(path)
    arrays, described = checkpoints.read_state(path)
    return _lists(arrays), described


def _archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode='w') as tar:
        for name in ('a', 'b' * 120):
            info = tarfile.TarInfo(f'{_FOLDER}/{name}.npz')
            info.size = 700
            tar.addfile(info, io.BytesIO(bytes(700)))
    return content.getvalue()


def _unpack(path: str) -> None:
    folder = pathlib.Path(path).parent
    root, before = folder / 'root', {*folder.rglob('*')}
    archives.unpack(path, str(root), _FOLDER)
    for found in {*folder.rglob('*')} - before:
        assert not found.is_symlink()
        if not found.is_dir():
            assert (found.parent, found.suffix) == (root / _FOLDER, '.npz')
    shutil.rmtree(root)


def _read_ranking(path: str) -> None:
    for row in submission.read_predictions(path, padded=True):
        submission.check_row(row, True)
