"""Measures programs into a collection: npz files and measured.json."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
import hashlib
import os
import time

import numpy as np

from baselines.core import phases
from baselines.core import text
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import hardware
from baselines.data import raw as raw_lib
from baselines.data import shares
from baselines.hlo import graph
from baselines.hlo import reading
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import removal
from tpugraphs_lab.kernels import rounding
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import collection_folder as folder_lib
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.programs import reader

# Configurations of a kernel that can be compiled and timed in a second, at most.
_MOST_PER_SECOND = 100


def collect(
    sources: Sequence[str],
    options: folder_lib.CollectionOptions,
    load: Callable[[str], reader.Program] = preparation.load,
) -> folder_lib.CollectionFolder:
    """Measures programs, and writes an npz file for every kernel.

    Args:
        sources: names of programs, as `load` takes them.
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
    ends = options.began + options.minutes * 60
    kept = f'kept what was measured in {options.output}'
    with (
        text.mark_interrupts(kept, '--resume'),
        folder_lib.open_folder(sources, options) as folder,
        session_lib.Session(options.core, options.platform, ends) as session,
    ):
        loaded = _load_kernels(sources, load, folder, session)
        _measure_all(loaded, folder, session)
    if not folder.records:
        reasons = [*folder.failed, *folder.skipped]
        if folder.stopped:
            reasons.insert(0, text.list_skipped(folder.stopped))
        if folder.left or not reasons:
            reasons.insert(0, 'too little time')
        raise ValueError(f'nothing was measured: {"; ".join(reasons[:5])}')
    return folder


def _load_kernels(
    sources: Sequence[str],
    load: Callable[[str], reader.Program],
    folder: folder_lib.CollectionFolder,
    session: session_lib.Session,
) -> list[cutting.Kernel]:
    """Returns the kernels of programs to measure; the folder counts what fails."""
    options = folder.options
    loaded: list[cutting.Kernel] = []
    digests: set[str] = set()
    names: set[str] = set()
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
            if program.cut_out:
                parts = removal.describe(program.cut_out)
                text.note(f'{program.source}: cut out: {parts}')
            skipped = collections.Counter[str]()
            module = preparation.optimise(program, session.optimise)
            kernels = tile_choices.kernels_of(module, program.name, digests, skipped)
            folder.skipped.update(skipped)
            loaded += draw_kernels(kernels, options)
        except (ValueError, OSError) as error:
            folder.failed.append(text.one_line(error, source))
    if not loaded and folder.failed:
        raise ValueError(folder.failed[0])
    return loaded


def _measure_all(
    loaded: Sequence[cutting.Kernel],
    folder: folder_lib.CollectionFolder,
    session: session_lib.Session,
) -> None:
    """Measures the kernels that have no file yet, until time is up."""
    options = folder.options
    programs = [(kernel.name, kernel.program) for kernel in loaded]
    splits = assign_splits(programs, options.split)
    todo = [kernel for kernel in loaded if kernel.name not in folder.records]
    # Configurations of an earlier call do not count in this call's rate.
    earlier, began = folder.configs, time.monotonic()
    spent: list[float] = []
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
            protocol = _protocol(options, seconds_left, len(todo) - index)
            try:
                configs, measured = _measure(kernel, options, session, protocol)
            except session_lib.WorkerError as error:
                folder.add_stopped(kernel.program, text.one_line(error))
            else:
                if len(measured.passes) < protocol.fewest:
                    folder.left += 1
                elif len(measured.kept) < 2:
                    folder.skipped['a single configuration'] += 1
                else:
                    kept = [configs[i] for i in measured.kept]
                    _write(folder, kernel, splits[kernel.name], kept, measured)
            spent.append(time.monotonic() - started)
            # Shown while it runs, to tell how many kernels there will be time for.
            rate = (folder.configs - earlier) / (time.monotonic() - began) * 60
            phase.set_remark(f'{rate:.0f} configurations/min')
            phase.update(kernel.name in folder.records)


def _protocol(
    options: folder_lib.CollectionOptions, seconds_left: float, kernels_left: int
) -> timing.Protocol:
    """Returns the protocol of a kernel, which takes its share of the time that is left.

    No pass beyond the least number begins after the share, and nothing more is compiled
    after half of it.
    """
    share = min(seconds_left / kernels_left, options.seconds)
    return timing.Protocol(
        *options.passes,
        share,
        compiling=share / 2,
        deadline=seconds_left,
        least_configs=folder_lib.LEAST_CONFIGS,
    )


def _measure(
    kernel: cutting.Kernel,
    options: folder_lib.CollectionOptions,
    session: session_lib.Session,
    protocol: timing.Protocol,
) -> tuple[Sequence[tile_choices.Config], timing.Measured]:
    """Draws configurations of a kernel, and times them."""
    rng = np.random.default_rng([options.seed, _digest(kernel.name)])
    # More could not be timed, and would only take memory.
    most = max(options.seconds * _MOST_PER_SECOND, folder_lib.LEAST_CONFIGS)
    count = int(min(options.configs, most))
    candidates = tile_choices.candidates_of(kernel, rng, count)
    inputs = cutting.inputs_of(kernel.module)
    tolerance = rounding.tolerance_of(kernel.module)
    measured = session.measure(
        candidates.modules, inputs, options.seed, protocol, tolerance
    )
    return candidates.configs, measured


def _write(
    folder: folder_lib.CollectionFolder,
    kernel: cutting.Kernel,
    split: str,
    configs: Sequence[tile_choices.Config],
    measured: timing.Measured,
) -> None:
    """Writes the npz file of a kernel below a split, and measured.json."""
    options = folder.options
    default = measured.passes[:, 0]
    # In random order: a model with equal scores keeps the order of the file, and would
    # otherwise rank XLA's own configuration first.
    rng = np.random.default_rng([options.seed + 1, _digest(kernel.name)])
    order = rng.permutation(len(configs))
    configs = [configs[i] for i in order]
    place = int(order.argmin())
    # `measured.kept[0]` is the default, whose place after the permutation is `place`.
    kept = np.array(measured.kept)[order]  # [configs], their numbers as drawn
    passes = measured.passes[:, order]  # [passes, configs]
    # [2, configs]: the least times of the passes with even and with odd numbers.
    halves = np.array([passes[half::2].min(0) for half in (0, 1)])
    tau = timing.tau_of_halves(passes)
    noisy = tau < folder_lib.LEAST_TAU
    file = os.path.join(folder_lib.NOISY if noisy else split, f'{kernel.name}.npz')
    tuning = tile_choices.tuning_data(kernel, configs, halves.min(0), place)
    nodes = graph.extract_graph(tuning.module, extra=True)
    raw_lib.write_record(
        os.path.join(options.output, file),
        kernel.name,
        nodes,
        raw_lib.extract_configs(reading.TILE, tuning, nodes),
        hardware.find_release(),
    )
    record = {
        'file': file,
        'program': kernel.program,
        'split': split,
        'origin': kernel.origin,
        'tau': round(tau, 4),
        'noisy': noisy,
        'drift': round(float(default.max() / default.min()), 4),
        'again': round(float(measured.again.min() / default.min()), 4),
        'default': place,
        'once': np.flatnonzero(np.isin(kept, measured.once)).tolist(),
        'configs': configs,
        'dropped': {str(i): why for i, why in measured.dropped.items()},
        'halves': halves.tolist(),
        'passes': len(passes),
    }
    folder.add(kernel.name, record)


def draw_kernels(
    cut: Sequence[cutting.Kernel], options: folder_lib.CollectionOptions
) -> Sequence[cutting.Kernel]:
    """Draws `options.kernels` of a program's kernels, kept in order; 0 means all.

    Large kernels are drawn more often, since most of a program's time is theirs: with
    chances as the square roots of the numbers of elements that they compute.
    """
    if not options.kernels or len(cut) <= options.kernels:
        return cut
    rng = np.random.default_rng([options.seed, _digest(cut[0].program)])
    # [kernels], with a sum of 1.
    chances = np.sqrt([1 + _elements(kernel) for kernel in cut])
    chances /= chances.sum()
    chosen = rng.choice(len(cut), options.kernels, replace=False, p=chances)
    return [cut[index] for index in sorted(chosen)]


def _elements(kernel: cutting.Kernel) -> int:
    """Returns the number of elements of all instructions of a kernel."""
    instructions = cutting.entry_of(kernel.module).instructions
    return sum(building.elements(i.shape) for i in instructions)


def _digest(name: str) -> int:
    """Returns a 32-bit hash of a name, to seed with."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


def assign_splits(
    graphs: Sequence[tuple[str, str]], split: tuple[float, ...] | None
) -> dict[str, str]:
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
    for unit_of in (
        lambda _, p: families.find_family(p),
        lambda _, p: p,
        lambda n, _: n,
    ):
        # Unit -> how many kernels it has, of which splits get their shares.
        sizes = collections.Counter(unit_of(*item) for item in graphs)
        if len(sizes) >= np.count_nonzero(split):
            parts = shares.share_out(sizes, [share / sum(split) for share in split])
            return {n: collections_lib.SPLITS[parts[unit_of(n, p)]] for n, p in graphs}
    return {name: collections_lib.SPLITS[0] for name, _ in graphs}
