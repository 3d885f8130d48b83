"""How much faster `tpugraphs tune` makes whole programs of real models.

  python tools/measured_data/export.py OUT --sizes small   # in its own environment
  python benchmarks/tuned_programs.py OUT --budget-minutes 5
  python benchmarks/tuned_programs.py OUT --dir latest --core 1
  python benchmarks/tuned_programs.py OUT --records RECORDS
  python benchmarks/tuned_programs.py OUT --start-from RECORDS

Ten of the exported models, one of each kind: convolutions of two image networks, an
encoder, its training step, a decoder, a translator, a vision transformer, a recurrent
network, a vector quantiser's and a graph network's training step.

A row has the share of the program's time in kernels that have tiles; the geometric mean
gain per kernel, where those that keep XLA's default count as 1; and the gain of the
whole program, next to what compiling the optimised program again gains without any
other kernel.  Intervals are 95 %: for a program over passes, for a mean over its items.

The last command starts each program's kernels from the most similar ones that the
command before recorded for the other nine programs.
"""

import argparse
from collections.abc import Sequence
import os
import tempfile
import time
from typing import Any

import numpy as np
import results

from baselines.core import starting

_MODELS = (
    'by_others/mobile_f32_infer_mobilenetv2',
    'by_others/mobile_f32_infer_efficientnetb0',
    'by_others/decoder_f32_infer_gpt2',
    'train_on/encoder_f32_infer_bert',
    'train_on/encoder_f32_train_bert',
    'train_on/seqtoseq_f32_infer_t5',
    'train_on/vision_f32_infer_vit',
    'train_on/recurrent_f32_infer_lstm',
    'train_on/quantiser_f32_train_vq',
    'train_on/graphnet_f32_train_gat',
)


def main() -> None:
    """Tunes each program and prints a row of it."""
    parser = results.parser(__doc__)
    parser.add_argument('folder', metavar='OUT')
    parser.add_argument('--budget-minutes', type=float, default=5)
    parser.add_argument('--candidates', type=int, default=1000)
    parser.add_argument('--core', type=int, default=-1)
    parser.add_argument('--dir', default='', help='a run whose model proposes tiles')
    parser.add_argument('--records', default='', help='folder for a file per program')
    parser.add_argument('--start-from', default='', help='such a folder')
    parser.add_argument('--only', nargs='*', default=[], help='names of programs')
    args = parser.parse_args()
    starting.start_tensorflow()
    results.head(
        'program',
        'ms',
        'kernels tuned',
        'coverage',
        'per kernel',
        'faster alone',
        'program',
        'changed',
        'compiled again',
        'minutes',
    )
    rows: list[dict[str, Any]] = []
    for model in _MODELS:
        name = os.path.basename(model)
        if args.only and name not in args.only:
            continue
        try:
            rows.append(_tuned(os.path.join(args.folder, f'{model}.pb'), args))
        except (ValueError, OSError) as error:
            results.row(name, str(error), *[''] * 8)
            continue
        _row(name, rows[-1])
    _means(rows)


def _tuned(path: str, args: argparse.Namespace) -> dict[str, Any]:
    """Returns the figures of a tuned program."""
    from tpugraphs.kernels import preparation
    from tpugraphs.ranking import tile_scores
    from tpugraphs.tuning import program_search

    program = preparation.load(path)
    with tempfile.TemporaryDirectory() as folder:
        options = program_search.TuningOptions(
            candidates=args.candidates,
            minutes=args.budget_minutes,
            core=args.core,
            records=_records(path, args, folder),
        )
        began = time.monotonic()
        model = tile_scores.load(args.dir, options.platform) if args.dir else None
        figures = program_search.tune(program, options, model=model).to_json()
    return {**figures, 'minutes': (time.monotonic() - began) / 60}


def _records(path: str, args: argparse.Namespace, folder: str) -> str:
    """Returns the file for the records of a program, or ''.

    Args:
        path: of the program.
        args: flags.
        folder: for records of the other programs.
    """
    from tpugraphs.records import tables

    own = os.path.splitext(os.path.basename(path))[0] + '.jsonl'
    if args.records:
        os.makedirs(args.records, exist_ok=True)
        return os.path.join(args.records, own)
    if not args.start_from:
        return ''
    names = sorted(set(os.listdir(args.start_from)) - {own})
    others = [os.path.join(args.start_from, name) for name in names]
    tables.merge(others, os.path.join(folder, own))
    return os.path.join(folder, own)


def _row(name: str, figures: dict[str, Any]) -> None:
    """Prints the row of a program."""
    program, kernels = figures['program'], figures['kernels']
    claimed = [kernel for kernel in kernels if kernel['claimed']]
    if 'speedup' not in program:
        gain = again = program['problem']
    else:
        gain = results.interval(program['speedup'], program['low'], program['high'])
        if not program['claimed']:
            gain = f'1 (tried: {results.interval(*program["tried"])})'
        again = (
            results.interval(*program['unchanged'])
            if program['unchanged']
            else 'differs'
        )
    results.row(
        name,
        f'{program.get("default_ns", 0) / 1e6:.2f}',
        f'{len(kernels)} of {len(kernels) + figures["kernels_left"]}',
        f'{figures["coverage"]:.0%}',
        _geometric([kernel['speedup'] for kernel in kernels]),
        f'{len(claimed)}',
        gain,
        f'{sum(kernel["in_program"] for kernel in kernels)}',
        again,
        f'{figures["minutes"]:.1f}',
    )


def _means(rows: Sequence[dict[str, Any]]) -> None:
    """Prints the row of means over programs."""
    kernels = [kernel for figures in rows for kernel in figures['kernels']]
    programs = [figures['program'].get('speedup', 1.0) for figures in rows]
    coverage = float(np.mean([figures['coverage'] for figures in rows] or [0]))
    results.row(
        'geometric mean',
        '',
        f'{len(kernels)}',
        f'{coverage:.0%} (mean)',
        _geometric([kernel['speedup'] for kernel in kernels]),
        f'{sum(kernel["claimed"] for kernel in kernels)}',
        _geometric(programs),
        f'{sum(kernel["in_program"] for kernel in kernels)}',
        '',
        '',
    )


def _geometric(values: list[float]) -> str:
    """Returns a geometric mean, and its 95 % interval by bootstrap, as text."""
    return results.interval(*np.exp(results.bootstrap(np.log(values or [1.0]))))


if __name__ == '__main__':
    results.run(main)
