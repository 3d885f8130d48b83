"""Ranks the kernels of programs, for `tpugraphs lab rank` and `tpugraphs_lab.rank`."""

from __future__ import annotations

import argparse
import collections
from collections.abc import Sequence
import functools
from typing import Any

from baselines.core import text
from baselines.hlo import candidates as candidates_lib
from baselines.hlo import outcomes
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from baselines.scoring import prediction
import tpugraphs
from tpugraphs.api import results
from tpugraphs.ranking import sources
from tpugraphs_lab import measure
from tpugraphs_lab import measured_choices
from tpugraphs_lab import pretrained_run
from tpugraphs_lab.kernels import proposals
from tpugraphs_lab.kernels import removal
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.programs import reader

# Configurations of a kernel that comes without any, and the seed they are drawn with.
_CANDIDATES = 200
_SEED = 0


class Programs(sources.RawFiles):
    """Reads programs in every form, and cuts them into kernels with candidates."""

    def __init__(self, options: reader.Options = reader.Options()):
        self._options = options
        self._programs: dict[str, reader.Source] = {}  # path -> content

    def find(self, patterns: list[str]) -> list[str]:
        """Returns the files and functions that arguments name; see `RawFiles`."""
        return reader.find_sources(patterns)

    def read(self, path: str) -> reader.Source:
        """Reads a program, once, or a raw file; see `RawFiles`."""
        if path in self._programs:
            return self._programs[path]
        source = reader.read_source(path, self._options)
        if isinstance(source, reader.Program):
            self._programs[path] = source
        return source

    def read_message(self, message: Any) -> reader.Program:
        """Reads a protobuf message with an HLO module; raises ValueError."""
        return reader.read_program(message, options=self._options)

    def modules(
        self, source: reading.Source, kind: str, outcome: outcomes.Outcome
    ) -> Sequence[protos.ModuleTuningData]:
        """Returns the kernels of a program, or the modules of a raw file."""
        if isinstance(source, reader.Program):
            return kernels_of(source, kind, outcome)
        return super().modules(source, kind, outcome)

    def load_default(
        self,
        source: reading.Source,
        task: str,
        out_dir: str,
        options: prediction.Options,
    ) -> prediction.Predictor:
        """Loads the pretrained run, or the estimate; see `RawFiles`.

        The pretrained run knows tiles of a CPU; formulas of a TPU know more about
        layouts, and about modules that were compiled for a TPU.
        """
        if isinstance(source, reading.Program):
            modules = [source.module]
        else:
            modules = [tuning.module for tuning in source.modules[:1]]
        if task == reading.LAYOUT or any(map(tpu_tiles.is_of_tpu, modules)):
            name = finding.ESTIMATE
            text.note(f'{name}: formulas of a TPU v3; --dir names a run of yours')
        else:
            name = finding.PRETRAINED
            text.note(pretrained_run.describe())
        return prediction.load(name, options)


def rank_sources(args: argparse.Namespace, name: str) -> int:
    """Prints the ranking of programs and raw files; see `sources.rank_sources`."""
    if name == finding.PRETRAINED:
        text.note(pretrained_run.describe())
    programs = Programs(reader.Options(args.batch_size, args.seconds))
    if args.measure is None:
        return sources.rank_sources(args, name, programs)
    measured_choices.check(args.measure, programs, programs.find(args.modules))
    if args.candidates and candidates_lib.read(args.candidates):
        raise ValueError('--measure times tiles of kernels; leave out --candidates')
    if not args.json:
        args.top = max(10 if args.top is None else args.top, args.measure)
    timing = measured_choices.Timing(args.measure)
    code = sources.rank_sources(args, name, programs, timing.add_times)
    if timing.is_interrupted:
        raise KeyboardInterrupt
    return code


def rank(
    run: tpugraphs.Run, program: object, *args: object, candidates: Any = None
) -> results.Ranking:
    """Ranks the configurations of a program's kernels, or of the whole program.

    Args:
        run: a run of `tpugraphs.load`.
        program: a program as of `read_program`, or a `Program` that it returned.
        *args: example arguments of a function.
        candidates: configurations of the whole program instead of its kernels'.

    Raises:
        ValueError: nothing could be ranked; says why.
    """
    read = reader.read_program(program, *args)
    with run.lend_predictor() as predictor:
        ranked, outcome = sources.rank(predictor, read, candidates, Programs())
    return results.Ranking(ranked, run.dir, outcome)


def kernels_of(
    program: reader.Program, kind: str, outcome: outcomes.Outcome
) -> list[protos.ModuleTuningData]:
    """Returns a program's kernels with candidates; adds those left out to `outcome`."""
    cut_out = removal.counts(program.module)
    if cut_out:
        text.note(f'{program.source}: cut out: {removal.describe(cut_out)}')
    skipped: collections.Counter[str] = collections.Counter()
    optimiser = functools.partial(measure.optimise, seconds=program.seconds or 600)
    tunings = proposals.tunings(program, kind, _CANDIDATES, _SEED, skipped, optimiser)
    kernels = list(tunings)
    if cut_out and not kernels and not skipped:
        skipped[f'all is cut out: {removal.describe(cut_out)}'] += 1
    for reason, count in skipped.items():
        where = text.count(count, 'kernel') + f' of {program.name}'
        outcome.skipped.setdefault(reason, []).append(where)
    return kernels
