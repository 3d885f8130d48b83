"""Programs in, a measured collection out: npz files and measured.json.

Files appear one by one; `journal.jsonl` says what is done and what XLA died of,
so that an interrupted collection goes on where it stopped.
"""

import collections
import contextlib
import dataclasses
import hashlib
import json
import math
import os
import resource
import sys
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import numpy as np
import tqdm

from baselines import files
from baselines import text
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import shares
from baselines.hlo import protos
from baselines.measuring import layouts
from baselines.measuring import machine
from baselines.measuring import programs as programs_lib
from baselines.measuring import session as session_lib
from baselines.measuring import tiles
from baselines.measuring import timing

JOURNAL = 'journal.jsonl'
SIDECAR = 'measured.json'
_LOCK = '.lock'
_MOST_SIDECAR = 1 << 30  # bytes
# Where kernels go whose halves of the passes rank differently.
NOISY = 'noisy'
LEAST_TAU = 0.6
# Where the splits of a collection are below its folder, as trainings expect it.
FOLDERS = {'tile': '', 'layout': 'xla/random'}


_Reasons = collections.Counter  # reason -> how many


@dataclasses.dataclass(frozen=True)
class Options:
    """What to collect."""

    output: str  # folder, absolute
    task: str = 'tile'  # 'tile' or 'layout'
    configs: int = 60  # configurations of a kernel or program at most
    kernels: int = 0  # of a program at most, drawn at random; 0 for all
    minutes: float = math.inf  # of wall time; infinite for as long as it takes
    seconds: float = 20  # of wall time for a kernel, compiling included
    seed: int = 0  # of configurations, inputs and splits
    # shares of train, valid and test; None writes one folder
    split: Optional[Tuple[float, ...]] = (80, 10, 10)
    resume: bool = False  # whether to go on with what is there
    limits: session_lib.Limits = session_lib.Limits()  # of the worker
    # least and most passes
    passes: Tuple[int, int] = (timing.LEAST_PASSES, timing.MOST_PASSES)
    # the `time.monotonic()` that the minutes count from
    began: float = dataclasses.field(default_factory=time.monotonic)

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return self.began + self.minutes * 60 - time.monotonic()


@dataclasses.dataclass
class Report:
    """What came of a collection."""

    # name -> what is known of a kernel whose file is there
    records: Dict[str, Dict[str, Any]] = dataclasses.field(default_factory=dict)
    left: int = 0  # kernels that time did not suffice for
    skipped: _Reasons = dataclasses.field(default_factory=_Reasons)  # kernels
    # programs that could not be used, a line each
    failed: List[str] = dataclasses.field(default_factory=list)

    @property
    def configs(self) -> int:
        """Configurations that were measured."""
        return sum(len(record['configs']) for record in self.records.values())

    @property
    def median_tau(self) -> float:
        """Of Kendall's tau between halves of the passes, of each kernel."""
        return float(np.median([record['tau'] for record in self.records.values()]))

    @property
    def dropped(self) -> _Reasons:
        """Configurations that were not measured, by reason."""
        reasons = (record['dropped'].values() for record in self.records.values())
        return _Reasons(why.partition(':')[0] for each in reasons for why in each)

    def lines(self, output: str) -> Iterator[str]:
        """Yields what a collection in the folder `output` ends with."""
        noisy = sum(record['noisy'] for record in self.records.values())
        yield (
            f'{len(self.records)} kernels or programs with {self.configs:,} '
            f'configurations in {output}'
        )
        yield (
            f"Kendall's tau between halves of the passes: median "
            f'{self.median_tau:.2f}; {noisy} noisy ones set apart'
        )
        if self.left:
            yield f'{self.left} left for lack of time; --resume goes on'
        for title, counts in (('skipped', self.skipped), ('dropped', self.dropped)):
            if counts:
                parts = ', '.join(f'{n} {why}' for why, n in sorted(counts.items()))
                yield f'{title}: {parts}'
        for line in self.failed:
            yield f'program skipped: {line}'


def parse_split(text: str) -> Optional[Tuple[float, ...]]:
    """Reads `80/10/10`; 'none' means one folder.

    Raises:
        ValueError: these are not three shares.
    """
    return None if text == 'none' else shares.parse(text)


def run(
    sources: Sequence[str],
    options: Options,
    load: Callable[[str], programs_lib.Program] = programs_lib.load,
) -> int:
    """Collects, says what came of it, and returns an exit code."""
    try:
        report = collect(sources, options, load)
    except BaseException as error:
        if not text.is_interrupt(error):
            raise
        print(f'\nstopped; --resume goes on with {options.output}', file=sys.stderr)
        return 130
    for line in report.lines(options.output):
        print(line)
    return 0


def collect(
    sources: Sequence[str],
    options: Options,
    load: Callable[[str], programs_lib.Program] = programs_lib.load,
) -> Report:
    """Measures programs and writes the files.

    Args:
        sources: of programs.
        options: how.
        load: source -> program.

    Raises:
        ValueError: the folder holds something else; nothing can be measured.
        OSError: it cannot be written.
        KeyboardInterrupt: Ctrl-C; what is done is kept.
    """
    if options.configs < 2 or min(options.minutes, options.seconds) <= 0:
        raise ValueError(
            'at least 2 configurations, more than 0 minutes, and more than 0 seconds'
        )
    ends = options.began + options.minutes * 60
    with _locked(options.output), _Folder(sources, options) as folder:
        with session_lib.Session(folder.journal, options.limits, ends) as session:
            _measure_all(_plan(sources, load, session, folder), session, folder)
    report = folder.report
    if not report.records:
        reasons = [*report.failed, *report.skipped]
        raise ValueError(
            f'nothing was measured: {"; ".join(reasons[:5]) or "too little time"}'
        )
    return report


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keeps a folder to this process; one that is left empty is removed.

    Raises:
        ValueError: another process measures into it.
        OSError: it cannot be written.
    """
    os.makedirs(folder, exist_ok=True)
    try:
        refusal = f'{folder}: another collect measures into it; wait for it to end'
        with files.locked(os.path.join(folder, _LOCK), refusal):
            yield
    finally:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _plan(sources, load, session, folder) -> list:
    """Returns what is to be measured."""
    options, report = folder.options, folder.report
    found, seen, names = [], set(), set()
    for number, source in enumerate(sources):
        if options.left < 0:
            raise ValueError(
                f'--minutes is spent on compiling {number} of {len(sources)} '
                'programs; give it more, or fewer programs'
            )
        try:
            program = load(source)
            if program.name in names:
                raise ValueError(f'two programs are called {program.name!r}')
            names.add(program.name)
            items = items_of(program, options.task, session, seen, report.skipped)
            found += _drawn(items, options)
        except (ValueError, OSError, session_lib.WorkerError) as error:
            said = str(error)
            report.failed.append(said if source in said else f'{source}: {said}')
    if not found and report.failed:
        raise ValueError(report.failed[0])
    return found


def _drawn(items: list, options: Options) -> list:
    """Returns a program's items, or as many as are wanted, in their order."""
    if not options.kernels or len(items) <= options.kernels:
        return items
    rng = np.random.default_rng([options.seed, _digest(items[0].program)])
    chosen = rng.permutation(len(items))[: options.kernels]
    return [items[index] for index in sorted(chosen)]


def _digest(name: str) -> int:
    """Returns a number of a name, to seed with."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


def items_of(
    program: programs_lib.Program,
    task: str,
    session: session_lib.Session,
    seen: set,
    skipped: _Reasons,
) -> list:
    """Returns what of a program can be measured; see `tiles.items_of`.

    Raises:
        session_lib.WorkerError: XLA cannot compile it.
    """
    if task == 'layout':
        return layouts.items_of(program.module, program.name, seen, skipped)
    content = session.optimise(program.module.SerializeToString())
    module = protos.protos().HloModuleProto.FromString(content)
    return tiles.items_of(module, program.name, seen, skipped)


def assign_splits(
    items: Sequence[Tuple[str, str]], split: Optional[Tuple[float, ...]], seed: int
) -> Dict[str, str]:
    """Returns name -> split.

    Divided are families of programs, so that two sizes of one program are not
    on two sides; programs, where there are under three families; else kernels.

    Args:
        items: (name, program) of each.
        split: shares; None puts all into one folder, ''.
        seed: of the draw.
    """
    if split is None:
        return {name: '' for name, _ in items}
    for unit_of in (lambda _, p: families.family(p), lambda _, p: p, lambda n, _: n):
        units = list(dict.fromkeys(unit_of(*item) for item in items))
        if len(units) >= len(collections_lib.SPLITS):
            break
    count = len(units)
    # One unit at least for valid and test, if they have a share.
    others = [
        max(1, round(count * share / sum(split))) if share and count >= 3 else 0
        for share in split[1:]
    ]
    ends = np.cumsum([max(count - sum(others), min(count, 1)), *others])
    order = np.random.default_rng(seed).permutation(count)
    place = {units[i]: int((ends <= at).sum()) for at, i in enumerate(order)}
    return {n: collections_lib.SPLITS[place[unit_of(n, p)]] for n, p in items}


def _measure_all(items, session, folder) -> None:
    options, report = folder.options, folder.report
    splits = assign_splits(
        [(item.name, item.program) for item in items], options.split, options.seed
    )
    todo = [item for item in items if item.name not in report.records]
    # What was there before is no work of this call.
    before, began = report.configs, time.monotonic()
    spent: List[float] = []
    program = None
    done = len(items) - len(todo)
    bar = tqdm.tqdm(total=len(items), initial=done, unit='kernel', file=sys.stderr)
    with contextlib.closing(bar):
        for index, item in enumerate(todo):
            left = options.left
            # What does not fit any more is not begun.
            if left < (np.median(spent[-9:]) * 0.7 if spent else 0):
                report.left += len(todo) - index
                break
            if item.program != program:
                session.restart()
                program = item.program
            started = time.monotonic()
            seconds = left / (len(todo) - index), left
            _measure(item, splits[item.name], seconds, session, folder)
            spent.append(time.monotonic() - started)
            bar.update(item.name in report.records)
            rate = (report.configs - before) / (time.monotonic() - began) * 60
            bar.set_postfix_str(f'{rate:.0f} configurations/min')


def _measure(item, split, seconds, session, folder) -> None:
    """Measures one, in its fair share of the seconds that are left, and all of them."""
    options, report = folder.options, folder.report
    rng = np.random.default_rng([options.seed, _digest(item.name)])
    batch = item.batch(rng, options.configs)
    share, left = seconds
    budget = min(share, options.seconds)
    protocol = timing.Protocol(
        *options.passes, seconds=budget, compiling=budget / 2, deadline=left
    )
    modules = [batch.module(i) for i in range(len(batch.described))]
    skip = folder.crashed.get(item.name, ())
    try:
        measured = session.measure(
            item.name, modules, item.inputs, options.seed, protocol, skip
        )
    except session_lib.WorkerError as error:
        report.skipped[str(error)] += 1
        return
    if len(measured.passes) < options.passes[0]:
        report.left += 1
        return
    if len(measured.kept) < 2:
        report.skipped['a single configuration'] += 1
        return
    tau, default = timing.tau_of_halves(measured.passes), measured.passes[:, 0]
    noisy = tau < LEAST_TAU
    parts = (NOISY,) if noisy else (FOLDERS[options.task], split)
    file = os.path.join(*parts, f'{item.name}.npz')
    described = [batch.described[i] for i in measured.kept]
    item.write(os.path.join(options.output, file), described, measured.times)
    record = {
        'file': file,
        'program': item.program,
        'split': split,
        'origin': item.origin,
        'tau': round(tau, 4),
        'noisy': noisy,
        'drift': round(float(default.max() / default.min()), 4),
        'again': round(float(measured.again.min() / default.min()), 4),
        'configs': described,
        'dropped': {str(i): why for i, why in measured.dropped.items()},
        # Least times of every other pass, and of the others.
        'halves': [measured.passes[half::2].min(0).tolist() for half in (0, 1)],
        'passes': len(measured.passes),
    }
    session_lib.note(folder.journal, {'kernel': item.name, 'done': record})
    report.records[item.name] = record
    folder.write_sidecar()


class _Folder:
    """The folder, its journal, and what the journal says.

    Attributes:
        options: as it was made.
        report: what came of it so far.
        journal: its path.
        crashed: name -> configurations on which a process ended.

    Raises:
        ValueError: it holds something else.
        OSError: it cannot be written.
    """

    def __init__(self, sources: Sequence[str], options: Options):
        self.options, self.report = options, Report()
        self.journal = os.path.join(options.output, JOURNAL)
        self.crashed: Dict[str, List[int]] = collections.defaultdict(list)
        self._about = {
            'task': options.task,
            'seed': options.seed,
            'configs': options.configs,
            'kernels': options.kernels,
            'split': list(options.split) if options.split else None,
            'sources': list(sources),
            'platform': options.limits.platform,
        }
        lines = session_lib.read_journal(self.journal)
        self._check(lines)
        for line in lines:
            if 'crashed' in line:
                self.crashed[line['kernel']].append(line['crashed'])
            elif 'done' in line:
                file = os.path.join(options.output, line['done']['file'])
                if os.path.exists(file):
                    self.report.records[line['kernel']] = line['done']
        self._new = not lines
        self._before = [line['minutes'] for line in lines if 'minutes' in line]
        self._machine = machine.describe(options.limits.core)

    def _check(self, lines: List[dict]) -> None:
        folder = self.options.output
        there = sorted(set(os.listdir(folder)) - {_LOCK})
        if not lines and there:
            raise ValueError(
                f'{folder}: holds {there[0]!r}, not a collection of this command; '
                'use an empty folder'
            )
        if lines and not self.options.resume:
            raise ValueError(
                f'{folder}: holds a collection already; add --resume to go on with '
                'it, or use another folder'
            )
        before = lines[0].get('collection', {}) if lines else self._about
        other = [key for key in self._about if before.get(key) != self._about[key]]
        if other:
            raise ValueError(
                f'{folder}: was begun with other {", ".join(other)}; use the same, '
                'or another folder'
            )

    def __enter__(self) -> '_Folder':
        if self._new:
            session_lib.note(self.journal, {'collection': self._about})
        return self

    def __exit__(self, _: Any, error: Optional[BaseException], *__: Any) -> None:
        """Writes measured.json; a folder without a kernel is left as it was."""
        if self._new and not self.report.records and not text.is_interrupt(error):
            os.unlink(self.journal)
            return
        session_lib.note(self.journal, {'minutes': self._spent()})
        self._before = [*self._before, self._spent()]
        self.write_sidecar(ended=True)

    def _spent(self) -> Dict[str, float]:
        """Returns the minutes of wall and worker's CPU time of this call."""
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        return {
            'wall': (time.monotonic() - self.options.began) / 60,
            'worker': (used.ru_utime + used.ru_stime) / 60,
        }

    def write_sidecar(self, ended: bool = False) -> None:
        """Writes measured.json.

        Args:
            ended: whether this call has noted its minutes.
        """
        options, report = self.options, self.report
        spent = self._before if ended else [*self._before, self._spent()]
        content = {
            'collection': self._about,
            'machine': self._machine,
            'protocol': {
                'clock': options.limits.clock,
                'runs': timing.RUNS,
                'least_passes': options.passes[0],
                'most_passes': options.passes[1],
                'tau_early': timing.TAU_EARLY,
                'tau_wanted': timing.TAU_WANTED,
                'seconds': options.seconds,
            },
            # Of every call that went on with it.
            'minutes': round(sum(call['wall'] for call in spent), 2),
            'worker_cpu_minutes': round(sum(call['worker'] for call in spent), 2),
            'median_tau': round(report.median_tau, 4) if report.records else None,
            'skipped': dict(report.skipped),
            'failed': report.failed,
            'kernels': report.records,
        }
        path = os.path.join(options.output, SIDECAR)
        with files.write_atomically(path, encoding='utf-8') as stream:
            json.dump(content, stream, separators=(',', ':'))


def read_sidecar(folder: str) -> Dict[str, Any]:
    """Returns the content of a collection's measured.json.

    Raises:
        ValueError: the folder holds none, or it was cut or edited.
        OSError: it cannot be read.
    """
    path = os.path.join(folder, SIDECAR)
    if not os.path.lexists(path):
        raise ValueError(
            f'{folder}: has no {SIDECAR}; give a folder that `tpugraphs collect` made'
        )
    try:
        with files.open_regular(path, _MOST_SIDECAR) as stream:
            content = json.loads(stream.read())
        for name, kernel in content['kernels'].items():
            _check_kernel(name, kernel)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(
            f'{path}: damaged ({type(error).__name__}: {error}); collect again'
        ) from error
    return content


def _check_kernel(name: str, kernel: Dict[str, Any]) -> None:
    """Raises ValueError or KeyError unless a kernel's part of a sidecar is whole."""
    file = kernel['file']
    inside = isinstance(file, str) and os.path.normpath(file) == file
    if not inside or os.path.isabs(file) or file.startswith('..'):
        raise ValueError(f'{name}: file {file!r} is not inside the folder')
    rows = kernel['halves']
    even = isinstance(rows, list) and len({len(row) for row in rows}) == 1
    halves = np.array(rows if even else ())
    if halves.ndim != 2 or len(halves) != 2 or halves.dtype.kind != 'i':
        raise ValueError(f'{name}: halves are not two rows of nanoseconds')
    if halves.size and halves.min() < 1:
        raise ValueError(f'{name}: a time is below 1 ns')
    if not isinstance(kernel['noisy'], bool) or not isinstance(kernel['program'], str):
        raise ValueError(f'{name}: noisy or program is of another type')
