"""Chooses kernels to measure from a pool, by a model or at random, and measures them.

  python tools/measured_data/choose.py pool POOL models/train_on/*.pb
  python tools/measured_data/choose.py pool POOL --random 420 --seed 31
  python tools/measured_data/choose.py rank POOL --dir RUN
  python tools/measured_data/choose.py measure POOL OUT --by score --minutes 25

A pool is a folder with programs after XLA's passes, and `kernels.json` with candidates:
up to twelve kernels of each program that no archive has, drawn as `collect --kernels`
does.  `rank` gives each a score, the mean of two percentiles: of the share of pairs of
configurations that the graph model and the trees of a run order differently, and of the
distance to the nearest kernel of the archive's train split.  Numbers of a kernel are
how often each opcode occurs, and sums and maxima of its nodes' features as logarithms.
"""

import argparse
import collections
from collections.abc import Callable
import glob
import json
import os
import pathlib
import sys
from typing import Any

import numpy as np
import tqdm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from baselines.core import exits
from baselines.core import files
from baselines.core import starting
from baselines.core import text
from baselines.data import shipped
from baselines.data.tile import records
from baselines.hlo import graph
from baselines.scoring import prediction
from tpugraphs.extract import outcomes
from tpugraphs.kernels import cutting
from tpugraphs.kernels import preparation
from tpugraphs.kernels import tile_choices
from tpugraphs.measure import collection
from tpugraphs.measure import collection_folder
from tpugraphs.measure import random_programs
from tpugraphs.measure.clock import session as session_lib
from tpugraphs.programs import reader
from tpugraphs.ranking import ranking

_ARCHIVES = ('tile', 'by_others', 'by_others_real')
_PER_PROGRAM = 12  # candidates at most
_CHOSEN_PER_PROGRAM = 6
_CONFIGS = 16  # to compare the models on
_LIST = 'kernels.json'


def main() -> None:
    """Runs the command that the first argument names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('command', choices=('pool', 'rank', 'measure'))
    parser.add_argument('pool')
    parser.add_argument('paths', nargs='*', help='programs, or the output folder')
    parser.add_argument('--random', type=int, default=0, metavar='N')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--dir', default='latest', help='a run with two models')
    parser.add_argument('--by', choices=('score', 'chance'), default='score')
    parser.add_argument('--without', nargs='*', default=[], metavar='OUT')
    parser.add_argument('--count', type=int, default=600)
    parser.add_argument('--configs', type=int, default=20)
    parser.add_argument('--seconds', type=float, default=4.0)
    parser.add_argument('--minutes', type=float, default=25.0)
    parser.add_argument('--core', type=int, default=-1)
    args = parser.parse_args()
    starting.start_tensorflow()
    if args.command == 'pool':
        make_pool(args)
    elif args.command == 'rank':
        rank(args)
    else:
        measure(args)


def make_pool(args: argparse.Namespace) -> None:
    """Optimises programs, and lists the kernels that no archive has."""
    os.makedirs(args.pool, exist_ok=True)
    sources: list[tuple[str, Callable[[str], reader.Program]]] = [
        (path, preparation.load) for path in args.paths
    ]
    names = random_programs.random_names(args.random, args.seed) if args.random else []
    sources += [(name, random_programs.load_random) for name in names]
    with session_lib.Session(args.core) as session:
        for source, load in tqdm.tqdm(sources, mininterval=10):
            path = os.path.join(args.pool, os.path.basename(source))
            path = f'{path.removesuffix(".pb")}.pb'
            if os.path.exists(path):
                continue
            try:
                module = preparation.optimise(load(source), session.optimise)
            except (ValueError, OSError) as error:
                tqdm.tqdm.write(text.one_line(error, source), file=sys.stderr)
                continue
            # Without a fusion it would be taken for a program to optimise.
            if not preparation.is_optimised(module):
                continue
            with files.write_atomically(path, 'wb') as stream:
                stream.write(module.SerializeToString())
    seen = {name.rpartition('_')[2] for name in _measured()}
    options = collection_folder.CollectionOptions(
        args.pool, kernels=_PER_PROGRAM, seed=args.seed
    )
    listed = []
    for path in tqdm.tqdm(_programs(args.pool), mininterval=10):
        program = preparation.load(path)
        skipped: collections.Counter[str] = collections.Counter()
        kernels = tile_choices.kernels_of(program.module, program.name, seen, skipped)
        for kernel in collection.draw_kernels(kernels, options):
            listed.append({'name': kernel.name, 'program': program.name})
    _write_list(args.pool, listed)
    print(f'{len(listed):,} candidates')


def _programs(pool: str) -> list[str]:
    return sorted(glob.glob(os.path.join(pool, '*.pb')))


def rank(args: argparse.Namespace) -> None:
    """Gives the candidates of a pool their scores."""
    source = prediction.Options(sample_data=True)
    predictor = prediction.load(args.dir, source)
    names = {kernel['name'] for kernel in _read_list(args.pool)}
    listed: list[dict[str, Any]] = []
    numbers: list[np.ndarray] = []
    for path in tqdm.tqdm(_programs(args.pool), mininterval=10):
        program = preparation.load(path)
        kernels, _ = cutting.cut(program.module, program.name)
        tunings = []
        for kernel in kernels:
            if kernel.name not in names:
                continue
            rng = np.random.default_rng(args.seed)
            configs = tile_choices.candidates_of(kernel, rng, _CONFIGS).configs
            if len(configs) > 4:
                tunings.append((path, tile_choices.tuning_data(kernel, configs)))
                nodes = graph.extract_graph(kernel.module)
                numbers.append(_numbers(nodes.node_feat, nodes.node_opcode))
                listed.append({'name': kernel.name, 'program': program.name})
        ranked = ranking.rank_modules(tunings, predictor, outcomes.Outcome())
        for about, row in zip(listed[len(listed) - len(tunings) :], ranked):
            about['disagreement'] = 1 - (row.agreement or 0)
    train = glob.glob(os.path.join(shipped.folder('tile'), 'train', '*.npz'))
    known = [records.read_tile(path) for path in train]
    there = np.array([_numbers(r.node_feat, r.node_opcode) for r in known])
    scale = there.std(0) + 1e-3
    there, here = there / scale, np.array(numbers) / scale
    disagreement = np.array([about['disagreement'] for about in listed])
    distance = np.array([np.sqrt(np.square(there - row).sum(1).min()) for row in here])
    score = (_percentiles(disagreement) + _percentiles(distance)) / 2
    for about, far, points in zip(listed, distance, score):
        about.update(distance=float(far), score=float(points))
    _write_list(args.pool, listed)


def _read_list(pool: str) -> list[dict[str, Any]]:
    with open(os.path.join(pool, _LIST), encoding='utf-8') as stream:
        return json.load(stream)


def _write_list(pool: str, listed: list[dict[str, Any]]) -> None:
    with files.write_atomically(os.path.join(pool, _LIST)) as stream:
        json.dump(listed, stream, indent=1)


def _measured() -> list[str]:
    """Returns the names of the kernels that are in an archive."""
    return [
        name
        for archive in _ARCHIVES
        for name in collection_folder.read_sidecar(shipped.folder(archive))['kernels']
    ]


def _numbers(node_feat: np.ndarray, node_opcode: np.ndarray) -> np.ndarray:
    """Returns the numbers of a kernel that distances are of."""
    nodes = np.sign(node_feat) * np.log1p(np.abs(node_feat))
    counts = np.bincount(node_opcode, minlength=128)[:128]
    return np.concatenate([nodes.sum(0), nodes.max(0), np.log1p(counts)])


def _percentiles(values: np.ndarray) -> np.ndarray:
    return values.argsort().argsort() / len(values)


def measure(args: argparse.Namespace) -> None:
    """Measures the candidates with the highest scores, or as many by chance."""
    [output] = args.paths
    listed = _read_list(args.pool)
    for folder in args.without:
        there = collection_folder.read_sidecar(folder)['kernels']
        listed = [kernel for kernel in listed if kernel['name'] not in there]
    order = np.random.default_rng(args.seed).permutation(len(listed))
    listed = [listed[place] for place in order]
    if args.by == 'score':
        listed.sort(key=lambda kernel: -kernel['score'])
    counts: collections.Counter[str] = collections.Counter()
    names: set[str] = set()
    for kernel in listed:
        counts[kernel['program']] += 1
        if counts[kernel['program']] <= _CHOSEN_PER_PROGRAM and len(names) < args.count:
            names.add(kernel['name'])

    def kernels_of(program: reader.Program, *unused: Any) -> list[cutting.Kernel]:
        kernels, _ = cutting.cut(program.module, program.name)
        return [kernel for kernel in kernels if kernel.name in names]

    programs = {kernel['program'] for kernel in listed if kernel['name'] in names}
    options = collection_folder.CollectionOptions(
        files.expand(output),
        configs=args.configs,
        seconds=args.seconds,
        minutes=args.minutes,
        seed=args.seed,
        core=args.core,
        split=None,
    )
    paths = [os.path.join(args.pool, f'{program}.pb') for program in sorted(programs)]
    paths = [paths[i] for i in np.random.default_rng(args.seed).permutation(len(paths))]
    done = collection.collect(paths, options, kernels_of=kernels_of)
    print(*done.lines(), sep='\n')


if __name__ == '__main__':
    sys.exit(exits.guarded(main))
