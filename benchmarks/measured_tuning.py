"""What `tpugraphs tune` claims: among copies of the default, and on two examples.

  python benchmarks/measured_tuning.py --null 20       # false claims
  python benchmarks/measured_tuning.py --examples      # real gains
  python benchmarks/measured_tuning.py --share         # of what there is to gain

For --null every candidate is the default compiled once more, so each claim is
false.  The examples are a sum of squares over the major axis and a transposed
product; --dir names a model that proposes, without it candidates are random
(with --online, rounds without a model).

--share replays tuning on shipped kernels of families that the trees were not trained
on: every other pass is what is measured, and the rest judge.
"""

import argparse
import collections
import dataclasses
import os
import tempfile
from typing import Dict, List, Tuple

import judging
import numpy as np
import results

from baselines import command_line
from baselines.data.tile import records
from tpugraphs.measure import builtin
from tpugraphs.measure import collection
from tpugraphs.measure import machine
from tpugraphs.measure import programs
from tpugraphs.measure import search
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import tuning

_CANDIDATES = 10


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument('--null', type=int, default=0, metavar='KERNELS')
    parser.add_argument('--examples', action='store_true')
    parser.add_argument('--dir', default='')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--online', action=argparse.BooleanOptionalAction)
    parser.add_argument('--share', action='store_true')
    parser.add_argument('--core', type=int, default=machine.chosen_core())
    args = parser.parse_args()
    if args.share:
        share(args.seed)
    command_line.start_tensorflow()
    limits = session_lib.Limits(core=args.core)
    if args.null:
        false_claims(args.null, args.seed, limits)
    if args.examples:
        examples(args, limits)


def false_claims(count: int, seed: int, limits: session_lib.Limits) -> None:
    """Tunes kernels among copies of their default and counts what is claimed."""
    rng = np.random.default_rng(seed)
    claimed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        with session_lib.Session(os.path.join(folder, 'journal'), limits) as session:
            for name in rng.permutation(list(builtin.table())):
                program = builtin.load(str(name))
                skipped = collections.Counter()
                items = collection.items_of(program, 'tile', session, set(), skipped)
                item = items[rng.integers(len(items))]
                found = _of_copies(item, session, seed)
                claimed += found.claimed
                done += 1
                tried = ' '.join(f'{number:.3f}' for number in found.tried)
                null = ' '.join(f'{number:.3f}' for number in found.null)
                print(f'{item.name} claimed {found.claimed} best {tried} null {null}')
                if done == count:
                    break
    print(f'{claimed} false claims of {done}')


def _of_copies(item, session, seed: int) -> tuning.Tuned:
    batch = item.batch(np.random.default_rng(0), 2)
    described = [batch.described[0]] * (1 + _CANDIDATES)
    copies = dataclasses.replace(
        batch, described=described, module=lambda _: batch.module(0)
    )
    return tuning.tune(
        item,
        copies,
        lambda known, excluded, count: range(1, 1 + _CANDIDATES),
        session,
        _CANDIDATES,
        seed,
        distinct=False,
    )


def share(seed: int) -> None:
    """Replays tuning on the kernels of `test` and `by_others` and prints a table."""
    shipped = judging.load('tile')
    train = [graph for graph in shipped if graph.split == 'train']
    parts = {
        'test': [graph for graph in shipped if graph.split == 'test'],
        'by_others': judging.load('by_others'),
    }
    rng = np.random.default_rng(seed)
    results.head('', *parts)
    rows: Dict[str, List[str]] = {}
    for graphs in parts.values():
        kinds = {
            'random': [rng.random(graph.halves.shape[1]) for graph in graphs],
            'the estimate': judging.of_the_estimate(graphs),
            'trees': judging.of_flat_trees(train, graphs, seed),
        }
        for name, scores in kinds.items():
            for rounds in (1, 3):
                blind = name == 'random'
                title = 'no model' if blind and rounds > 1 else name
                replayed = np.array(
                    [
                        _replayed(graph, score, rounds, blind)
                        for graph, score in zip(graphs, scores)
                    ]
                )
                gain, best = np.exp(replayed.mean(0))
                cell = f'{gain:.2f} of {best:.2f}: {(gain - 1) / (best - 1):.0%}'
                rows.setdefault(f'{title}, {rounds} rounds', []).append(cell)
    for title, cells in rows.items():
        results.row(title, *cells)


def _replayed(
    graph: judging.Graph, scores: np.ndarray, rounds: int, blind: bool
) -> Tuple[float, float]:
    """Returns the log speed-up of what tuning comes to, and of the best."""
    search_times, judge = (np.log(half / half[0]) for half in graph.halves)
    order = [int(i) for i in np.argsort(scores, kind='stable') if i]
    measured = {0: 0.0, **{i: search_times[i] for i in order[:_CANDIDATES]}}
    if rounds > 1:
        rows = records.read_tile(graph.path).config_feat
        columns = tiles.columns([judging.bounds(row) for row in rows])
        surrogate = search.Surrogate(columns, None if blind else scores)
        measured = {0: 0.0}
        for count in tuning.rounds_of(_CANDIDATES, rounds):
            proposed = surrogate.propose(measured, [], count)
            measured.update((i, search_times[i]) for i in proposed)
    return -judge[min(measured, key=measured.get)], -judge[int(search_times.argmin())]


def examples(args: argparse.Namespace, limits: session_lib.Limits) -> None:
    """Tunes the two examples."""
    import tensorflow as tf

    from tpugraphs.measure import tune_program

    spec = tf.TensorSpec
    made = {
        'squares': (lambda x: tf.reduce_sum(x * x, 0), [spec([64, 128, 192])]),
        'turned': (
            lambda a, b: tf.transpose(a) * b,
            [spec([768, 1024]), spec([1024, 768])],
        ),
    }
    for name, (function, signature) in made.items():
        traced = tf.function(function, input_signature=signature)
        program = programs.from_function(name, traced, name)
        options = tune_program.Options(
            model_dir=args.dir, online=args.online, seed=args.seed, limits=limits
        )
        print(*tune_program.tune(program, options).lines(), sep='\n')


if __name__ == '__main__':
    results.run(main)
