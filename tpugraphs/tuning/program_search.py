"""Tunes the kernels of a program, and proves that the program is faster.

The steps of `tpugraphs tune`:

* `preparation.optimise` and `tile_choices.kernels_of` compile the program and cut it
  into kernels; these are timed untiled, and those with the longest times come first.
* `kernel_search.tune` tunes one kernel after the other until time is up (`budget`):
  `tile_choices.candidates_of` draws and adds recorded ones, a model scores them,
  `search.propose` proposes them in rounds, a worker measures them (`session`), and
  the best one gets a verdict.  `states` has the possible states of a kernel.
* `whole_program.prove` puts the faster kernels into the program, takes out those that
  do not help, and times the program next to the original.
* `outcome.TuningResult` has the table and the figures; `executable.Executable` is the
  program to call, which is written to a folder.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Mapping, Sequence
import dataclasses
import functools
import math
import os
from typing import NamedTuple

import numpy as np

from baselines.core import files
from baselines.core import phases
from baselines.core import text
from baselines.hlo import protos
from tpugraphs.clock import machine
from tpugraphs.clock import session as session_lib
from tpugraphs.kernels import cutting
from tpugraphs.kernels import preparation
from tpugraphs.kernels import rewriting
from tpugraphs.kernels import tile_choices
from tpugraphs.programs import reader
from tpugraphs.records import machine_records
from tpugraphs.records import records as records_lib
from tpugraphs.tuning import budget as budget_lib
from tpugraphs.tuning import executable
from tpugraphs.tuning import kernel_search
from tpugraphs.tuning import outcome
from tpugraphs.tuning import search
from tpugraphs.tuning import signatures
from tpugraphs.tuning import states
from tpugraphs.tuning import whole_program

# Passes of timing a kernel or program before it is tuned.
_PASSES = 3
_FOLDER = 'kernels'


@dataclasses.dataclass(frozen=True)
class TuningOptions:
    """The options of tuning."""

    output: str = ''  # folder of the tuned program; '' to write nothing
    measure: int = 10  # configurations of a kernel to measure
    candidates: int = 1000  # configurations of a kernel to choose from
    minutes: float = math.inf  # of wall time, about
    seed: int = 0  # of candidates and inputs
    records: str = ''  # file or folder of tuning records; '' for none
    fresh: bool = False  # whether to leave existing records unused
    core: int = -1  # the core of the worker; -1 for the last
    platform: str = 'cpu'  # 'cpu' or 'gpu'


class ScoringModel(NamedTuple):
    """A model that proposes configurations."""

    name: str  # for messages
    # ModuleTuningData -> float64 [runs], scores in their order, lower = faster
    score: Callable[[protos.ModuleTuningData], np.ndarray]


def tune_and_write(
    source: object,
    args: Sequence[object],
    options: TuningOptions,
    model: ScoringModel | None = None,
) -> executable.Executable:
    """Tunes a program and prints the outcome; writes `options.output`, if any.

    Args:
        source: a function, or another argument of `read_program`.
        args: arguments of the function; else flat arrays, or none for random ones.
        model: proposes configurations; None draws them at random.

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
    result = tune(program, options, arrays, model)
    print(*result.lines(), sep='\n')
    about = {
        'name': program.name,
        **result.to_json(),
        'machine': machine.describe(options.core),
    }
    module = program.module
    if result.proof is not None:
        module = protos.HloModuleProto.FromString(result.proof.module)
    runnable = executable.Executable(
        module, signature, program.module, about, options.platform
    )
    if options.output:
        _write_kernels(result.kernels, os.path.join(options.output, _FOLDER))
        use = f'for tpugraphs.load_program({options.output!r})'
        if not program.cut_out:
            runnable.save(options.output)
        if program.cut_out or preparation.is_optimised(program.module):
            use = f'its kernels in {_FOLDER}/'
        print(f'written: {options.output}, {use}')
    return runnable


def _write_kernels(kernels: Sequence[states.State], folder: str) -> None:
    """Writes the tuned kernels: the untiled modules, and the chosen ones."""
    for state in kernels:
        if isinstance(state, states.Tuned):
            default = state.kernel.module.SerializeToString()
            for kind, module in (('default', default), ('best', state.best)):
                path = os.path.join(folder, f'{state.kernel.name}.{kind}.pb')
                with files.write_atomically(path, 'wb') as stream:
                    stream.write(module)


def tune(
    program: reader.Program,
    options: TuningOptions,
    arrays: list[np.ndarray] | None = None,
    model: ScoringModel | None = None,
) -> outcome.TuningResult:
    """Tunes a program's kernels, puts the faster ones into it, and times the whole.

    Args:
        arrays: the program's arguments; None for random ones.
        model: proposes configurations; None draws them at random.

    Raises:
        ValueError: no kernel can be tuned, or the model cannot score them.
        OSError: the output cannot be written.
        KeyboardInterrupt: Ctrl-C; the times of measured configurations are on record.
    """
    budget = budget_lib.Budget(options.minutes * 60)
    kept = ''
    if options.records:
        without = ', for a call without --fresh' if options.fresh else ''
        kept = f'kept the configurations in {options.records}{without}'
    with (
        text.interruptible(kept),
        session_lib.Session(options.core, options.platform, budget.ends) as session,
    ):
        records = machine_records.MachineRecords(
            options.records, session.device, options.fresh
        )
        skipped: collections.Counter[str] = collections.Counter()
        optimised = preparation.optimise(program, session)
        cut = tile_choices.kernels_of(optimised, program.name, set(), skipped)
        if not cut:
            why = text.counted(skipped) or 'no kernels'
            raise ValueError(f'{program.name}: nothing to tune: {why}')
        whole = whole_program.WholeProgram(
            program.name, program.module, session, options.seed, arrays
        )
        timing_budget = budget.for_timing()
        once_ns, problem = _time_program(whole, program.cut_out, timing_budget)
        # Timing compiled the program twice, which takes most of the time.
        proof_s = timing_budget.spent / 2 * whole_program.COMPILATIONS
        kernels = _time_kernels(cut, session, options.seed, budget.for_timing())
        search = _KernelTuner(options, model, session, records)
        kernels = search.tune_all(kernels, budget.for_kernels(proof_s))
        proof = None
        if once_ns:
            tuned = [state for state in kernels if isinstance(state, states.Tuned)]
            faster = [state for state in tuned if state.saving_ns]
            try:
                proof = whole_program.prove(whole, optimised, faster, once_ns, budget)
            except (session_lib.WorkerError, cutting.Unsupported) as error:
                problem = str(error)
        program_ns = proof.verdict.default_ns if proof else once_ns
        origin = _origin(options, model, kernels)
        return outcome.TuningResult(
            kernels, proof, problem, origin, skipped, program_ns, program.cut_out
        )


def _time_program(
    whole: whole_program.WholeProgram,
    cut_out: Mapping[str, int],
    budget: budget_lib.Budget,
) -> tuple[int, str]:
    """Returns nanoseconds of one run, or 0; and why it cannot be timed, or ''."""
    if cut_out:
        return 0, 'parts of it were cut out'
    if preparation.is_optimised(whole.original):
        return 0, "it is optimised already; give it as it was before XLA's passes"
    try:
        measured = whole.measure(budget.protocol(_PASSES))
        return int(budget_lib.check_passes(measured, 1).times[0]), ''
    except session_lib.WorkerError as error:
        return 0, str(error)


def _time_kernels(
    cut: Sequence[cutting.Kernel],
    session: session_lib.Session,
    seed: int,
    budget: budget_lib.Budget,
) -> list[states.State]:
    """Times untiled kernels until time is up; returns the longest times first."""
    kernels: list[states.State] = []
    for kernel in phases.each(cut, 'timing', len(cut), 'kernel'):
        if not budget.left:
            break
        modules = [kernel.module.SerializeToString()]
        inputs = cutting.inputs_of(kernel.module)
        try:
            measured = session.measure(
                kernel.name, modules, inputs, seed, budget.protocol(_PASSES)
            )
            default_ns = int(budget_lib.check_passes(measured, 1).times[0])
        except budget_lib.Spent:
            break
        except session_lib.WorkerError as error:
            kernels.append(states.Failed(kernel, str(error)))
        else:
            kernels.append(states.Timed(kernel, default_ns))
    untimed = [states.Untimed(kernel) for kernel in cut[len(kernels) :]]
    return sorted([*kernels, *untimed], key=states.total_ns, reverse=True)


class _KernelTuner:
    """Tunes the kernels of a program, one after the other."""

    def __init__(
        self,
        options: TuningOptions,
        model: ScoringModel | None,
        session: session_lib.Session,
        records: machine_records.MachineRecords,
    ):
        self._options, self._model = options, model
        self._session, self._records = session, records

    def tune_all(
        self, kernels: Sequence[states.State], budget: budget_lib.Budget
    ) -> list[states.State]:
        """Returns the states of kernels tuned until time is up; raises ValueError."""
        after = list(kernels)
        with phases.Phase('tuning', len(after), 'kernel') as phase:
            for place, state in enumerate(kernels):
                if not budget.left:
                    break
                try:
                    if not isinstance(state, states.Failed):
                        after[place] = self._tune(state.kernel, budget)
                except budget_lib.Spent:
                    break
                except session_lib.WorkerError as error:
                    after[place] = states.Failed(state.kernel, str(error))
                phase.update()
                phase.remark(_best_so_far(after))
        problems = [s.problem for s in after if isinstance(s, states.Failed)]
        if len(problems) == len(after):
            raise ValueError(f'no kernel could be measured: {problems[0]}')
        return after

    def _tune(self, kernel: cutting.Kernel, budget: budget_lib.Budget) -> states.Tuned:
        """Tunes a kernel; raises WorkerError if it cannot be measured."""
        options, records = self._options, self._records
        # A kernel with records starts from its own; one without from those of others.
        recorded = records.configurations(kernel.name)
        starts: list[records_lib.Configuration] = []
        if not recorded:
            untiled = rewriting.Plan(kernel.module).untiled
            starts = records.starts(kernel.opcodes, dataclasses.asdict(untiled))
        candidates = tile_choices.candidates_of(
            kernel,
            np.random.default_rng(options.seed),
            options.candidates,
            [*recorded, *starts],
        )
        configs = candidates.configs
        scores = None
        if self._model:
            scores = self._model.score(tile_choices.tuning_data(kernel, configs))
        propose = functools.partial(
            search.propose, tile_choices.columns(configs), scores
        )
        numbers = {
            records_lib.key(config): number for number, config in enumerate(configs)
        }
        first = [
            numbers[records_lib.key(s)] for s in starts if records_lib.key(s) in numbers
        ]
        found = kernel_search.tune(
            kernel,
            candidates,
            search.beginning_with(first, propose),
            self._session,
            options.measure,
            options.seed,
            records,
            budget,
        )
        best = candidates.module(found.config['number'])
        return states.Tuned(kernel, found, best)


def _best_so_far(kernels: Sequence[states.State]) -> str:
    """Returns the time of all kernels with the best configurations so far, as text."""
    tuned = [state for state in kernels if isinstance(state, states.Tuned)]
    faster = [state for state in tuned if state.saving_ns]
    before = sum(map(states.total_ns, kernels))
    best = before - sum(state.saving_ns for state in faster)
    times = f'{text.duration(best)}, {text.duration(before)} untuned'
    return f'{len(faster)} faster; all kernels {times}'


def _origin(
    options: TuningOptions, model: ScoringModel | None, kernels: Sequence[states.State]
) -> str:
    """Returns the origin of the configurations, human-readable."""
    origin = f'up to {options.candidates:,} drawn at random for each kernel'
    if model:
        origin += f', chosen by {model.name} and times'
    tuned = [state for state in kernels if isinstance(state, states.Tuned)]
    recorded = sum(state.found.recorded for state in tuned)
    return origin + (f'; {recorded:,} from records' if recorded else '')
