"""A longer search for surprises:  python -m tests.fuzz --minutes 10

Mutates files of every format until the time is over.  Ends with 1 at the first
surprise, and leaves what led to it.
"""

import argparse
import pathlib
import sys
import tempfile
import time
import traceback

import hypothesis
import numpy as np

from tests.fuzz import inputs
from tests.fuzz import strategies

_EXAMPLES = 50  # of a format at a time


def main() -> int:
    """Parses flags and searches; returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m tests.fuzz', description=__doc__)
    parser.add_argument('--minutes', type=float, default=10.0)
    parser.add_argument('--seed', type=int, default=0)
    args = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix='tpugraphs_fuzz_'))
    end = time.monotonic() + 60 * args.minutes
    try:
        _mutate(root, end, np.random.default_rng(args.seed))
    except BaseException:
        traceback.print_exc()
        print(f'what led to it: {root}')
        return 1
    return 0


def _mutate(root: pathlib.Path, end: float, rng: np.random.Generator) -> None:
    targets = inputs.targets()
    tried, taken = dict.fromkeys(targets, 0), dict.fromkeys(targets, 0)

    def search(name: str, target: inputs.Target) -> None:
        @hypothesis.seed(int(rng.integers(2**32)))
        @hypothesis.settings(
            max_examples=_EXAMPLES,
            deadline=None,
            database=None,
            phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.given(strategies.contents(target))
        def check(data: bytes) -> None:
            (root / 'last').write_bytes(data)
            taken[name] += inputs.survives(target, data, str(root / 'read' / name))
            tried[name] += 1

        check()

    while time.monotonic() < end:
        for name, target in targets.items():
            search(name, target)
    for name, count in tried.items():
        print(f'{name}: {count:,} changed, {taken[name]:,} of them read all the same')
    print(f'{sum(tried.values()):,} inputs')


if __name__ == '__main__':
    sys.exit(main())
