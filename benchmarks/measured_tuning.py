"""What `tpugraphs tune` claims: among copies of the default, and on two examples.

  python benchmarks/measured_tuning.py --null 20       # false claims
  python benchmarks/measured_tuning.py --examples      # real gains
  python benchmarks/measured_tuning.py --share         # of what there is to gain

For --null every candidate is the default compiled once more, so each claim is
false.  The examples are a sum of squares over the major axis and a transposed
product; --dir names a model that proposes, without it candidates are random
(with --online, rounds without a model).

--share replays tuning on the shipped kernels, with models trained on other
families: every other pass is what is measured, and the rest judge.  Settings of
`baselines/measuring/search.py` were chosen on the first three folds of families.
"""

import argparse
import collections
import dataclasses
import os
import tempfile
from typing import List

import measured
import numpy as np
import results

from baselines import command_line
from baselines.measuring import builtin
from baselines.measuring import collection
from baselines.measuring import machine
from baselines.measuring import packaged
from baselines.measuring import programs
from baselines.measuring import search
from baselines.measuring import session as session_lib
from baselines.measuring import tiles
from baselines.measuring import tuning

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
    """Replays tuning on the shipped kernels and prints a table."""
    kernels = measured.load(packaged.folder('tile'))
    folds = measured.fold_of(kernels, 5)
    columns = [tiles.columns(kernel.configs) for kernel in kernels]
    rng = np.random.default_rng(seed)
    known = {
        'random': [rng.random(len(rows)) for rows in columns],
        'the estimate': [rows for [rows] in measured.estimates(kernels)],
        'trees': [rows for [rows] in measured.trees(kernels, folds, range(5))],
    }
    chosen = ('folds 1 to 3, for choosing', 'folds 4 and 5')
    results.head('', *chosen, 'best measured', 'apart')
    apart = None
    for name, scores in known.items():
        for rounds in (1, 3):
            replayed = np.array(
                [
                    _replayed(kernel, rows, row, rounds, name == 'random')
                    for kernel, rows, row in zip(kernels, columns, scores)
                ]
            )
            cells = []
            for chosen in (folds < 3, folds >= 3):
                found, best = np.exp(replayed[chosen, :2].mean(0))
                part = (found - 1) / (best - 1)
                cells.append(f'{found:.2f} of {best:.2f}: {part:.0%}')
            # Where something is to be gained.
            fast = replayed[:, 1] > np.log(1.1)
            cells.append(f'{replayed[fast, 2].mean():.0%}')
            apart = apart or replayed[:, 3].sum()  # the first row is random
            cells.append(f'{replayed[:, 3].sum() / apart:.2f}')
            title = 'no model' if rounds > 1 and name == 'random' else name
            results.row(f'{title}, {rounds} rounds', *cells)


def _replayed(kernel, columns, scores, rounds: int, blind: bool) -> List[float]:
    """Returns the log speed-up of what tuning finds, and of the best; whether the
    best was measured; and how far apart what was measured lies, on average."""
    halves = kernel.passes[::2].min(0), kernel.passes[1::2].min(0)
    found, judge = (np.log(half / half[0]) for half in halves)
    order = [int(i) for i in np.argsort(scores, kind='stable') if i]
    known = {0: 0.0, **{i: found[i] for i in order[:_CANDIDATES]}}
    if rounds > 1:
        surrogate = search.Surrogate(columns, None if blind else scores)
        known = {0: 0.0}
        for count in tuning.rounds_of(_CANDIDATES, rounds):
            proposed = surrogate.propose(known, [], count)
            known.update((i, found[i]) for i in proposed)
    rows = columns[list(known)[1:]]
    apart = np.sqrt(((rows[:, None] - rows[None]) ** 2).sum(-1)).mean()
    best = int(found.argmin())
    return [-judge[min(known, key=known.get)], -judge[best], best in known, apart]


def examples(args: argparse.Namespace, limits: session_lib.Limits) -> None:
    """Tunes the two examples."""
    import tensorflow as tf

    from baselines import tune

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
        with tempfile.TemporaryDirectory() as folder:
            options = tune.Options(
                output=folder,
                model_dir=args.dir,
                online=args.online,
                seed=args.seed,
                limits=limits,
            )
            for line in tune.table(tune.tune(program, options)):
                print(line)


if __name__ == '__main__':
    results.run(main)
