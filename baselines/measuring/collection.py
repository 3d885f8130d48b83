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
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from baselines import files
from baselines.data import families
from baselines.hlo import protos
from baselines.measuring import machine
from baselines.measuring import programs as programs_lib
from baselines.measuring import session as session_lib
from baselines.measuring import timing

JOURNAL = 'journal.jsonl'
SIDECAR = 'measured.json'
# Where kernels go whose halves of the passes rank differently.
NOISY = 'noisy'
LEAST_TAU = 0.6
SPLITS = ('train', 'valid', 'test')
# Where the splits of a collection are below its folder, as trainings expect it.
FOLDERS = {'tile': '', 'layout': 'xla/random'}


@dataclasses.dataclass(frozen=True)
class Options:
    """What to collect.

    Attributes:
        output: folder, absolute.
        task: 'tile' or 'layout'.
        configs: configurations of a kernel or program at most.
        minutes: of wall time; infinite for as long as it takes.
        seed: of configurations, inputs and splits.
        split: shares of train, valid and test; None writes one folder.
        resume: whether to go on with what is there.
        limits: of the worker.
        passes: least and most passes.
    """

    output: str
    task: str = 'tile'
    configs: int = 60
    minutes: float = math.inf
    seed: int = 0
    split: Optional[Tuple[float, ...]] = (80, 10, 10)
    resume: bool = False
    limits: session_lib.Limits = session_lib.Limits()
    passes: Tuple[int, int] = (timing.LEAST_PASSES, timing.MOST_PASSES)


@dataclasses.dataclass
class Report:
    """What came of a collection.

    Attributes:
        kernels: files that are there.
        configs: configurations in them.
        noisy: of the kernels, those that are marked and set apart.
        left: kernels that time did not suffice for.
        skipped: reason -> how many kernels or instructions.
        dropped: reason -> how many configurations.
        failed: programs that could not be used, a line each.
        taus: Kendall's tau between halves of the passes, of each kernel.
    """

    kernels: int = 0
    configs: int = 0
    noisy: int = 0
    left: int = 0
    skipped: Dict[str, int] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(int)
    )
    dropped: Dict[str, int] = dataclasses.field(
        default_factory=lambda: collections.defaultdict(int)
    )
    failed: List[str] = dataclasses.field(default_factory=list)
    taus: List[float] = dataclasses.field(default_factory=list)


def parse_split(text: str) -> Optional[Tuple[float, ...]]:
    """Reads `80/10/10`; 'none' means one folder.

    Raises:
        ValueError: not three shares.
    """
    if text == 'none':
        return None
    try:
        shares = tuple(float(part) for part in text.split('/'))
    except ValueError:
        shares = ()
    if len(shares) != 3 or min(shares) < 0 or not shares[0]:
        raise ValueError(f'--split is {text!r}; write train/valid/test, as 80/10/10')
    return shares


def collect(
    loaders: Sequence[Callable[[], programs_lib.Program]],
    options: Options,
    items_of: Callable[..., list],
    progress: Callable[[Report, int, float], None] = lambda *_: None,
) -> Report:
    """Measures programs and writes the files.

    Args:
        loaders: each returns a program.
        options: how.
        items_of: (optimised module, program, seen, skipped) -> items.
        progress: is told the report, how many kernels there are in all, and the
            seconds since the start, after each kernel.

    Raises:
        ValueError: the folder holds something else; nothing can be measured.
        OSError: it cannot be written.
        KeyboardInterrupt: Ctrl-C; what is done is kept.
    """
    if options.configs < 2 or options.minutes <= 0:
        raise ValueError('at least 2 configurations, and more than 0 minutes')
    began = time.monotonic()
    output = _Output(options, _sources(loaders))
    report = Report()
    with session_lib.Session(output.journal, options.limits) as session:
        try:
            items = _plan(loaders, options, items_of, session, report)
            splits = assign_splits(
                [(item.name, item.program) for item in items],
                options.split,
                options.seed,
            )
            output.begin()
            _measure_all(
                items, splits, options, session, output, report, began, progress
            )
        finally:
            output.write_sidecar(report, time.monotonic() - began)
    if not report.kernels:
        reasons = [*report.failed, *report.skipped] or ['no time']
        raise ValueError(f'nothing was measured: {"; ".join(reasons[:5])}')
    return report


def _sources(loaders) -> List[str]:
    return [getattr(loader, 'source', repr(i)) for i, loader in enumerate(loaders)]


def _plan(loaders, options, items_of, session, report) -> list:
    """Returns what is to be measured."""
    found, seen, names = [], set(), set()
    for loader in loaders:
        try:
            program = loader()
            if program.name in names:
                raise ValueError(f'two programs are called {program.name!r}')
            names.add(program.name)
            module = program.module
            if options.task == 'tile':
                content = session.optimise(module.SerializeToString())
                module = protos.protos().HloModuleProto.FromString(content)
            found += items_of(module, program.name, seen, report.skipped)
        except (ValueError, session_lib.WorkerError) as error:
            source = getattr(loader, 'source', '')
            text = str(error)
            report.failed.append(text if source in text else f'{source}: {text}')
    if not found and report.failed:
        raise ValueError(report.failed[0])
    return found


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
        if len(units) >= len(SPLITS):
            break
    counts = _split_counts(len(units), split)
    order = np.random.default_rng(seed).permutation(len(units))
    ends = np.cumsum(counts)
    of = {units[i]: SPLITS[int((ends <= at).sum())] for at, i in enumerate(order)}
    return {name: of[unit_of(name, program)] for name, program in items}


def _split_counts(units: int, split: Sequence[float]) -> List[int]:
    """Returns how many units each split gets; one at least if it has a share."""
    others = [
        max(1, round(units * share / sum(split))) if share and units >= 3 else 0
        for share in split[1:]
    ]
    return [max(units - sum(others), min(units, 1)), *others]


def _measure_all(items, splits, options, session, output, report, began, progress):
    todo = [item for item in items if not output.count(item.name, report)]
    dead = session_lib.crashed(output.journal)
    end = began + options.minutes * 60
    spent: List[float] = []
    program = None
    for index, item in enumerate(todo):
        left = end - time.monotonic()
        # What does not fit any more is not begun.
        if left < (np.median(spent[-9:]) * 0.7 if spent else 0):
            report.left = len(todo) - index
            break
        if item.program != program:
            session.restart()
            program = item.program
        started = time.monotonic()
        _measure(
            item,
            splits[item.name],
            options,
            session,
            output,
            report,
            dead.get(item.name, ()),
            (left / (len(todo) - index), left),
        )
        spent.append(time.monotonic() - started)
        progress(report, len(items), time.monotonic() - began)


def _measure(item, split, options, session, output, report, dead, seconds) -> None:
    digest = int(hashlib.sha256(item.name.encode()).hexdigest()[:8], 16)
    rng = np.random.default_rng([options.seed, digest])
    batch = item.batch(rng, options.configs)
    fair, most = seconds
    protocol = timing.Protocol(
        least=options.passes[0],
        most=options.passes[1],
        # Compilation takes about half of a kernel's time.
        seconds=min(fair / 2, 1e9),
        deadline=min(most, 1e9),
        clock='wall' if options.limits.platform == 'gpu' else 'cpu',
    )
    try:
        measured = session.measure(
            item.name, batch.modules, batch.inputs, options.seed, protocol, dead
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
    tau = timing.tau_of_halves(measured.passes)
    folder = NOISY if tau < LEAST_TAU else os.path.join(FOLDERS[options.task], split)
    file = os.path.join(folder, f'{item.name}.npz')
    item.write(output.path(file), batch, measured.kept, measured.times)
    output.done(
        item.name,
        {
            'file': file,
            'program': item.program,
            'split': split,
            'origin': item.origin,
            'tau': round(tau, 4),
            'noisy': tau < LEAST_TAU,
            'drift': round(timing.drift(measured.passes[:, 0]), 4),
            'again': round(float(measured.again.min() / measured.times[0]), 4),
            'configs': [batch.described[i] for i in measured.kept],
            'dropped': {str(i): why for i, why in measured.dropped.items()},
            'passes': measured.passes.tolist(),
            'passes_again': measured.again.tolist(),
        },
    )
    output.count(item.name, report)


class _Output:
    """The folder, its journal, and what the journal says."""

    def __init__(self, options: Options, sources: List[str]):
        self._options = options
        self.journal = self.path(JOURNAL)
        self._records: Dict[str, dict] = {}
        about = {
            'task': options.task,
            'seed': options.seed,
            'configs': options.configs,
            'split': list(options.split) if options.split else None,
            'sources': sources,
            'platform': options.limits.platform,
        }
        lines = session_lib.read_journal(self.journal)
        self._begun = bool(lines)
        if not lines:
            self._check_empty()
        elif not options.resume:
            raise ValueError(
                f'{options.output}: holds a collection already; add --resume to go '
                'on with it, or use another folder'
            )
        elif lines[0].get('collection') != about:
            before = lines[0].get('collection', {})
            other = [key for key in about if before.get(key) != about[key]]
            raise ValueError(
                f'{options.output}: was begun with other {", ".join(other)}; use '
                'the same, or another folder'
            )
        for line in lines:
            if 'done' in line and os.path.exists(self.path(line['done']['file'])):
                self._records[line['kernel']] = line['done']
        self._about = about

    def begin(self) -> None:
        """Makes the folder, if this is the start."""
        if not self._begun:
            os.makedirs(self._options.output, exist_ok=True)
            session_lib.note(self.journal, {'collection': self._about})
            self._begun = True

    def path(self, *parts: str) -> str:
        """Returns a path in the folder."""
        return os.path.join(self._options.output, *parts)

    def done(self, name: str, record: dict) -> None:
        """Remembers a kernel's measurement."""
        self._records[name] = record
        session_lib.note(self.journal, {'kernel': name, 'done': record})

    def count(self, name: str, report: Report) -> bool:
        """Adds a kernel to the report, if it is done."""
        record = self._records.get(name)
        if record is None:
            return False
        report.kernels += 1
        report.configs += len(record['configs'])
        report.noisy += record['noisy']
        report.taus.append(record['tau'])
        for why in record['dropped'].values():
            report.dropped[why.partition(':')[0]] += 1
        return True

    def write_sidecar(self, report: Report, seconds: float) -> None:
        """Writes measured.json, if there is a collection."""
        if not self._begun:
            return
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = {'wall': seconds / 60, 'worker': (used.ru_utime + used.ru_stime) / 60}
        session_lib.note(self.journal, {'minutes': spent})
        lines = session_lib.read_journal(self.journal)
        spent = [line['minutes'] for line in lines if 'minutes' in line]
        content = {
            'collection': self._about,
            'machine': machine.describe(self._options.limits.core),
            'protocol': {
                'clock': 'wall' if self._about['platform'] == 'gpu' else 'cpu',
                'runs': timing.RUNS,
                'least_passes': self._options.passes[0],
                'most_passes': self._options.passes[1],
                'tau_wanted': timing.TAU_WANTED,
            },
            # Of every call that went on with it.
            'minutes': round(sum(each['wall'] for each in spent), 2),
            'worker_cpu_minutes': round(sum(each['worker'] for each in spent), 2),
            'median_tau': round(float(np.median(report.taus)), 4)
            if report.taus
            else None,
            'skipped': dict(report.skipped),
            'failed': report.failed,
            'kernels': self._records,
        }
        with files.write_atomically(self.path(SIDECAR), encoding='utf-8') as stream:
            json.dump(content, stream, separators=(',', ':'))

    def _check_empty(self) -> None:
        folder = self._options.output
        if not os.path.isdir(folder):
            return
        with contextlib.suppress(StopIteration):
            name = next(iter(sorted(os.listdir(folder))))
            raise ValueError(
                f'{folder}: holds {name!r}, not a collection of this command; use '
                'an empty folder'
            )
