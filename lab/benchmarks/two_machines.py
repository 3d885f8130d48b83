"""Do two machines rank the tiles of a kernel alike, and do models carry over?

  python lab/benchmarks/two_machines.py prepare FOLDER PROGRAM.pb ...
  PYTHON benchmarks/two_releases.py measure FOLDER --name NAME --cores 2 4
  python lab/benchmarks/two_machines.py table FOLDER archive NAME
  python lab/benchmarks/two_machines.py models FOLDER archive NAME

`prepare` cuts kernels of a shipped archive from their programs again, with the release
that measured them, and writes the modules of the archive's configurations, and its
times as archive.json.  `two_releases.py measure` times them anywhere: it needs jaxlib
and no TensorFlow.  `table` prints Kendall's tau between the times of two such runs.
`models` judges scores on both: those of the run that ships, and as limits the times of
either run, and their mean, which stands for a model that knows no machine.
"""

import argparse
import collections
from collections.abc import Sequence
import json
import pathlib
from typing import Any

import numpy as np
import tqdm

from baselines.data.tile import records
from baselines.evaluation import metrics
from baselines.hlo import schema
from baselines.runs import finding
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import two_releases
from lab.benchmarks import xla_versions
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import rewriting
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure.clock import session as session_lib


def prepare(args: argparse.Namespace) -> None:
    """Writes kernels of the archive: modules, configurations and times."""
    graphs = {graph.name: graph for graph in judging.load(args.archive)}
    times: dict[str, Any] = {}
    skipped: collections.Counter[str] = collections.Counter()
    with session_lib.Session(args.core) as session:
        for path in tqdm.tqdm(args.arguments, mininterval=10):
            program = preparation.load(path)
            module = preparation.optimise(program, session.optimise)
            name = program.name
            for kernel in tile_choices.kernels_of(module, name, set(), skipped):
                if kernel.name in graphs:
                    place = args.folder / 'kernels' / kernel.name
                    measured = _write(place, kernel, graphs[kernel.name])
                    if measured is not None:
                        times[kernel.name] = measured
    (args.folder / 'archive.json').write_text(json.dumps(times))
    print(f'{len(times)} of {len(graphs)} kernels')


def _write(
    place: pathlib.Path, kernel: cutting.Kernel, graph: judging.Graph
) -> dict[str, Any] | None:
    """Writes a kernel; returns its times, or None if tiles cannot be made again."""
    rows = records.TileRecord.read(graph.path).config_feat
    plan = rewriting.Plan(kernel.module)
    parts = {
        'output': (schema.OUTPUT_BOUNDS, len(plan.output)),
        'kernel': (schema.KERNEL_BOUNDS, len(plan.reduced)),
    }
    tiles = [
        rewriting.Tiles(*(
            tuple(row[block][:rank].astype(int).tolist())
            for block, rank in parts.values()
        ))
        for row in rows
    ]  # fmt: skip
    tiles = [plan.untiled, *(t for t in tiles if t != plan.untiled)]
    candidates = tile_choices.candidates_with(plan, tiles)
    xla_versions.write_candidates(place, kernel, candidates)
    made = xla_versions.record_of(place, graph.jaxlib).config_feat
    columns = {row.tobytes(): column for column, row in enumerate(rows)}
    found = [columns.get(row.tobytes()) for row in made]
    if None in found or len(found) != len(rows):
        return None
    return {'kept': [*range(len(found))], 'halves': graph.halves[:, found].tolist()}


def table(args: argparse.Namespace) -> None:
    """Prints how alike two runs rank, by the kernels' time in the second one."""
    two_releases.print_agreement(*_runs(args))


def models(args: argparse.Namespace) -> None:
    """Prints the OPA and the top-5 error of scores on the times of two runs."""
    predictor = results.load(finding.PRETRAINED)
    figures: dict[str, list[list[float]]] = {}
    for name, places, a, b in two_releases.pairs_of(*_runs(args)):
        record = xla_versions.record_of(args.folder / 'kernels' / name, args.release)
        first, second = (np.log(t[:, 0] / t[0, 0]) for t in (a, b))
        scores = {
            'pretrained': predictor.score_record(record)[places],
            f'times of {args.arguments[0]}': first,
            f'times of {args.arguments[1]}': second,
            'mean of the logs of both': first + second,
        }
        for scorer, row in scores.items():
            judged = [_judged(row, times[:, 1]) for times in (a, b)]
            figures.setdefault(scorer, []).append(np.concatenate(judged))
    results.head(
        'scores',
        *(f'{name}: {figure}'
          for name in args.arguments for figure in ('OPA', 'top-5 error')),
    )  # fmt: skip
    for scorer, rows in figures.items():
        means = np.mean(rows, axis=0)
        cells = [f'{means[0]:.3f}', f'{means[1]:.1%}']
        results.row(scorer, *cells, f'{means[2]:.3f}', f'{means[3]:.1%}')
    print(f'{len(rows)} kernels')


def _judged(scores: np.ndarray, times: np.ndarray) -> list[float]:
    """Returns OPA and top-5 error."""
    right, pairs = metrics.ordered_pairs(scores, times)
    return [right / max(pairs, 1), metrics.top_k_error(scores, times, 5)]


def _runs(args: argparse.Namespace) -> Sequence[dict[str, Any]]:
    """Returns kernel -> measurement, of the two runs that are named."""
    if len(args.arguments) != 2:
        raise ValueError(f'{len(args.arguments)} runs are named; name two')
    return [json.loads((args.folder / f'{n}.json').read_text()) for n in args.arguments]


def main() -> None:
    """Runs the command that the first argument names."""
    commands = {f.__name__: f for f in (prepare, table, models)}
    parser = results.parser(__doc__)
    parser.add_argument('command', choices=commands)
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('arguments', nargs='*', help='programs, or two runs')
    parser.add_argument('--archive', default='by_others_real')
    parser.add_argument('--release', default='0.12.0.1', help='that models score for')
    parser.add_argument('--core', type=int, default=-1, help='of XLA')
    args = parser.parse_args()
    commands[args.command](args)


if __name__ == '__main__':
    results.run(main)
