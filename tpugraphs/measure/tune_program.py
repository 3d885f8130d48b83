"""Programs in, faster programs out: a model proposes, the clock disposes."""

import collections
import dataclasses
import json
import math
import os
import time
from typing import Any, Callable, Collection, List, Mapping, Optional, Sequence, Tuple

import numpy as np
import tqdm

from baselines import files
from baselines.hlo import protos
from baselines.runs import finding
from tpugraphs.measure import executable
from tpugraphs.measure import functions
from tpugraphs.measure import kernels
from tpugraphs.measure import layouts
from tpugraphs.measure import machine
from tpugraphs.measure import memory as memory_lib
from tpugraphs.measure import optimising
from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure import scorers
from tpugraphs.measure import search
from tpugraphs.measure import session as session_lib
from tpugraphs.measure import signatures
from tpugraphs.measure import tiles
from tpugraphs.measure import timing
from tpugraphs.measure import tune_results
from tpugraphs.measure import tuning
from tpugraphs.measure import whole as whole_lib
from tpugraphs.programs import reader

_ROUNDS = 3
# Passes that tell how long a kernel takes, before it is tuned.
_PASSES = 3
# The share of the minutes that kernels may take, if the proof needs the rest.
_KERNELS_SHARE = 0.5
_FOLDER = 'kernels'


@dataclasses.dataclass(frozen=True)
class Options:
    """How to tune."""

    output: str = ''  # folder of the tuned program; '' to write nothing
    model_dir: str = ''  # of the model that proposes; '' for random search
    task: str = 'tile'  # 'tile' or 'layout'
    measure: int = 10  # configurations to measure of each kernel
    candidates: int = 1000  # configurations to choose from
    minutes: float = math.inf  # of wall time, about
    # whether to learn, in rounds, from what was measured; None: with a model
    online: Optional[bool] = None
    seed: int = 0  # of candidates and inputs
    records: str = ''  # file or folder of tuning records; '' for none
    fresh: bool = False  # whether to use none of those that are there
    limits: session_lib.Limits = session_lib.Limits()  # of the worker


def tune(
    program: reader.Program, options: Options, arrays: Optional[List[np.ndarray]] = None
) -> tune_results.Result:
    """Tunes a program's kernels, or its layouts, and times the whole.

    Args:
        program: the program.
        options: how.
        arrays: its arguments, for tiles; None for random ones.

    Raises:
        ValueError: there is nothing to tune, or the model cannot be used.
        OSError: the output cannot be written.
    """
    ends = time.monotonic() + options.minutes * 60
    score = None
    if options.model_dir:
        score = scorers.load(options.model_dir, options.task, options.limits.platform)
    with session_lib.Session(options.limits) as session:
        memory = memory_lib.Memory(options.records, session.device, options.fresh)
        work = _Work(program, options, score, session, memory)
        if options.task == 'layout':
            return work.layouts()
        return work.tiles(arrays, ends)


class _Work:
    """The tuning of a program in a session.

    Args:
        program: the program.
        options: how.
        score: what a model says; None without one.
        session: measures.
        memory: remembers.
    """

    def __init__(
        self,
        program: reader.Program,
        options: Options,
        score: Optional[Callable[[Any], np.ndarray]],
        session: session_lib.Session,
        memory: memory_lib.Memory,
    ):
        self._program, self._options = program, options
        self._score, self._session, self._memory = score, session, memory
        self._skipped: collections.Counter[str] = collections.Counter()

    def layouts(self) -> tune_results.Result:
        """Tunes the layouts of a program, which is measured whole."""
        program = self._program
        items = layouts.items_of(program.module, program.name, set(), self._skipped)
        [row] = self._rows(items)
        self._tune([row], math.inf)
        if row.tuned is None:
            raise ValueError(f'{program.name}: cannot be measured')
        # The whole program is the only kernel.
        config = {**row.tuned.config, 'kernels': [program.name]}
        tuned = dataclasses.replace(row.tuned, config=config)
        proof = whole_lib.Proof(tuned, row.module, None)
        return self._result([row], proof, '', row.default_ns)

    def tiles(
        self, arrays: Optional[List[np.ndarray]], ends: float
    ) -> tune_results.Result:
        """Tunes the kernels of a program, and puts the faster ones into it.

        Args:
            arrays: the program's arguments; None for random ones.
            ends: the `time.monotonic()` when time is up.
        """
        program = self._program
        optimised = optimising.optimised_by(self._session, program.module, program.name)
        rows = self._rows(tiles.items_of(optimised, program.name, set(), self._skipped))
        whole = whole_lib.Whole(
            program.name, program.module, self._session, self._options.seed, arrays
        )
        began, once_ns, problem = time.monotonic(), 0, ''
        try:
            once_ns = int(whole.measure(passes=_PASSES).times[0])
        except session_lib.WorkerError as error:
            problem = str(error)
        needed = (time.monotonic() - began) * whole_lib.COMPILED / 2
        left = ends - began
        self._time(rows)
        self._tune(rows, ends - min(needed, left * (1 - _KERNELS_SHARE)))
        proof = None
        if once_ns:
            try:
                proof = whole_lib.prove(whole, optimised, _winners(rows), once_ns, ends)
            except (session_lib.WorkerError, kernels.Unsupported) as error:
                problem = str(error)
        return self._result(rows, proof, problem, once_ns)

    def _rows(self, items: Sequence[Any]) -> List[tune_results.Row]:
        """Returns rows without times.

        Raises:
            ValueError: there is none.
        """
        if not items:
            why = ', '.join(f'{n} {reason}' for reason, n in self._skipped.items())
            raise ValueError(
                f'{self._program.name}: nothing to tune ({why or "no kernels"})'
            )
        return [tune_results.Row(item) for item in items]

    def _time(self, rows: List[tune_results.Row]) -> None:
        """Times each kernel as XLA makes it, and sorts them, the longest first."""
        protocol = timing.Protocol(_PASSES, _PASSES)
        for row in rows:
            item = row.item
            try:
                measured = self._session.measure(
                    item.name,
                    [item.module.SerializeToString()],
                    item.inputs,
                    self._options.seed,
                    protocol,
                )
                row.default_ns = int(measured.times[0])
            except session_lib.WorkerError as error:
                tqdm.tqdm.write(f'{item.name}: skipped: {error}')
        rows.sort(key=lambda row: -row.total_ns)

    def _tune(self, rows: List[tune_results.Row], ends: float) -> None:
        """Tunes each, until time is up."""
        for row in tqdm.tqdm(rows, unit='kernel', disable=None):
            if time.monotonic() > ends:
                break
            try:
                row.tuned, row.module = _tune(
                    row.item, self._score, self._options, self._session, self._memory
                )
            except session_lib.WorkerError as error:
                row.default_ns = 0
                tqdm.tqdm.write(f'{row.item.name}: skipped: {error}')
                continue
            row.default_ns = row.tuned.default_ns
            words = f'{row.item.name} ({row.item.origin}): {row.tuned.line()}'
            tqdm.tqdm.write(words)
        if not any(row.tuned for row in rows):
            raise ValueError('no kernel could be measured')

    def _result(
        self,
        rows: List[tune_results.Row],
        proof: Optional[whole_lib.Proof],
        problem: str,
        program_ns: int,
    ) -> tune_results.Result:
        module = self._program.module if proof is None else _module(proof.module)
        return tune_results.Result(
            rows,
            proof,
            problem,
            module,
            _origin(self._options, rows),
            self._skipped,
            proof.tuned.default_ns if proof else program_ns,
        )


def _module(content: bytes) -> Any:
    return protos.protos().HloModuleProto.FromString(content)


def _winners(rows: Sequence[tune_results.Row]) -> List[whole_lib.Winner]:
    return [
        whole_lib.Winner(row.item, _module(row.module), row.saving_ns)
        for row in rows
        if row.saving_ns
    ]


def _tune(
    item: Any,
    score: Optional[Callable[[Any], np.ndarray]],
    options: Options,
    session: session_lib.Session,
    memory: memory_lib.Memory,
) -> Tuple[tuning.Tuned, bytes]:
    """Returns what tuning a kernel came to, and its best module."""
    rng = np.random.default_rng(options.seed)
    recorded = memory.configurations(item)
    batch = item.batch(rng, options.candidates, score, recorded)
    online = score is not None if options.online is None else options.online
    scores = np.random.default_rng(options.seed + 1).random(len(batch.described))
    if score is not None:
        scores = score(item.tuning(batch.described))
    surrogate = search.Surrogate(batch.columns, scores if score is not None else None)

    def first(
        known: Mapping[int, float], excluded: Collection[int], count: int
    ) -> Sequence[int]:
        order = np.argsort(scores, kind='stable').tolist()
        return [i for i in order if i not in known and i not in excluded][:count]

    found = tuning.tune(
        item,
        batch,
        surrogate.propose if online else first,
        session,
        options.measure,
        options.seed,
        rounds=_ROUNDS if online else 1,
        memory=memory,
    )
    if options.output:
        folder = os.path.join(options.output, _FOLDER)
        found = tuning.write_modules(found, batch, folder)
    return found, batch.module(found.config['number'])


def _origin(options: Options, rows: Sequence[tune_results.Row]) -> str:
    """Returns where configurations come from, in words."""
    drawn = f'up to {options.candidates:,} drawn at random for each kernel'
    if options.task == 'layout' and options.model_dir:
        drawn = f'{options.candidates:,} bred from random ones'
    if options.model_dir:
        by = 'the estimate'
        if options.model_dir != finding.ESTIMATE:
            by = f'the model {options.model_dir}'
        drawn += f', the most promising by {by}'
    elif options.online:
        drawn += ', asked for in rounds'
    recorded = sum(row.tuned.recorded for row in rows if row.tuned)
    return drawn + (f'; {recorded:,} from records' if recorded else '')


def tuned(source: Any, args: Sequence[Any], options: Options) -> executable.Executable:
    """Tunes a function, or another program; writes it, if there is an output folder.

    Args:
        source: a function with its arguments, or what `read_program` takes.
        args: of the function; else flat arrays, or none for random ones.
        options: how.

    Raises:
        ValueError: see `functions.trace` and `tune`.
        OSError: the output cannot be written.
    """
    if callable(source):
        program, signature = functions.trace(source, args)
    else:
        program, signature = programs_lib.load(source), signatures.Signature()
    arrays = [np.asarray(leaf) for leaf in signature.flat(args)] or None
    result = tune(program, options, arrays)
    print(*result.lines(), sep='\n')
    return _finished(result, program, options, signature)


def _finished(
    result: tune_results.Result,
    program: reader.Program,
    options: Options,
    signature: signatures.Signature = signatures.Signature(),
) -> executable.Executable:
    """Returns a tuned program to call; writes it, if there is an output folder."""
    about = {
        'name': program.name,
        **result.to_json(),
        'machine': machine.describe(options.limits.core),
    }
    made = executable.Executable(result.module, signature, program.module, about)
    if options.output:
        made.save(options.output)
    return made


def report(source: str, options: Options, path: str) -> int:
    """Tunes a program, prints what came of it and writes it; returns an exit code.

    Args:
        source: of the program.
        options: how.
        path: where figures go as JSON; '' for nowhere.
    """
    program = programs_lib.load(source)
    result = tune(program, options)
    for line in result.lines():
        print(line)
    _finished(result, program, options)
    if path:
        with files.write_atomically(path, encoding='utf-8') as stream:
            json.dump(result.to_json(), stream, indent=1)
        print(f'written: {files.expand(path)}')
    if options.output:
        print(
            f'written: {options.output}, for tpugraphs.load_program({options.output!r})'
        )
    else:
        print('nothing written: --output FOLDER keeps the program')
    return 0
