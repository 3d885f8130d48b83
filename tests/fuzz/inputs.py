"""What is read, in every format: a good file, and what may come of a bad one.

A mutated file is refused in one line (ValueError, OSError), or what was read is
what was in the good one, wherever the format has checksums.
"""

import functools
import gzip
import io
import json
import os
import tarfile
from typing import Any, Callable, Dict, NamedTuple

import numpy as np

from baselines.data import archives
from baselines.data.layout import records as layout_records
from baselines.data.packed import cache
from baselines.data.tile import records
from baselines.evaluation import submission
from baselines.hlo import graph
from baselines.hlo import layout
from baselines.hlo import reading
from baselines.hlo import tile
from baselines.runs import saved
from baselines.training import checkpoints
from tests.helpers import hlo_modules
from tests.helpers import layout_files
from tests.helpers import tile_records

_FOLDER = 'npz/tile/xla/train'


class Target(NamedTuple):
    """A format.

    Attributes:
        good: bytes of a good file.
        read: reads a file of that path; returns what was in it, or None where
            the format cannot tell whether that is right.
    """

    good: bytes
    read: Callable[[str], Any]


def survives(target: Target, data: bytes, folder: str) -> bool:
    """Reads `data` as a file in `folder`; whether it was taken.

    Raises:
        AssertionError: it was read as something else than the good file.
        Whatever else should not come out.
    """
    path = os.path.join(folder, 'model_0', 'f.npz')
    expected = _expected(target, path)
    with open(path, 'wb') as stream:
        stream.write(data)
    try:
        found = target.read(path)
    except (ValueError, OSError) as error:
        assert str(error)
        return False
    assert found == expected, f'silently different: {found!r:.500}'
    return True


@functools.lru_cache(maxsize=None)
def _expected(target: Target, path: str) -> Any:
    """What is in the good file, read once."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, 'wb') as stream:
        stream.write(target.good)
    return target.read(path)


def targets() -> Dict[str, Target]:
    """Returns all formats by name."""
    rng = np.random.default_rng(0)
    kernel = tile_records.make_record(rng, 'f', nodes=4, configs=5)
    program = layout_files.make_program(rng, 'f', nodes=6, configs=4)
    named = {
        **{k: v for k, v in vars(kernel).items() if isinstance(v, np.ndarray)},
        'pad': np.array(-1),
        'feature_names': np.array([f'n{i}' for i in range(140)]),
    }
    return {
        'tile.npz': Target(_npz(named), lambda p: _values(records.read_tile(p))),
        'layout.npz': Target(
            _npz(layout_files.arrays_of(program)),
            lambda p: _values(layout_records.read_layout(p)),
        ),
        'tile.pb': Target(hlo_modules.tile_file(hlo_modules.good_tile()), _extract),
        'layout.pb': Target(hlo_modules.good_layout().SerializeToString(), _extract),
        'run.jsonz': Target(_run_file(), _load_run),
        'unfinished.npz': Target(_unfinished(), _read_unfinished),
        'archive.tar': Target(_archive(), _unpack),
        'ranking.csv': Target(
            b'ID,TopConfigs\ntile:xla:a,4;1;0;2;3\nlayout:nlp:random:b,1;0;2\n', _rows
        ),
        'packed column': Target(_npz(named), _packed),
    }


def _npz(arrays) -> bytes:
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    return content.getvalue()


def _values(record) -> Dict[str, Any]:
    return {
        key: value.tolist() if isinstance(value, np.ndarray) else value
        for key, value in vars(record).items()
    }


def _extract(path: str) -> None:
    file = reading.read_tuning(path)
    for tuning in file.modules:
        nodes = graph.extract_graph(tuning.module)
        if file.kind == 'tile':
            tile.extract_configs(tuning)
        else:
            layout.extract_configs(tuning, len(nodes.node_opcode))


def _run_file() -> bytes:
    info = {
        'args': {'model': 'Tiny', 'model_kwargs_json': '{}', 'configs': 10},
        'test_predictions': {f'tile:xla:{i}': [4, 1, 0, 2, 3] for i in range(20)},
        'normalizer': {'node_min': [0.25] * 30},
    }
    return gzip.compress(json.dumps(info).encode(), mtime=0)


def _load_run(path: str) -> Dict[str, Any]:
    # In place of model_0's run file; its checkpoint has its own tests.
    model_dir = os.path.dirname(path)
    variables = os.path.join(model_dir, 'variables')
    os.makedirs(variables, exist_ok=True)
    open(os.path.join(variables, 'variables.index'), 'wb').close()
    os.replace(path, saved.run_file(model_dir))
    return saved.Run.load(model_dir).info


def _unfinished() -> bytes:
    folder = os.environ.get('TMPDIR', '/tmp')
    checkpoint = checkpoints.Checkpoint(os.path.join(folder, f'fuzz_{os.getpid()}.npz'))
    arrays = {f'now_{i:04d}': np.arange(3.0) + i for i in range(12)}
    checkpoint.write(arrays, {'curve': {'epoch': [0, 1]}})
    with open(checkpoint.path, 'rb') as stream:
        content = stream.read()
    checkpoint.remove()
    return content


def _read_unfinished(path: str) -> Any:
    arrays, described = checkpoints.Checkpoint(path).read()
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


def _packed(path: str) -> Any:
    """Packs what the good file holds; a column on the disk becomes `path`'s bytes.

    The bytes are cut to a column's size: those that a disk would change.
    """
    folder = os.path.join(os.path.dirname(path), 'split')
    with open(path, 'rb') as stream:
        data = np.frombuffer(stream.read(), np.uint8)

    def build(writer):
        writer.append(rows=np.arange(300).reshape(100, 3))
        return {'meaning': 'numbers'}

    def opened():
        return cache.open_or_build(folder, 'tile', ['x'], [], 1, build)

    manifest, arrays = opened()
    name = arrays['rows'].filename
    del arrays
    with open(name, 'r+b') as stream:
        stream.seek(int(data.sum()) % (128 + 300 * 8 - 8))
        stream.write(data[:8].tobytes())
    manifest, arrays = opened()
    return manifest['meaning'], arrays['rows'].tolist()
