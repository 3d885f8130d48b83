"""Measures programs into a collection: npz files and measured.json."""

import collections
import dataclasses
import hashlib
import os
import sys
import time
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple, Union

import numpy as np

from baselines import phases
from baselines import text
from baselines.data import collections as collections_lib
from baselines.data import families
from baselines.data import raw as raw_lib
from baselines.data import shares
from baselines.hlo import graph
from tpugraphs.measure import collection_folder as folder_lib
from tpugraphs.measure import layouts
from tpugraphs.measure import machine_records
from tpugraphs.measure import preparation
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.programs import reader

# One graph of the collection: a kernel to tile, or a program with layouts to choose.
_Item = Union[tiles.TileItem, layouts.LayoutItem]


def run(
    sources: Sequence[str],
    options: folder_lib.Options,
    load: Callable[[str], reader.Program] = preparation.load,
) -> int:
    """Measures a collection, prints the report, and returns an exit code."""
    try:
        folder = collect(sources, options, load)
    except BaseException as error:
        if not text.is_interrupt(error):
            raise
        print(f'\nstopped; --resume goes on with {options.output}', file=sys.stderr)
        return 130
    print(*folder.lines(), sep='\n')
    return 0


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
        KeyboardInterrupt: Ctrl-C; the files written so far stay.
    """
    if options.configs < 2 or min(options.minutes, options.seconds) <= 0:
        raise ValueError(
            'at least 2 configurations, more than 0 minutes, and more than 0 seconds'
        )
    path = options.records if options.task == 'tile' else ''
    machine_records.check_writable(path)
    ends = options.began + options.minutes * 60
    with (
        folder_lib.open_folder(sources, options) as folder,
        session_lib.Session(options.core, options.platform, ends) as session,
    ):
        records = machine_records.Records(path, session.device, fresh=True)
        items = _load_items(sources, load, folder, session)
        _Collector(folder, session, records).measure(items)
    if not folder.records:
        reasons = [*folder.failed, *folder.skipped]
        raise ValueError(
            f'nothing was measured: {"; ".join(reasons[:5]) or "too little time"}'
        )
    return folder


def _load_items(
    sources: Sequence[str],
    load: Callable[[str], reader.Program],
    folder: folder_lib.CollectionFolder,
    session: session_lib.Session,
) -> List[_Item]:
    """Returns what to measure of programs; those of no use go to `folder.failed`."""
    options = folder.options
    items: List[_Item] = []
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
            items += draw_items(
                items_of(program, options.task, session, digests, folder.skipped),
                options,
            )
        except (ValueError, OSError) as error:
            folder.failed.append(text.one_line(error, source))
    if not items and folder.failed:
        raise ValueError(folder.failed[0])
    return items


@dataclasses.dataclass(frozen=True)
class _Collector:
    """Measures kernels or programs, and writes their files."""

    folder: folder_lib.CollectionFolder
    session: session_lib.Session
    records: machine_records.Records  # to which measurements are added

    def measure(self, items: Sequence[_Item]) -> None:
        """Measures the items that have no file yet, until time is up."""
        folder, options = self.folder, self.folder.options
        programs = [(item.name, item.program) for item in items]
        splits = assign_splits(programs, options.split)
        todo = [item for item in items if item.name not in folder.records]
        # Configurations of an earlier call do not count in this call's rate.
        earlier, began = folder.configs, time.monotonic()
        spent: List[float] = []
        program = None
        finished = len(items) - len(todo)
        with phases.Phase('measuring', len(items), 'kernel', finished) as phase:
            for index, item in enumerate(todo):
                seconds_left = options.seconds_left
                # A kernel is not begun if too little time is left for it.
                if seconds_left < (np.median(spent[-9:]) * 0.7 if spent else 0):
                    folder.left += len(todo) - index
                    break
                if item.program != program:
                    self.session.restart()
                    program = item.program
                started = time.monotonic()
                # No pass beyond the least number begins after so many seconds.
                fair = min(seconds_left / (len(todo) - index), options.seconds)
                protocol = timing.Protocol(
                    *options.passes, fair, compiling=fair / 2, deadline=seconds_left
                )
                self._measure_item(item, splits[item.name], protocol)
                spent.append(time.monotonic() - started)
                rate = (folder.configs - earlier) / (time.monotonic() - began) * 60
                phase.remark(f'{rate:.0f} configurations/min')
                phase.update(item.name in folder.records)

    def _measure_item(self, item: _Item, split: str, protocol: timing.Protocol) -> None:
        """Measures a kernel or program, and writes its file below a split."""
        folder, options = self.folder, self.folder.options
        rng = np.random.default_rng([options.seed, _digest(item.name)])
        batch = item.batch(rng, options.configs)
        try:
            modules = [batch.module(i) for i in range(len(batch.described))]
            measured = self.session.measure(
                item.name, modules, item.inputs, options.seed, protocol
            )
        except session_lib.WorkerError as error:
            folder.skipped[str(error)] += 1
            return
        self.records.add(item.name, batch.described, measured)
        if len(measured.passes) < protocol.least:
            folder.left += 1
        elif len(measured.kept) < 2:
            folder.skipped['a single configuration'] += 1
        else:
            configs = [batch.described[i] for i in measured.kept]
            self._write(item, split, configs, measured)

    def _write(
        self,
        item: _Item,
        split: str,
        configs: Sequence[Dict[str, Any]],
        measured: timing.Measured,
    ) -> None:
        """Writes the npz file of a kernel or program, and measured.json."""
        options = self.folder.options
        passes = measured.passes
        halves = np.array([passes[half::2].min(0) for half in (0, 1)])
        default, tau = passes[:, 0], timing.kendall_tau(*halves)
        noisy = tau < folder_lib.LEAST_TAU
        parts = folder_lib.FOLDERS[options.task], split
        if noisy:
            parts = folder_lib.NOISY, ''
        file = os.path.join(*filter(None, parts), f'{item.name}.npz')
        tuning = item.tuning(configs, halves.min(0))
        nodes = graph.extract_graph(tuning.module)
        raw_lib.write_record(
            os.path.join(options.output, file),
            item.name,
            nodes,
            raw_lib.configs_of(options.task, tuning, nodes),
        )
        self.folder.records[item.name] = {
            'file': file,
            'program': item.program,
            'split': split,
            'origin': item.origin,
            'tau': round(tau, 4),
            'noisy': noisy,
            'drift': round(float(default.max() / default.min()), 4),
            'again': round(float(measured.again.min() / default.min()), 4),
            'configs': configs,
            'dropped': {str(i): why for i, why in measured.dropped.items()},
            'halves': halves.tolist(),
            'passes': len(passes),
        }
        self.folder.write_sidecar()


def draw_items(items: Sequence[_Item], options: folder_lib.Options) -> Sequence[_Item]:
    """Draws `options.kernels` of a program's kernels, kept in order; 0 means all."""
    if not options.kernels or len(items) <= options.kernels:
        return items
    rng = np.random.default_rng([options.seed, _digest(items[0].program)])
    chosen = rng.permutation(len(items))[: options.kernels]
    return [items[index] for index in sorted(chosen)]


def _digest(name: str) -> int:
    """Returns a 32-bit hash of a name, to seed with."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)


def items_of(
    program: reader.Program,
    task: str,
    session: session_lib.Session,
    digests: Set[str],
    skipped: collections.Counter[str],
) -> Sequence[_Item]:
    """Returns the kernels of a program (tile) or the program itself (layout).

    Args:
        program: the program.
        task: 'tile' or 'layout'.
        session: compiles the program into kernels.
        digests: hashes of earlier programs' kernels, which are left out; those of
            this program are added.
        skipped: counts the kernels left out, by reason.

    Raises:
        ValueError: XLA cannot compile it.
    """
    if task == 'layout':
        return layouts.items_of(program.module, program.name, digests, skipped)
    module = preparation.optimise(program, session)
    return tiles.items_of(module, program.name, digests, skipped)


def assign_splits(
    items: Sequence[Tuple[str, str]], split: Optional[Tuple[float, ...]]
) -> Dict[str, str]:
    """Returns the splits of kernels, by their names.

    A family of programs goes into one split, so that no model is tested on another
    size of a program that it was trained on.  With fewer families than splits, single
    programs are divided; with fewer programs, kernels; with fewer kernels, all are in
    train.

    Args:
        items: (name, program) of every kernel.
        split: shares of train, valid and test; None gives every kernel the split ''.
    """
    if split is None:
        return {name: '' for name, _ in items}
    for unit_of in (lambda _, p: families.family(p), lambda _, p: p, lambda n, _: n):
        sizes = collections.Counter(unit_of(*item) for item in items)
        if len(sizes) >= np.count_nonzero(split):
            parts = shares.share_out(sizes, [share / sum(split) for share in split])
            return {n: collections_lib.SPLITS[parts[unit_of(n, p)]] for n, p in items}
    return {name: collections_lib.SPLITS[0] for name, _ in items}
