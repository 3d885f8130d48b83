"""Extracts the modules of a raw file to npz files, and reports the outcome."""

from __future__ import annotations

import dataclasses
import os

from baselines.core import npz
from baselines.core import text
from baselines.data import graph_files
from baselines.data import raw as raw_lib
from baselines.hlo import graph
from baselines.hlo import outcomes
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import tile_configs
from tpugraphs.extract import splitting

_OPTIONAL = {'pad': npz.Field('iu', (), optional=True), **graph_files.EXTRA}


@dataclasses.dataclass(frozen=True)
class ExtractionOptions:
    """The options of an extraction."""

    output: str  # folder of the npz files, absolute
    kind: str | None = None  # 'tile', 'layout', or None to detect it
    pad: int = 0  # the value of absent list entries, 0 or -1
    extra: bool = False  # whether to write `node_feat_extra`, too
    overwrite: bool = False  # whether to replace existing files
    # an installed Beam runner, whose workers see the inputs and the output; '' for
    # Beam's own, and only for many files
    runner: str = ''
    beam_options: str = ''  # command-line options of the runner
    split: str = ''  # shares of train, valid and test, as '80/10/10'; '' for one folder
    by: str = splitting.BY[0]  # the unit that stays together in a split


def extract_file(path: str, options: ExtractionOptions) -> outcomes.Outcome:
    """Extracts every module of a raw file; damage is reported, never raised."""
    outcome = outcomes.Outcome()
    try:
        raw = reading.read_tuning(path, options.kind)
    except (ValueError, OSError) as error:
        outcome.failed.append(text.one_line(error, path))
        return outcome
    outcome.files = 1
    outcome.modules = len(raw.modules)
    for tuning in raw.modules:
        try:
            with outcome.note_failures(path, tuning.module.name):
                _extract_module(raw, tuning, options, outcome)
        except OSError as error:
            outcome.fatal = text.one_line(error, options.output)
            return outcome
    outcome.by_file[path] = outcome.written + outcome.existing
    if not (outcome.written or outcome.existing or outcome.failed):
        reasons = text.list_skipped(outcome.skipped)
        outcome.failed.append(f'{path}: nothing usable: {reasons}')
    return outcome


def _extract_module(
    raw: reading.RawFile,
    tuning: protos.ModuleTuningData,
    options: ExtractionOptions,
    outcome: outcomes.Outcome,
) -> None:
    """Writes the npz file of a module, and adds the result; raises Skip or errors."""
    if raw.kind == reading.TILE:
        reason = tile_configs.explain_unusable(tuning)
        if reason:
            raise outcomes.Skip(reason)
    stem = raw_lib.name_graph(tuning)
    target = splitting.find_path(options.output, stem)
    # Two modules of one file: the first one is kept.
    if stem in outcome.written:
        raise outcomes.Skip('name and fingerprint of an earlier module')
    if not options.overwrite and os.path.lexists(target):
        _check_existing(target, options)
        outcome.existing.append(stem)
        return
    nodes = graph.extract_graph(tuning.module, options.pad, options.extra)
    if not len(nodes.node_opcode):
        raise outcomes.Skip('no instructions')
    name = text.quoted(tuning.module.name)
    notes = [f'module {name}: {warning}' for warning in nodes.warnings]
    configs = raw_lib.extract_configs(raw.kind, tuning, nodes)
    if configs.normalizer is None:
        notes.append(f'module {name}: no usable default run, which layouts can lack')
    if len(configs.config_runtime) < 2:
        raise outcomes.Skip('only 1 usable run, so nothing to rank')
    raw_lib.write_record(target, stem, nodes, configs)
    outcome.add(
        outcomes.Outcome(
            written=[stem],
            runs_kept=len(configs.config_runtime),
            runs_dropped={why: n for why, n in configs.dropped.items() if n},
            unknown_opcodes=dict(nodes.unknown_opcodes),
            notes=notes,
        )
    )


def _check_existing(target: str, options: ExtractionOptions) -> None:
    """Raises OSError unless the existing file was extracted with the same options."""
    try:
        # Only these two arrays are read, whatever the size of the others.
        arrays = npz.read_arrays(target, _OPTIONAL, 1 << 40, others=None)
    except (ValueError, OSError) as error:
        raise OSError(f'{error}; remove it, or use --overwrite') from error
    pad = int(arrays.get('pad', 0))
    missing = options.extra and 'node_feat_extra' not in arrays
    if pad != options.pad or missing:
        how = 'without --extra' if missing else f'with --pad={pad}'
        raise OSError(
            f'{target}: was extracted {how}; use another folder, or --overwrite'
        )
