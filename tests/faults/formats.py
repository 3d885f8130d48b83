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
import tarfile
import tempfile
import types
from typing import Any, NamedTuple

import numpy as np

from baselines import config
from baselines import scripts
from baselines.core import text
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
from tests.helpers import measured_programs
from tests.helpers import measurements
from tests.helpers import tile_records
from tpugraphs.inspect import contents
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.programs import reader

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
    'baselines.data.packed.columns.open_folder': 'the cache of this package',
    'baselines.runs.code_files.read': 'code that the user names, as bytes',
    'baselines.runs.code_files._ours': 'code of the package, as bytes',
    'baselines.runs.finding.about_pretrained': 'a file of the package',
    'tpugraphs.beam._read_result': 'results of its own workers',
    'baselines.config.model_kwargs': 'a flag; in run files it is part of run.jsonz',
    'baselines.data.download._read_json': 'a note next to the archive, of this command',
    'baselines.training.devices.parse_cluster': 'the variable TF_CONFIG',
    'tpugraphs_lab.programs.functions._run': 'code that the user asks to run',
    'tpugraphs_lab.programs.functions.from_file': 'code that the user asks to run',
    'tpugraphs_lab.programs.isolated.call': 'an answer of its own child process',
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
    program = layout_files.make_program(rng, 'f', nodes=6, configs=4)
    named = {
        **{k: v for k, v in vars(kernel).items() if isinstance(v, np.ndarray)},
        'pad': np.array(-1),
        'node_feat_extra': np.zeros((kernel.num_nodes, len(schema.EXTRA))),
    }
    npz_readers = (
        'baselines.core.untrusted.open_archive',
        'baselines.core.npz.read_arrays',
        'baselines.core.npz.read_blocks',
    )
    raw_readers = 'baselines.hlo.reading.read_bytes', 'baselines.core.untrusted.read'
    kernel_pb = hlo_modules.tile_file(hlo_modules.good_tile())
    return {
        'tile.npz': Target(
            _npz(named), lambda p: _values(records.read_tile(p)), npz_readers
        ),
        'layout.npz': Target(
            _npz(layout_files.arrays_of(program)),
            lambda p: _values(layout_files.read(p)),
            npz_readers,
        ),
        'tile.pb': Target(kernel_pb, _extract, raw_readers),
        'layout.pb': Target(
            hlo_modules.good_layout().SerializeToString(), _extract, raw_readers
        ),
        'module.pb': Target(
            measured_programs.pointwise(8, 6).SerializeToString(),
            lambda p: _ignored(reader.read_program(p)),
            raw_readers,
        ),
        **_texts(),
        **_spaces(),
        'backend_config': Target(
            json.dumps({'window_config': _WINDOW}).encode(),
            _read_tiles,
            ('tpugraphs_lab.kernels.tpu_tiles.own_tiles',),
            'json',
        ),
        'shown.npz': Target(
            _npz(named),
            lambda p: _ignored(contents.load(p)),
            ('tpugraphs.inspect.contents.task_of', 'tpugraphs.inspect.contents.is_npz'),
            name='f.file',
        ),
        'run.jsonz': Target(
            *(_run_file(), _load_run, ('baselines.runs.run_files._read',), 'gzip'),
            name='../run_0.jsonz',
        ),
        'normalizer': Target(
            json.dumps(_normalizer()).encode(), _read_normalizer, (), 'json'
        ),
        'unfinished.npz': Target(
            _unfinished(),
            _read_unfinished,
            (
                'baselines.core.npz.read_all',
                'baselines.runs.listing._interrupted',
                'baselines.training.checkpoints.read',
            ),
        ),
        'archive.tar': Target(_archive(), _unpack, ('baselines.data.archives.unpack',)),
        'ranking.csv': Target(
            b'ID,TopConfigs\ntile:xla:a,4;1;0;2;3\nlayout:nlp:random:b,1;0;2\n',
            _rows,
            ('baselines.evaluation.submission.read_predictions',),
            'text',
        ),
        'trees.txt': Target(
            *(_TREES, _read_trees, ('baselines.trees.booster.Trees.read',), 'text'),
            name='trees.txt',
        ),
        'weights': Target(
            *(_checkpoint_files()[0], _read_weights),
            ('baselines.runs.run_files.check_weights',),
            name='variables/variables.index',
        ),
        'candidates.json': Target(
            b'[{"kernel_bounds": [1, 8]}, {"kernel_bounds": [1, 2]}]',
            _read_candidates,
            ('baselines.hlo.candidates.read',),
            'json',
        ),
        'best.json': Target(
            b'{"collection": "tile:xla", "settings": {"lr": 0.5, "model": "MLP"}}',
            _read_recipe,
            ('baselines.recipes._read_file',),
            'json',
            'f.json',
        ),
        'config.toml': Target(
            b'lr = 0.5\nbatch = 3\nmodel_kwargs_json = {a = [1, {b = 2}]}',
            lambda p: _ignored(scripts.from_toml(config.TileConfig, p)),
            ('baselines.core.settings.read_toml',),
            'text',
        ),
        'measured.json': Target(
            json.dumps(measurements.SIDECAR).encode(),
            _read_sidecar,
            (
                'baselines.data.hardware.measured_on',
                'tpugraphs_lab.measure.collection_folder.read_sidecar',
                'baselines.core.untrusted.loads',
            ),
            'json',
            'measured.json',
        ),
    }


def _ignored(unused_content: Any) -> None:
    """Drops the content of formats that cannot tell whether it is right."""


def _spaces() -> dict[str, Target]:
    """Returns spaces of sweeps, where Optuna is installed."""
    if importlib.util.find_spec('optuna') is None:
        return {}
    from tpugraphs.sweep import space

    return {
        'space.toml': Target(
            b'epochs = 7\nlr = {low = 1e-3, high = 1, log = true}\n'
            b'model = {choices = ["MLP", "EarlyJoinSAGE"]}\n'
            b'batch = {low = 4, high = 10, step = 2, when = {model = "MLP"}}\n',
            lambda p: _ignored(space.read(p, config.TileConfig())),
            ('baselines.core.settings.read_toml',),
            'text',
        )
    }


def _texts() -> dict[str, Target]:
    """Returns programs as text, where jaxlib is installed, which parses them."""
    if importlib.util.find_spec('jaxlib') is None:
        return {}
    return {
        'module.hlo': Target(
            b'HloModule m\nENTRY e {\n  p = f32[8,6] parameter(0)\n'
            b'  ROOT r = f32[8,6] negate(p)\n}\n',
            lambda p: _ignored(reader.read_program(p)),
            ('baselines.hlo.reading.read_bytes',),
            'text',
        )
    }


_WINDOW = {
    'output_window_bounds': ['8', '128'],
    'estimated_cycles': '12',
    'kernel_window_bounds': [],
    'ml_estimated_microseconds': 1.5,
}


def _read_tiles(path: str) -> None:
    with open(path, 'rb') as stream:
        tpu_tiles.own_tiles(types.SimpleNamespace(backend_config=stream.read()))


def _normalizer() -> dict[str, Any]:
    kernels = tile_records.make_records(3)
    store = tile_store.TileStore.from_records('memory', kernels)
    return normalizer_lib.Normalizer.fit(store).to_json()


def _read_normalizer(path: str) -> None:
    with open(path, encoding='utf-8') as stream:
        try:
            stored = json.load(stream)
        except RecursionError as error:
            raise ValueError(str(error)) from None
    found = normalizer_lib.Normalizer.from_json(stored)
    columns = np.zeros((2, len(found.node_used)), np.float32)
    assert np.isfinite(found.nodes(columns)).all()


_TREES = b"""tree
num_class=1
num_tree_per_iteration=1
label_index=0
max_feature_idx=1
feature_names=a b

Tree=0
num_leaves=3
num_cat=0
split_feature=0 1
threshold=0.5 1e-35
decision_type=2 2
left_child=1 -1
right_child=-3 -2
leaf_value=1.5 -2 0.25
is_linear=0

end of trees
"""


def _read_trees(path: str) -> None:
    found = booster.Trees.read(path)
    rows = np.zeros((2, len(found.used)), np.float32)
    assert np.isfinite(found.predict(rows)).all()


@functools.cache
def _checkpoint_files() -> tuple[bytes, bytes]:
    """Writes a checkpoint: the index, which says where its variables are, and those."""
    with tempfile.TemporaryDirectory() as folder:
        finished_runs.save_weights(_linear(), folder)
        start = os.path.join(folder, 'variables', 'variables.')
        found = []
        for name in ('index', 'data-00000-of-00001'):
            with open(start + name, 'rb') as stream:
                found.append(stream.read())
    return found[0], found[1]


@functools.cache
def _linear() -> Any:
    import tensorflow as tf

    model = tf.keras.Sequential([tf.keras.layers.Dense(2)])
    model(tf.zeros([1, 3]))
    return model


def _read_weights(path: str) -> None:
    variables, folder = os.path.dirname(path), os.path.dirname(os.path.dirname(path))
    model = _linear()
    data = os.path.join(variables, 'variables.data-00000-of-00001')
    with open(data, 'wb') as stream:
        stream.write(_checkpoint_files()[1])
    run_files.check_weights(folder)
    with weights.limited(folder, {}):
        weights.read(run_files.RunFile(folder, {'args': {'model': 'Tiny'}}), model)


def _read_candidates(path: str) -> None:
    found = candidates.read(path)
    candidates.tuning_data(hlo_modules.good_tile(), found, reading.TILE)


def _read_recipe(path: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        config.with_recipe(config.TileConfig(recipe=path), {})


def _read_sidecar(path: str) -> None:
    hardware.measured_on(os.path.dirname(path))
    collection_folder.read_sidecar(os.path.dirname(path))


def _npz(arrays) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _values(record) -> dict[str, Any]:
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in vars(record).items()
    }


def _extract(path: str) -> None:
    file = reading.read_tuning(path)
    for tuning in file.modules:
        nodes = graph.extract_graph(tuning.module, extra=True)
        if file.kind == 'tile':
            tile_configs.extract_configs(tuning)
        else:
            layout_configs.extract_configs(tuning, len(nodes.node_opcode))


def _run_file() -> bytes:
    info = {
        'args': {'model': 'Tiny', 'model_kwargs_json': '{}', 'configs': 10},
        'test_predictions': {f'tile:xla:{i}': [4, 1, 0, 2, 3] for i in range(20)},
        'normalizer': {'node_min': [0.25] * 30},
    }
    return gzip.compress(json.dumps(info).encode(), mtime=0)


def _load_run(path: str) -> None:
    """Reads a run file as `tpugraphs runs`, `report` and prediction do."""
    # Its checkpoint has its own tests.
    model_dir = os.path.join(os.path.dirname(path), 'model_0')
    variables = os.path.join(model_dir, 'variables')
    os.makedirs(variables, exist_ok=True)
    open(os.path.join(variables, 'variables.index'), 'wb').close()
    with contextlib.redirect_stderr(io.StringIO()):
        listing.rows([os.path.dirname(model_dir)])
    finding.load(model_dir)


def _unfinished() -> bytes:
    arrays = {f'now_{i:04d}': np.arange(3.0) + i for i in range(12)}
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, 'unfinished.npz')
        checkpoints.write(path, arrays, {'curve': {'epoch': [0, 1]}})
        with open(path, 'rb') as stream:
            return stream.read()


def _read_unfinished(path: str) -> Any:
    assert '\n' not in listing._interrupted(path)
    arrays, described = checkpoints.read(path)
    return {key: value.tolist() for key, value in arrays.items()}, described


def _archive() -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode='w') as tar:
        for name in ('a', 'b' * 120):
            info = tarfile.TarInfo(f'{_FOLDER}/{name}.npz')
            info.size = 700
            tar.addfile(info, io.BytesIO(bytes(700)))
    return content.getvalue()


def _unpack(path: str) -> None:
    root = os.path.join(os.path.dirname(path), 'root')
    before = _tree(os.path.dirname(root)) - _tree(root)
    archives.unpack(path, root, _FOLDER)
    assert _tree(os.path.dirname(root)) - _tree(root) == before
    inside = os.path.join(root, _FOLDER)
    for found in _tree(root):
        assert os.path.dirname(found) == inside and found.endswith('.npz')
        assert os.path.isfile(found) and not os.path.islink(found)
        os.unlink(found)


def _tree(folder: str):
    return {
        os.path.join(where, name)
        for where, _, names in os.walk(folder)
        for name in names
    }


def _rows(path: str) -> None:
    for row in submission.read_predictions(path, padded=True):
        submission.check_row(row, True)
