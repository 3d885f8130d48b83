"""What `tpugraphs tune` claims: among copies of the default, and on two examples.

  python benchmarks/measured_tuning.py --null 20       # false claims
  python benchmarks/measured_tuning.py --examples      # real gains

For --null every candidate is the default compiled once more, so each claim is
false.  The examples are a sum of squares over the major axis and a transposed
product; --dir names a model that proposes, without it candidates are random.
"""

import argparse
import dataclasses
import os
import sys
import tempfile

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from baselines import command_line
from baselines.hlo import protos
from baselines.measuring import builtin
from baselines.measuring import machine
from baselines.measuring import programs
from baselines.measuring import session as session_lib
from baselines.measuring import tiles
from baselines.measuring import tuning

_CANDIDATES = 10


def main() -> int:
    """Measures and prints."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('--null', type=int, default=0, metavar='KERNELS')
    parser.add_argument('--examples', action='store_true')
    parser.add_argument('--dir', default='')
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--core', type=int, default=machine.default_core())
    args = parser.parse_args()
    command_line.start_tensorflow()
    limits = session_lib.Limits(core=args.core)
    if args.null:
        false_claims(args.null, args.seed, limits)
    if args.examples:
        examples(args, limits)
    return 0


def false_claims(count: int, seed: int, limits: session_lib.Limits) -> None:
    """Tunes kernels among copies of their default and counts what is claimed."""
    rng = np.random.default_rng(seed)
    claimed = done = 0
    with tempfile.TemporaryDirectory() as folder:
        with session_lib.Session(os.path.join(folder, 'journal'), limits) as session:
            for name in rng.permutation(list(builtin.table())):
                program = builtin.load(str(name))
                content = session.optimise(program.module.SerializeToString())
                module = protos.protos().HloModuleProto.FromString(content)
                items = tiles.items_of(module, program.name, set(), {})
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
    copies = dataclasses.replace(
        batch,
        modules=[batch.modules[0]] * (1 + _CANDIDATES),
        described=[batch.described[0]] * (1 + _CANDIDATES),
    )
    return tuning.tune(
        item,
        copies,
        lambda known: range(1 + _CANDIDATES),
        session,
        _CANDIDATES,
        seed,
        distinct=False,
    )


def examples(args: argparse.Namespace, limits: session_lib.Limits) -> None:
    """Tunes the two examples."""
    import tensorflow as tf

    from baselines.tasks import tune

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
                output=folder, model_dir=args.dir, seed=args.seed, limits=limits
            )
            for line in tune.table(tune.tune(program, options)):
                print(line)


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
