"""Compares releases of XLA: what works, how fast kernels are, and how tiles rank.

python lab/benchmarks/xla_versions.py prepare FOLDER    # jaxlib 0.4.30, TensorFlow
PYTHON lab/benchmarks/xla_versions.py check FOLDER      # in each release's environment
PYTHON lab/benchmarks/xla_versions.py measure FOLDER    # in each, on a quiet core
python lab/benchmarks/xla_versions.py table FOLDER      # the extra [trees]

An environment needs
`pip install jaxlib==RELEASE protobuf scipy tqdm pytest pytest-xdist hypothesis`.
`prepare` writes five random programs, and 40 of their kernels as XLA 0.4.30 cuts them,
each untiled and with random tiles.  Every release times the same modules.  A second
`measure` with the same release is kept next to the first one: what two rankings of one
release differ by is noise.

`table` prints two tables.  The first compares a release with the oldest one: `time` is
that of the untiled kernels; `tau` is Kendall's between the orders of a kernel's
configurations; `kept choice` is the time of the configuration that is the fastest under
the oldest release, relative to the fastest one of this release, and `default` that of
the untiled kernel.  The second has Kendall's tau of the model that ships, which has
learned from both runtimes of XLA, with the times under each release: as it scores for
the oldest release, and as it scores for the newest one.
"""

import collections
from collections.abc import Sequence
import json
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np

import baselines
from baselines.data import hardware
from baselines.data import raw
from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from benchmarks import results
from lab.benchmarks import judging
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import rounding
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing

_PROGRAMS, _KERNELS, _TILES = 5, 40, 8
_MOST_EACH = 10  # kernels of a program
_SEED = 1
_FAMILIES = ('product', 'attention', 'norm', 'convolution', 'reduction_major')
_SUITE = 'lab/tests/measure/clock/test_backend.py'
_BASE = '0.4.30'
_TUNING = 'configurations.binpb'  # a ModuleTuningData, for a model to score
_SECONDS = 1.5  # for each kernel, its compilations included


def prepare(folder: pathlib.Path) -> None:
    """Writes the programs and their kernels."""
    from tpugraphs_lab.kernels import preparation
    from tpugraphs_lab.measure import random_programs

    rng = np.random.default_rng(_SEED)
    cut: list[Any] = []
    digests: set = set()
    skipped: collections.Counter[str] = collections.Counter()
    (folder / 'programs').mkdir(parents=True, exist_ok=True)
    with session_lib.Session() as session:
        for name in random_programs.random_names(_PROGRAMS, _SEED, _FAMILIES):
            program = preparation.prepare(random_programs.load_random(name))
            path = folder / 'programs' / f'{name}.pb'
            path.write_bytes(program.module.SerializeToString())
            module = preparation.optimise(program, session.optimise)
            found = tile_choices.kernels_of(module, name, digests, skipped)
            cut.extend(found[:_MOST_EACH])
    for kernel in cut[:_KERNELS]:
        write(folder / 'kernels' / kernel.name, kernel, rng)


def write(
    place: pathlib.Path,
    kernel: cutting.Kernel,
    rng: np.random.Generator,
    fewest: int = 1,
) -> bool:
    """Writes the modules and configurations of a kernel.

    Args:
        place: the folder of the kernel.
        kernel: to write.
        rng: draws the tiles.
        fewest: configurations; a kernel with fewer is left out.

    Returns:
        Whether it was written.
    """
    candidates = tile_choices.candidates_of(kernel, rng, _TILES)
    if len(candidates.configs) < fewest:
        return False
    write_candidates(place, kernel, candidates)
    return True


def write_candidates(
    place: pathlib.Path, kernel: cutting.Kernel, candidates: tile_choices.Candidates
) -> None:
    """Writes the modules of candidates, and their configurations."""
    place.mkdir(parents=True, exist_ok=True)
    for index in range(len(candidates.configs)):
        (place / f'{index:03d}.pb').write_bytes(candidates.modules[index])
    tuning = tile_choices.tuning_data(kernel, candidates.configs)
    (place / _TUNING).write_bytes(tuning.SerializeToString())


def timed(
    session: session_lib.Session, place: pathlib.Path, protocol: timing.Protocol
) -> timing.Measured | None:
    """Times the modules of a kernel; None, with the reason on stderr, if it fails."""
    modules = [path.read_bytes() for path in sorted(place.glob('*.pb'))]
    try:
        untiled = protos.HloModuleProto.FromString(modules[0])
        inputs = cutting.inputs_of(untiled)
        tolerance = rounding.tolerance_of(untiled)
        return session.measure(modules, inputs, _SEED, protocol, tolerance)
    except session_lib.WorkerError as error:
        print(f'{place.name}: {error}', file=sys.stderr)
        return None


def record_of(place: pathlib.Path, release: str) -> raw.Record:
    """Returns the record of a kernel as if a release had measured it."""
    tuning = protos.ModuleTuningData.FromString((place / _TUNING).read_bytes())
    nodes = graph.extract_graph(tuning.module, extra=True)
    configs = raw.extract_configs(reading.TILE, tuning, nodes, measured=False)
    number = hardware.parse_release(release)
    return raw.record_of(place.name, nodes, configs, xla_release=number)


def check(folder: pathlib.Path, core: int) -> None:
    """Tests the release that is installed, and counts the kernels that it makes."""
    about = {'jaxlib': baselines.version('jaxlib'), 'suite': _suite()}
    about['cut'] = _cut(folder, core)
    (folder / f'check-{about["jaxlib"]}.json').write_text(json.dumps(about))


def measure(folder: pathlib.Path, core: int, most: int) -> None:
    """Times `most` kernels with the release that is installed."""
    release = baselines.version('jaxlib')
    times: dict[str, dict[str, int]] = {}
    refused = 0
    protocol = timing.Protocol(
        seconds=_SECONDS, compiling=2 * _SECONDS, least_configs=_TILES
    )
    with session_lib.Session(core) as session:
        places = sorted((folder / 'kernels').iterdir())
        for place in places[:: max(1, len(places) // most)]:
            measured = timed(session, place, protocol)
            if measured is None:
                refused += 1
                continue
            least = map(int, measured.passes.min(0))
            times[place.name] = dict(zip(map(str, measured.kept), least))
    about = {'jaxlib': release, 'times': times, 'refused': refused}
    runs = folder / 'releases'
    runs.mkdir(exist_ok=True)
    number = len(list(runs.glob(f'{release}-*.json')))
    (runs / f'{release}-{number}.json').write_text(json.dumps(about))


def _suite() -> str:
    """Runs the conformance suite of the backend; returns pytest's last line."""
    command = [sys.executable, '-m', 'pytest', '-q', '-n', '0', _SUITE]
    done = subprocess.run(
        [*command, '-p', 'no:cacheprovider', '--durations=0', '-rN'],
        capture_output=True,
        text=True,
        cwd=results.ROOT,
    )
    marks = [line for line in done.stdout.splitlines() if line.endswith('%]')]
    tests = ''.join(line.partition(' ')[0] for line in marks)  # a character each
    if not tests:
        return done.stderr.strip()[-80:]
    return f'{tests.count(".")} of {len(tests)}'


def _cut(folder: pathlib.Path, core: int) -> int:
    """Returns the number of kernels that are cut from the programs."""
    count = 0
    with session_lib.Session(core) as session:
        for path in sorted((folder / 'programs').iterdir()):
            content = session.optimise(path.read_bytes())
            module = protos.HloModuleProto.FromString(content)
            cut, _ = cutting.cut(module, path.stem)
            count += len(cut)
    return count


def table(folder: pathlib.Path) -> None:
    """Prints how the releases' times differ, and how well their kernels are ranked."""
    runs = [json.loads(p.read_text()) for p in sorted((folder / 'releases').iterdir())]
    runs.sort(key=lambda run: hardware.parse_release(run['jaxlib']))
    _print_times(folder, runs)
    print()
    _print_agreement(folder, runs)


def _print_times(folder: pathlib.Path, runs: Sequence[dict[str, Any]]) -> None:
    """Prints a row for each run, relative to the first run of the oldest release."""
    base = next(run for run in runs if run['jaxlib'] == _BASE)['times']
    results.head(
        *('jaxlib', 'suite', 'kernels cut', 'timed', 'time', '10 % to 90 %', 'tau'),
        *('kept choice', 'default'),
    )
    for run in runs:
        path = folder / f'check-{run["jaxlib"]}.json'
        checked = {'suite': '', 'cut': ''}
        if path.exists():
            checked = json.loads(path.read_text())
        ratios, taus, kept, default = [], [], [], []
        for name, times in run['times'].items():
            if name not in base:
                continue
            ratios.append(times['0'] / base[name]['0'])
            both = [i for i in times if i in base[name]]
            if len(both) > 2:
                here, there = (
                    np.array([t[i] for i in both]) for t in (times, base[name])
                )
                taus.append(judging.tau_of(here, there))
                kept.append(here[there.argmin()] / here.min())
                default.append(times['0'] / here.min())
        low, middle, high = np.percentile(ratios, [10, 50, 90])
        results.row(
            *(run['jaxlib'], checked['suite'], str(checked['cut'])),
            f'{len(run["times"])} of {len(run["times"]) + run["refused"]}',
            *(f'{middle:.2f}', f'{low:.2f} to {high:.2f}'),
            results.interval(*results.bootstrap(taus)),
            f'{np.exp(np.log(kept).mean()):.2f}',
            f'{np.exp(np.log(default).mean()):.2f}',
        )


def _print_agreement(folder: pathlib.Path, runs: Sequence[dict[str, Any]]) -> None:
    """Prints Kendall's tau of each run's times and the shipped model's scores."""
    releases = (_BASE, runs[-1]['jaxlib'])
    scores_for = {release: _scores(folder, release) for release in releases}
    results.head('jaxlib', *(f'scores for {release}' for release in scores_for))
    for run in runs:
        cells = []
        for scores in scores_for.values():
            taus = []
            for name, times in run['times'].items():
                if len(times) > 2:
                    row = scores[name][[int(i) for i in times]]
                    taus.append(judging.tau_of(row, np.array([*times.values()])))
            cells.append(results.interval(*results.bootstrap(taus)))
        results.row(run['jaxlib'], *cells)


def _scores(folder: pathlib.Path, release: str) -> dict[str, np.ndarray]:
    """Returns the scores of the model that ships, for a release, by kernel."""
    predictor = results.load(finding.PRETRAINED)
    return {
        place.name: predictor.score_record(record_of(place, release))
        for place in (folder / 'kernels').iterdir()
    }


def main() -> None:
    """Runs the command that the flags name."""
    parser = results.parser(__doc__)
    parser.add_argument('command', choices=('prepare', 'check', 'measure', 'table'))
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('--core', type=int, default=-1, help='of the measurements')
    parser.add_argument('--kernels', type=int, default=_KERNELS, help='to time')
    args = parser.parse_args()
    folder, core = args.folder, args.core
    commands = {
        'prepare': lambda: prepare(folder),
        'check': lambda: check(folder, core),
        'measure': lambda: measure(folder, core, args.kernels),
        'table': lambda: table(folder),
    }
    commands[args.command]()


if __name__ == '__main__':
    results.run(main)
