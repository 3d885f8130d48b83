"""How the time of each reader of untrusted files grows with the file.

    python benchmarks/readers.py

A row per reader: the file's size, and the least of three times that all cores worked
together, for N and for 4 N of what repeats in it.  The work should grow no faster than
the file.  What is refused is timed until then.
"""

import contextlib
import gzip
import io
import json
import os
import pathlib
import tarfile
import tempfile

import numpy as np
import results
import synthetic

from baselines import config
from baselines import scripts
from baselines.data import archives
from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records
from baselines.evaluation import score_files
from baselines.evaluation import submission
from baselines.hlo import candidates
from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import run_files
from baselines.training import checkpoints
from baselines.trees import booster

_N = 20_000
_SPLIT = 'npz/tile/xla/train'
_RNG = np.random.default_rng(0)


def _csv(*rows):
    return '\n'.join(['ID,TopConfigs', *rows]).encode()


def _npz(**arrays):
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def _written(write):
    with tempfile.TemporaryDirectory() as folder:
        write(path := os.path.join(folder, 'g.npz'))
        return pathlib.Path(path).read_bytes()


def _module(n):
    shape = dict(element_type=11, dimensions=[8], layout=dict(minor_to_major=[0]))
    first = dict(name='p', opcode='parameter', id=1, shape=shape)
    rest = dict(opcode='tanh', shape=shape)
    chain = [dict(rest, name=f't{i}', id=i, operand_ids=[i - 1]) for i in range(2, n)]
    part = dict(name='main', id=1, root_id=n - 1, instructions=[first, *chain])
    return protos.HloModuleProto(name='m', computations=[part]).SerializeToString()


def _archive(n):
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode='w') as tar:
        for i in range(n // 400):
            tar.addfile(tarfile.TarInfo(f'{_SPLIT}/{i}.npz'))
    return stream.getvalue()


def _trees(n):
    tree = 'num_leaves=2\nnum_cat=0\nsplit_feature=0\nthreshold=0.5\ndecision_type=2\n'
    tree += 'left_child=-1\nright_child=-2\nleaf_value=1 2\nis_linear=0\n'
    head = 'tree\nnum_class=1\nnum_tree_per_iteration=1\nlabel_index=0\n'
    head += 'max_feature_idx=0\nfeature_names=a\n'
    trees = (f'\nTree={i}\n{tree}' for i in range(n // 200))
    return f'{head}{"".join(trees)}\nend of trees\n'.encode()


def _run(n):
    chosen = {f'tile:xla:{i}': [4, 1, 0, 2, 3] for i in range(n)}
    args = {'model': 'MLP', 'model_kwargs_json': '{}', 'configs': 10}
    info = {'args': args, 'test_predictions': chosen}
    return gzip.compress(json.dumps(info).encode())


def _read_run(path):
    os.replace(path, os.path.join(os.path.dirname(path), 'run_0.jsonz'))
    run_files.read(os.path.join(os.path.dirname(path), 'model_0'))


# Name of the file -> (what it holds of n, what reads it).
READERS = {
    'rows.csv': (
        lambda n: _csv(*(f'tile:xla:{i},4;1;0;2;3' for i in range(n))),
        submission.read_predictions,
    ),
    'repeated_index.csv': (
        lambda n: _csv(f'tile:xla:a,{";".join(["7"] * n)}'),
        lambda path: submission.read_predictions(path, padded=True),
    ),
    'scores.npz': (
        lambda n: _npz(**{f'g{i}': np.zeros(20) for i in range(n // 20)}),
        lambda path: score_files.read(
            path, 'tile:xla', {f'g{i}': 20 for i in range(4 * _N // 20)}
        ),
    ),
    'kernel.npz': (
        lambda n: _written(synthetic.kernel(_RNG, nodes=n // 10).write),
        tile_records.TileRecord.read,
    ),
    'program.npz': (
        lambda n: _written(synthetic.program(_RNG, nodes=n // 40).write),
        lambda path: [
            *layout_records.read_configs(path, layout_records.read_program(path))
        ],
    ),
    'module.pb': (
        lambda n: _module(n // 10),
        lambda path: graph.extract_graph(reading.read_source(path, 'show').module),
    ),
    'candidates.json': (
        lambda n: json.dumps([{'kernel_bounds': [1, 8]}] * n).encode(),
        candidates.read,
    ),
    'config.toml': (
        lambda n: f'model_kwargs_json = {{a = {[1] * n}}}'.encode(),
        lambda path: scripts.read_toml(config.TileConfig, path),
    ),
    'run.jsonz': (_run, _read_run),
    'state.npz': (
        lambda n: _written(
            lambda path: checkpoints.write_state_file(
                path, {f'now_{i:04d}': np.zeros(20) for i in range(n // 20)}, {}
            )
        ),
        checkpoints.read_state,
    ),
    'trees.txt': (_trees, booster.Trees.read),
    'archive.tar': (
        _archive,
        lambda path: archives.unpack(path, f'{path}.unpacked', _SPLIT),
    ),
}


def measure(name, n):
    """Returns the size of a file of `n` in bytes, and the least time to read it."""
    content, read = READERS[name]
    data = content(n)

    def work():
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, name)
            path.write_bytes(data)
            with contextlib.suppress(ValueError):
                read(str(path))

    with contextlib.redirect_stderr(io.StringIO()):
        return len(data), results.timed(work, 3)[1][0]


def main():
    """Measures and prints."""
    results.parser(__doc__).parse_args()
    print(f'{"reader":20s}{"kB":>8s}{"ms":>9s}{"kB, 4 N":>9s}{"ms":>9s}{"grows":>8s}')
    for name in READERS:
        (size, least), (size_4, least_4) = (measure(name, n) for n in (_N, 4 * _N))
        print(
            f'{name:20s}{size / 1e3:8,.0f}{least * 1e3:9.1f}{size_4 / 1e3:9,.0f}'
            f'{least_4 * 1e3:9.1f}{least_4 / least:7.1f}x',
            flush=True,
        )


if __name__ == '__main__':
    results.run(main)
