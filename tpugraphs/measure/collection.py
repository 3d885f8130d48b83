"""Measures programs into a collection: npz files and measured.json."""

import collections
import hashlib
import os
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

import numpy as np

from baselines import phases
from baselines import text
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import raw as raw_lib
from baselines.data import shares
from baselines.hlo import graph
from tpugraphs.measure import collection_folder as folder_lib
from tpugraphs.measure import kernels
from tpugraphs.measure import layouts
from tpugraphs.measure import machine_records
from tpugraphs.measure import preparation
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.programs import reader

# Task -> the module that draws and writes its configurations.
TASKS: Dict[str, Any] = {'tile': tiles, 'layout': layouts}


def collect(
    sources: Sequence[str],
    options: folder_lib.Options,
    load: Callable[[str], reader.Program] = preparation.load,
) -> folder_lib.CollectionFolder:
    """Measures programs, and writes an npz file for every kernel or program.

    Args:
        sources: names of programs, as `load` takes them.
        options: of the collection.
        load: source -> program.

    Returns:
        The folder with its results.

    Raises:
        ValueError: the output folder holds other files, or nothing can be measured.
        OSError: a file cannot be written.
        KeyboardInterrupt: Ctrl-C; the files written so far stay, for `resume`.
    """
    is_timed = options.minutes > 0 and options.seconds > 0
    if options.configs < 2 or not is_timed:
        raise ValueError(
            'at least 2 configurations, more than 0 minutes, and more than 0 seconds'
        )
    path = options.records if options.task == 'tile' else ''
    machine_records.check_writable(path)
    ends = options.began + options.minutes * 60
    kept = f'kept what was measured in {options.output}'
    with (
        text.interruptible(kept, '--resume'),
        folder_lib.open_folder(sources, options) as folder,
        session_lib.Session(options.core, options.platform, ends) as session,
    ):
        records = machine_records.Records(path, session.device, fresh=True)
        loaded = _load_kernels(sources, load, folder, session)
        _measure_all(loaded, folder, session, records)
    if not folder.records:
        reasons = [*folder.failed, *folder.skipped]
        raise ValueError(
            f'nothing was measured: {"; ".join(reasons[:5]) or "too little time"}'
        )
    return folder


def _load_kernels(
    sources: Sequence[str],
    load: Callable[[str], reader.Program],
    folder: folder_lib.CollectionFolder,
    session: session_lib.Session,
) -> List[kernels.Kernel]:
    """Returns the kernels of programs to measure; adds errors to `folder.failed`."""
    options = folder.options
    loaded: List[kernels.Kernel] = []
    digests: Set[str] = set()
    names: Set[str] = set()
    for number, source in enumerate(sources):
        if options.seconds_left < 0:
            raise ValueError(
                f'--minutes is spent on compiling {number} of {len(sources)} '
                'programs; give it more, or fewer programs'
            )
        try:
            program = load(source)
            if program.name in names:
                raise ValueError(f'two programs are called {program.name!r}')
            names.add(program.name)
            loaded += draw_kernels(
                kernels_of(program, options.task, session, digests, folder.skipped),
                options,
            )
        except (ValueError, OSError) as error:
            folder.failed.append(text.one_line(error, source))
    if not loaded and folder.failed:
        raise ValueError(folder.failed[0])
    return loaded


def _measure_all(
    loaded: Sequence[kernels.Kernel],
    folder: folder_lib.CollectionFolder,
    session: session_lib.Session,
    records: machine_records.Records,
) -> None:
    """Measures the kernels that have no file yet, until time is up."""
    options = folder.options
    programs = [(kernel.name, kernel.program) for kernel in loaded]
    splits = assign_splits(programs, options.split)
    todo = [kernel for kernel in loaded if kernel.name not in folder.records]
    # Configurations of an earlier call do not count in this call's rate.
    earlier, began = folder.configs, time.monotonic()
    spent: List[float] = []
    program = None
    finished = len(loaded) - len(todo)
    with phases.Phase('measuring', len(loaded), 'kernel', finished) as phase:
        for index, kernel in enumerate(todo):
            seconds_left = options.seconds_left
            # A kernel is not begun if too little time is left for it.
            if seconds_left < (np.median(spent[-9:]) * 0.7 if spent else 0):
                folder.left += len(todo) - index
                break
            if kernel.program != program:
                session.stop()
                program = kernel.program
            started = time.monotonic()
            # No pass beyond the least number begins after so many seconds.
            fair = min(seconds_left / (len(todo) - index), options.seconds)
            protocol = timing.Protocol(
                *options.passes, fair, compiling=fair / 2, deadline=seconds_left
            )
            try:
                configs, measured = _measure(kernel, options, session, protocol)
            except session_lib.WorkerError as error:
                folder.skipped[str(error)] += 1
            else:
                records.add(kernel.name, configs, measured)
                if len(measured.passes) < protocol.least:
                    folder.left += 1
                elif len(measured.kept) < 2:
                    folder.skipped['a single configuration'] += 1
                else:
                    kept = [configs[i] for i in measured.kept]
                    _write(folder, kernel, splits[kernel.name], kept, measured)
            spent.append(time.monotonic() - started)
            rate = (folder.configs - earlier) / (time.monotonic() - began) * 60
            phase.remark(f'{rate:.0f} configurations/min')
            phase.update(kernel.name in folder.records)


def _measure(
    kernel: kernels.Kernel,
    options: folder_lib.Options,
    session: session_lib.Session,
    protocol: timing.Protocol,
) -> Tuple[List[Dict[str, Any]], timing.Measured]:
    """Draws configurations of a kernel or program, and times them."""
    rng = np.random.default_rng([options.seed, _digest(kernel.name)])
    candidates = TASKS[options.task].candidates_of(kernel, rng, options.configs)
    modules = [candidates.module(i) for i in range(len(candidates.configs))]
    measured = session.measure(kernel.name, modules, options.seed, protocol)
    return candidates.configs, measured


def _write(
    folder: folder_lib.CollectionFolder,
    kernel: kernels.Kernel,
    split: str,
    configs: Sequence[Dict[str, Any]],
    measured: timing.Measured,
) -> None:
    """Writes the npz file of a kernel or program below a split, and measured.json."""
    options = folder.options
    passes = measured.passes
    halves = np.array([passes[half::2].min(0) for half in (0, 1)])
    default, tau = passes[:, 0], timing.kendall_tau(*halves)
    noisy = tau < folder_lib.LEAST_TAU
    parts = folder_lib.FOLDERS[options.task], split
    if noisy:
        parts = folder_lib.NOISY, ''
    file = os.path.join(*filter(None, parts), f'{kernel.name}.npz')
    tuning = TASKS[options.task].tuning_data(kernel, configs, halves.min(0))
    nodes = graph.extract_graph(tuning.module)
    raw_lib.write_record(
        os.path.join(options.output, file),
        kernel.name,
        nodes,
        raw_lib.configs_of(options.task, tuning, nodes),
    )
    folder.records[kernel.name] = {
        'file': file,
        'program': kernel.program,
        'split': split,
        'origin': kernel.origin,
        'tau': round(tau, 4),
        'noisy': noisy,
        'drift': round(float(default.max() / default.min()), 4),
        'again': round(float(measured.again.min() / default.min()), 4),
        'configs': configs,
        'dropped': {str(i): why for i, why in measured.dropped.items()},
        'halves': halves.tolist(),
        'passes': len(passes),
    }
    folder.write_sidecar()


def draw_kernels(
    cut: Sequence[kernels.Kernel], options: folder_lib.Options
) -> Sequence[kernels.Kernel]:
    """Draws `options.kernels` of a program's kernels, kept in order; 0 means all."""
    if not options.kernels or len(cut) <= options.kernels:
        return cut
    rng = np.random.default_rng([options.seed, _digest(cut[0].program)])
    chosen = rng.permutation(len(cut))[: options.kernels]
    return [cut[index] for index in sorted(chosen)]


def _digest(name: str) -> int:
    """Returns a 32-bit hash of a name, to seed with."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


def kernels_of(
    program: reader.Program,
    task: str,
    session: Optional[session_lib.Session],
    digests: Set[str],
    skipped: collections.Counter[str],
) -> Sequence[kernels.Kernel]:
    """Returns the kernels of a program (tile) or the program itself (layout).

    Args:
        program: the program.
        task: 'tile' or 'layout'.
        session: compiles the program into kernels; see `preparation.optimise`.
        digests: hashes of earlier programs' kernels, which are left out; those of
            this program are added.
        skipped: counts the kernels left out, by reason.

    Raises:
        ValueError: XLA cannot compile it.
    """
    if task == 'layout':
        return layouts.kernels_of(program.module, program.name, skipped)
    module = preparation.optimise(program, session)
    return tiles.kernels_of(module, program.name, digests, skipped)


def assign_splits(
    graphs: Sequence[Tuple[str, str]], split: Optional[Tuple[float, ...]]
) -> Dict[str, str]:
    """Returns the splits of kernels, by their names.

    A family of programs goes into one split, so that no model is tested on another
    size of a program that it was trained on.  With fewer families than splits, single
    programs are divided; with fewer programs, kernels; with fewer kernels, all are in
    train.

    Args:
        graphs: (name, program) of every kernel.
        split: shares of train, valid and test; None gives every kernel the split ''.
    """
    if split is None:
        return {name: '' for name, _ in graphs}
    for unit_of in (lambda _, p: families.family(p), lambda _, p: p, lambda n, _: n):
        sizes = collections.Counter(unit_of(*item) for item in graphs)
        if len(sizes) >= np.count_nonzero(split):
            parts = shares.share_out(sizes, [share / sum(split) for share in split])
            return {n: collections_lib.SPLITS[parts[unit_of(n, p)]] for n, p in graphs}
    return {name: collections_lib.SPLITS[0] for name, _ in graphs}
