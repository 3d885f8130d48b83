"""Programs in, a measured collection out: npz files and measured.json."""

import collections
import dataclasses
import hashlib
import os
import sys
import time
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import numpy as np

from baselines import phases
from baselines import text
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import shares
from tpugraphs.measure import collection_folder as folder_lib
from tpugraphs.measure import history
from tpugraphs.measure import layouts
from tpugraphs.measure import memory as memory_lib
from tpugraphs.measure import optimising
from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.programs import reader


def parse_split(text: str) -> Optional[Tuple[float, ...]]:
    """Reads `80/10/10`; 'none' means one folder.

    Raises:
        ValueError: these are not three shares.
    """
    return None if text == 'none' else shares.parse(text)


def run(
    sources: Sequence[str],
    options: folder_lib.Options,
    load: Callable[[str], reader.Program] = programs_lib.load,
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
    options: folder_lib.Options,
    load: Callable[[str], reader.Program] = programs_lib.load,
) -> folder_lib.Report:
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
    with (
        folder_lib.locked(options.output),
        folder_lib.CollectionFolder(sources, options) as folder,
    ):
        with session_lib.Session(folder.journal, options.limits, ends) as session:
            memory = memory_lib.Memory(options.records, session.device, options.fresh)
            items = _plan(sources, load, session, folder)
            _measure_all(items, session, folder, memory)
    report = folder.report
    if not report.records:
        reasons = [*report.failed, *report.skipped]
        raise ValueError(
            f'nothing was measured: {"; ".join(reasons[:5]) or "too little time"}'
        )
    return report


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
        except (ValueError, OSError) as error:
            said = str(error)
            report.failed.append(said if source in said else f'{source}: {said}')
    if not found and report.failed:
        raise ValueError(report.failed[0])
    return found


def _drawn(items: list, options: folder_lib.Options) -> list:
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
    program: reader.Program,
    task: str,
    session: session_lib.Session,
    seen: set,
    skipped: collections.Counter[str],
) -> list:
    """Returns what of a program can be measured; see `tiles.items_of`.

    Raises:
        ValueError: XLA cannot compile it.
    """
    if task == 'layout':
        return layouts.items_of(program.module, program.name, seen, skipped)
    module = optimising.optimised_by(session, program.module, program.name)
    return tiles.items_of(module, program.name, seen, skipped)


def assign_splits(
    items: Sequence[Tuple[str, str]], split: Optional[Tuple[float, ...]]
) -> Dict[str, str]:
    """Returns the split of each kernel, by its name.

    Divided are families of programs, so that two sizes of one program are not on two
    sides; programs, where there are fewer families than splits; else kernels.  Where
    these are fewer, too, all are in train.

    Args:
        items: (name, program) of each kernel.
        split: shares of train, valid and test; None puts all into one folder, ''.
    """
    if split is None:
        return {name: '' for name, _ in items}
    for unit_of in (lambda _, p: families.family(p), lambda _, p: p, lambda n, _: n):
        sizes = collections.Counter(unit_of(*item) for item in items)
        if len(sizes) >= np.count_nonzero(split):
            parts = shares.share_out(sizes, [share / sum(split) for share in split])
            return {n: collections_lib.SPLITS[parts[unit_of(n, p)]] for n, p in items}
    return {name: collections_lib.SPLITS[0] for name, _ in items}


def _measure_all(items, session, folder, memory) -> None:
    options, report = folder.options, folder.report
    splits = assign_splits([(item.name, item.program) for item in items], options.split)
    todo = [item for item in items if item.name not in report.records]
    # What was there before is no work of this call.
    before, began = report.configs, time.monotonic()
    spent: List[float] = []
    program = None
    done = len(items) - len(todo)
    with phases.Phase('measuring', len(items), 'kernel', done) as phase:
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
            _measure(item, splits[item.name], seconds, session, folder, memory)
            spent.append(time.monotonic() - started)
            rate = (report.configs - before) / (time.monotonic() - began) * 60
            phase.remark(f'{rate:.0f} configurations/min')
            phase.update(item.name in report.records)


def _measure(item, split, seconds, session, folder, memory) -> None:
    """Measures one, in its fair share of the seconds that are left, and all of them."""
    options, report = folder.options, folder.report
    rng = np.random.default_rng([options.seed, _digest(item.name)])
    batch = item.batch(rng, options.configs)
    share, left = seconds
    budget = min(share, options.seconds)
    protocol = timing.Protocol(
        *options.passes, seconds=budget, compiling=budget / 2, deadline=left
    )
    crashed = folder.crashed.get(item.name, ())
    recorded = memory.times(item, batch.described, options.passes)
    try:
        timed = _timed(
            item, batch, crashed, protocol, options.seed, session, memory, recorded
        )
    except session_lib.WorkerError as error:
        report.skipped[str(error)] += 1
        return
    if timed is None:
        report.left += 1
        return
    if len(timed.times) < 2:
        report.skipped['a single configuration'] += 1
        return
    kept = sorted(timed.times)
    halves, tau, default = timed.halves, timed.tau, timed.times[0]
    noisy = tau < folder_lib.LEAST_TAU
    parts = (folder_lib.NOISY,) if noisy else (folder_lib.FOLDERS[options.task], split)
    file = os.path.join(*parts, f'{item.name}.npz')
    described = [batch.described[i] for i in kept]
    item.write(os.path.join(options.output, file), described, halves.min(0))
    record = {
        'file': file,
        'program': item.program,
        'split': split,
        'origin': item.origin,
        'tau': round(tau, 4),
        'noisy': noisy,
        'drift': round(max(default) / min(default), 4),
        'again': round(min(timed.again) / min(default), 4),
        'configs': described,
        'dropped': {str(i): why for i, why in timed.dropped.items()},
        'halves': halves.tolist(),
        'passes': min(len(timed.times[i]) for i in kept),
        'recorded': timed.recorded,
    }
    session_lib.note(folder.journal, {'kernel': item.name, 'done': record})
    report.records[item.name] = record
    folder.write_sidecar()


def _timed(
    item, batch, crashed, protocol, seed, session, memory, recorded
) -> Optional[memory_lib.Timed]:
    """Returns the times of configurations, those on record and those measured now.

    None, if time did not suffice for the least number of passes.
    """
    if recorded.tau < folder_lib.LEAST_TAU:  # noise; they may be better today
        recorded = memory_lib.Timed(dropped=recorded.dropped)
    numbers = range(len(batch.described))
    there = {*recorded.times, *recorded.dropped}
    if there.issuperset(numbers):
        return recorded
    measured = session.measure(
        item.name,
        [batch.module(i) for i in numbers],
        item.inputs,
        seed,
        protocol,
        sorted({*there, *crashed} - {0}),
    )
    dropped = {i: why for i, why in measured.dropped.items() if i not in there}
    measured = dataclasses.replace(measured, dropped=dropped)
    memory.add(item, batch.described, measured)
    if len(measured.passes) < protocol.least:
        return None
    timed = memory_lib.Timed.of(measured)
    if recorded.times and history.drifted(timed.times[0], recorded.times[0]):
        anew = memory_lib.Timed()
        return _timed(item, batch, crashed, protocol, seed, session, memory, anew)
    return dataclasses.replace(
        recorded,
        times={**timed.times, **recorded.times},
        again=recorded.again or timed.again,
        dropped=dict(sorted({**recorded.dropped, **dropped}.items())),
    )
