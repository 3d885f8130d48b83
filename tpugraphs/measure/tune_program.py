"""Tunes the kernels of a program, and proves that the program is faster.

The steps of `tpugraphs tune`:

* `preparation.optimise` and `tiles.kernels_of` compile the program and cut it into
  kernels; these are timed untiled, and those with the longest times come first.
* `tuning.tune` tunes one kernel after the other until time is up:
  `tiles.candidates_of` draws and adds recorded ones, a model scores them (`scorers`),
  `search.propose` proposes them in rounds, a worker measures them
  (`session`), and the best one gets a verdict.
* `whole_program.prove` puts the faster kernels into the program, takes out those that
  do not help, and times the program beside the original.
* `tune_results.Result` has the table and the figures; `executable.Executable` is the
  program to call, which is written to a folder.
"""

import collections
import dataclasses
import functools
import math
import os
import time
from typing import Any, Callable, List, Optional, Sequence

import numpy as np

from baselines import files
from baselines import phases
from baselines import text
from baselines.hlo import protos
from baselines.runs import finding
from tpugraphs.measure import executable
from tpugraphs.measure import kernels
from tpugraphs.measure import machine
from tpugraphs.measure import machine_records
from tpugraphs.measure import preparation
from tpugraphs.measure import scorers
from tpugraphs.measure import search
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import signatures
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.measure import tune_results
from tpugraphs.measure import tuning
from tpugraphs.measure import whole_program
from tpugraphs.programs import reader

# Passes of timing a kernel or program before it is tuned.
_PASSES = 3
# The share of the minutes in which kernels are timed as XLA makes them, at most; and
# the share that all work on kernels may take, if the proof needs the rest.
_TIMING_SHARE = 0.25
_KERNELS_SHARE = 0.5
_FOLDER = 'kernels'


@dataclasses.dataclass(frozen=True)
class Options:
    """The options of tuning."""

    output: str = ''  # folder of the tuned program; '' to write nothing
    model_dir: str = ''  # of the model that proposes; '' for none
    measure: int = 10  # configurations of a kernel to measure
    candidates: int = 1000  # configurations of a kernel to choose from
    minutes: float = math.inf  # of wall time, about
    seed: int = 0  # of candidates and inputs
    records: str = ''  # file or folder of tuning records; '' for none
    fresh: bool = False  # whether to leave existing records unused
    core: int = -1  # the core of the worker; -1 for the last
    platform: str = 'cpu'  # 'cpu' or 'gpu'


def tune_and_write(
    source: Any, args: Sequence[Any], options: Options
) -> executable.Executable:
    """Tunes a program and prints the outcome; writes `options.output`, if any.

    Args:
        source: a function, or another argument of `read_program`.
        args: arguments of the function; else flat arrays, or none for random ones.
        options: of tuning.

    Raises:
        ValueError: see `signatures.trace` and `tune`; an option is out of range; or
            the output or the records cannot be written.
        OSError: a file cannot be read.
    """
    if options.measure < 1 or options.candidates < 2 or not options.minutes > 0:
        raise ValueError(
            '--measure is at least 1, --candidates 2, and --budget-minutes above 0'
        )
    machine_records.check_writable(options.records)
    if callable(source):
        program, signature = signatures.trace(source, args)
    else:
        program, signature = preparation.load(source), signatures.Signature()
    if options.output:
        executable.check_size(program.module, program.name)
        files.check_writable(options.output, 'output')
    arrays = [np.asarray(leaf) for leaf in signature.flat(args)] or None
    result = tune(program, options, arrays)
    print(*result.lines(), sep='\n')
    about = {
        'name': program.name,
        **result.to_json(),
        'machine': machine.describe(options.core),
    }
    module = program.module
    if result.proof is not None:
        module = protos.protos().HloModuleProto.FromString(result.proof.module)
    runnable = executable.Executable(module, signature, program.module, about)
    if options.output:
        runnable.save(options.output)
        _write_kernels(result.rows, os.path.join(options.output, _FOLDER))
        use = f'for tpugraphs.load_program({options.output!r})'
        if preparation.is_optimised(program.module):
            use = f'its kernels in {_FOLDER}/'
        print(f'written: {options.output}, {use}')
    return runnable


def _write_kernels(rows: Sequence[tuning.Row], folder: str) -> None:
    """Writes the tuned kernels: the untiled modules, and the chosen ones."""
    for row in rows:
        if row.tuned is not None:
            default = row.kernel.module.SerializeToString()
            for kind, module in (('default', default), ('best', row.best)):
                path = os.path.join(folder, f'{row.kernel.name}.{kind}.pb')
                with files.write_atomically(path, 'wb') as stream:
                    stream.write(module)


def tune(
    program: reader.Program, options: Options, arrays: Optional[List[np.ndarray]] = None
) -> tune_results.Result:
    """Tunes a program's kernels, puts the faster ones into it, and times the whole.

    Args:
        program: the program.
        options: of tuning.
        arrays: the program's arguments; None for random ones.

    Raises:
        ValueError: no kernel can be tuned, or the model cannot be used.
        OSError: the output cannot be written.
        KeyboardInterrupt: Ctrl-C; the times of measured configurations are on record.
    """
    ends = time.monotonic() + options.minutes * 60
    score = None
    if options.model_dir:
        score = scorers.load(options.model_dir, options.platform)
    kept = ''
    if options.records:
        without = ', for a call without --fresh' if options.fresh else ''
        kept = f'kept the configurations in {options.records}{without}'
    with (
        text.interruptible(kept),
        session_lib.Session(options.core, options.platform) as session,
    ):
        records = machine_records.Records(
            options.records, session.device, options.fresh
        )
        skipped: collections.Counter[str] = collections.Counter()
        optimised = preparation.optimise(program, session)
        cut = tiles.kernels_of(optimised, program.name, set(), skipped)
        if not cut:
            why = text.counted(skipped) or 'no kernels'
            raise ValueError(f'{program.name}: nothing to tune: {why}')
        rows = [tuning.Row(kernel) for kernel in cut]
        whole = whole_program.WholeProgram(
            program.name, program.module, session, options.seed, arrays
        )
        began, once_ns, proof, problem = time.monotonic(), 0, None, ''
        if preparation.collectives(optimised):
            problem = 'its collectives need several devices'
        elif preparation.is_optimised(program.module):
            problem = "it is optimised already; give it as it was before XLA's passes"
        else:
            try:
                once_ns = int(whole.measure(passes=_PASSES).times[0])
            except session_lib.WorkerError as error:
                problem = str(error)
        needed = (time.monotonic() - began) * whole_program.COMPILED / 2
        left = ends - began
        latest = time.monotonic() + left * _TIMING_SHARE
        _time_defaults(rows, session, options.seed, latest)
        tune_kernel = lambda row: _tune_kernel(row, options, score, session, records)
        latest = ends - min(needed, left * (1 - _KERNELS_SHARE))
        _tune_kernels(rows, tune_kernel, latest)
        faster = [row for row in rows if row.saving_ns]
        if once_ns and not faster and time.monotonic() > ends:
            problem = 'no time left'
        elif once_ns:
            try:
                proof = whole_program.prove(whole, optimised, faster, once_ns, ends)
            except (session_lib.WorkerError, kernels.Unsupported) as error:
                problem = str(error)
        program_ns = proof.verdict.default_ns if proof else once_ns
        origin = _origin(options, rows)
        return tune_results.Result(rows, proof, problem, origin, skipped, program_ns)


def _time_defaults(
    rows: List[tuning.Row], session: session_lib.Session, seed: int, ends: float
) -> None:
    """Times untiled kernels until time is up; sorts the longest times first."""
    protocol = timing.Protocol(_PASSES, _PASSES)
    for row in phases.each(rows, 'timing', len(rows), 'kernel'):
        if time.monotonic() > ends:
            break
        modules = [row.kernel.module.SerializeToString()]
        try:
            measured = session.measure(row.kernel.name, modules, seed, protocol)
            row.default_ns = int(measured.times[0])
        except session_lib.WorkerError as error:
            row.problem = str(error)
    rows.sort(key=lambda row: -row.total_ns)


def _tune_kernels(
    rows: List[tuning.Row], tune_kernel: Callable[[tuning.Row], None], ends: float
) -> None:
    """Tunes kernels until time is up; raises ValueError if none can be measured."""
    with phases.Phase('tuning', len(rows), 'kernel') as phase:
        for row in rows:
            if time.monotonic() > ends:
                break
            try:
                tune_kernel(row)
            except session_lib.WorkerError as error:
                row.default_ns, row.problem = 0, str(error)
            phase.update()
            faster = sum(row.saving_ns > 0 for row in rows)
            phase.remark(f'{faster} faster')
    if all(row.problem for row in rows):
        raise ValueError(f'no kernel could be measured: {rows[0].problem}')


def _tune_kernel(
    row: tuning.Row,
    options: Options,
    score: Optional[Callable[[Any], np.ndarray]],
    session: session_lib.Session,
    records: machine_records.Records,
) -> None:
    """Tunes a kernel; raises WorkerError if it cannot be measured.

    `score` returns a model's scores of a ModuleTuningData; None without a model.
    """
    kernel = row.kernel
    candidates = tiles.candidates_of(
        kernel,
        np.random.default_rng(options.seed),
        options.candidates,
        records.configurations(kernel.name),
    )
    configs = candidates.configs
    scores = score and score(tiles.tuning_data(kernel, configs))
    row.tuned = tuning.tune(
        kernel,
        candidates,
        functools.partial(search.propose, tiles.columns(configs), scores),
        session,
        options.measure,
        options.seed,
        records,
    )
    row.default_ns = row.tuned.default_ns
    row.best = candidates.module(row.tuned.config['number'])


def _origin(options: Options, rows: Sequence[tuning.Row]) -> str:
    """Returns the origin of the configurations, for people."""
    origin = f'up to {options.candidates:,} drawn at random for each kernel'
    if options.model_dir == finding.ESTIMATE:
        origin += ', chosen by the estimate and times'
    elif options.model_dir:
        origin += f', chosen by {files.shown(options.model_dir)} and times'
    recorded = sum(row.tuned.recorded for row in rows if row.tuned)
    return origin + (f'; {recorded:,} from records' if recorded else '')
