"""Trains a model for each collection of the Kaggle competition, and ranks its test.

options = CompetitionOptions('~/data/tpugraphs/npz', out_dir='~/out/compete')
results = compete(options)
print(results.score)
"""

from collections.abc import Sequence
import contextlib
import dataclasses
import os
import sys

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.data import collections
from baselines.evaluation import kaggle
from baselines.evaluation import submission
from baselines.runs import finding
from baselines.runs import run_files
from baselines.scoring import prediction
from tpugraphs.api import runs as runs_lib
from tpugraphs.api import training

# By task, the measure of `evaluate` that Kaggle averages over a collection.
_MEASURES = {'tile': 'kaggle_score', 'layout': 'kendall_tau'}
_TITLES = {'kaggle_score': '1 - top-5 error', 'kendall_tau': "Kendall's tau"}
_SUBMISSION = 'submission.csv'
_ROWS = 894  # of a submission that Kaggle takes


@dataclasses.dataclass(frozen=True)
class CompetitionOptions:
    """The options of a competition entry."""

    data_root: str  # folder with tile/xla and layout/{xla,nlp}/{random,default}
    out_dir: str  # folder for runs, CSVs and the submission
    recipe: str = 'strong'
    epochs: int = 0  # number for each training; 0 for the recipe's
    toy_data: bool = False
    sample: str = ''  # Kaggle's template, for collections that are not predicted


@dataclasses.dataclass(frozen=True)
class Entry:
    """A collection's run, and its score on the validation split."""

    collection: str
    run: str  # model directory
    measure: str  # 'kaggle_score' or 'kendall_tau'
    mean: float
    low: float | None  # bounds of the 95 % interval; None for a single program
    high: float | None
    csv: str  # path of the ranking of the test split


@dataclasses.dataclass(frozen=True)
class Results:
    """The entries of a competition."""

    entries: list[Entry]  # one for each collection, in Kaggle's order
    missing: list[str]  # names of the collections without data or run
    submission: str  # path of the combined CSV

    @property
    def score(self) -> float:
        """The mean over the entries, which estimates Kaggle's score."""
        return float(np.mean([entry.mean for entry in self.entries]))

    def to_text(self) -> str:
        """Lays the entries out as a table."""
        rows = [['collection', 'measure', 'valid', '95% interval', 'CSV']]
        for entry in self.entries:
            interval = '-'
            if entry.low is not None and entry.high is not None:
                interval = f'{entry.low:.3f} to {entry.high:.3f}'
            mean, csv = f'{entry.mean:.3f}', files.format_path(entry.csv)
            measure = _TITLES[entry.measure]
            rows.append([entry.collection, measure, mean, interval, csv])
        count = f'{len(self.entries)} of {len(collections.KAGGLE_NAMES)} collections'
        return '\n'.join(
            [
                *text.format_table(rows, '<<>><', rules=[1]),
                '',
                f'estimated Kaggle score: {self.score:.3f}, the mean of {count}',
                f'submission: {files.format_path(self.submission)}',
            ]
        )

    def to_json(self) -> text.JsonObject:
        """Returns the object of `tpugraphs compete --json`."""
        return {'score': self.score, **dataclasses.asdict(self)}


def compete(options: CompetitionOptions, runs: Sequence[str] = ()) -> Results:
    """Trains a model for each collection that has data, and writes the submission.

    Rankings of the test splits are in `<collection>.csv`, all together in
    `submission.csv`.  A collection whose training was interrupted goes on from there,
    and one that is trained already is not trained again.  What trainings print goes to
    stderr.

    Args:
        runs: model directories to take instead of training, one for a collection.

    Raises:
        ValueError: there are no data, a run or the data are unusable, or two of `runs`
            belong to one collection.
        OSError: a file cannot be read or written.
    """
    given = _group_by_collection(runs)
    folders = {n: _find_folder(options, n) for n in collections.KAGGLE_NAMES}

    def has_splits(name: str) -> bool:
        splits = (os.path.join(folders[name], split) for split in collections.SPLITS)
        return all(map(os.path.isdir, splits))

    found = list(filter(has_splits, folders))
    if not found:
        raise ValueError(
            f'--data_root {options.data_root} must have tile/xla or layout/xla/random, '
            'with all splits; `tpugraphs download --collection all` fetches them'
        )
    unused = sorted(given.keys() - found)
    if unused:
        raise ValueError(f'--dir: no data of {unused[0]} in {folders[unused[0]]}')
    if options.sample:
        _check_sample(options, [*map(collections.find_collection, found)])
    missing = [name for name in collections.KAGGLE_NAMES if name not in found]
    if missing:
        text.note(f'no data of {", ".join(missing)}: left out')
    path = os.path.join(files.expand(options.out_dir), _SUBMISSION)
    samples = [options.sample] * bool(options.sample)
    files.check_file_writable(path, 'out_dir', [submission.HEADER], samples)
    kept = f'kept the trainings in {files.format_path(options.out_dir)}'
    with text.mark_interrupts(kept), contextlib.redirect_stdout(sys.stderr):
        entries = [_make_entry(name, options, given.get(name, '')) for name in found]
        count = kaggle.combine([e.csv for e in entries], path, options.sample or None)
    if count != _ROWS:
        text.note(f'Kaggle takes {_ROWS} rows, not {count}: --sample adds the others')
    return Results(entries, missing, path)


def _check_sample(
    options: CompetitionOptions, found: Sequence[collections.Collection]
) -> None:
    """Raises ValueError, before trainings, for test graphs that --sample lacks."""
    ids = []
    for collection in found:
        folder = os.path.join(_find_folder(options, collection.name), 'test')
        names = sorted(name for name in os.listdir(folder) if name.endswith('.npz'))
        limit = collection.toy_files if options.toy_data else None
        ids += [f'{collection.name}:{name[: -len(".npz")]}' for name in names[:limit]]
    template = {row.id for row in kaggle.read_template(options.sample)}
    kaggle.check_ids(ids, template)


def _group_by_collection(runs: Sequence[str]) -> dict[str, str]:
    """Returns model directories by collection; raises ValueError for two of one."""
    given: dict[str, str] = {}
    for model_dir in finding.find_all(runs) if runs else ():
        for part in run_files.read(model_dir).collection.parts:
            name = part.name
            if name in given:
                raise ValueError(
                    f'--dir: {given[name]} and {model_dir} are both of {name}; name '
                    'one, or average them with `tpugraphs ensemble`'
                )
            given[name] = model_dir
    return given


def _find_folder(options: CompetitionOptions, name: str) -> str:
    """Returns the folder with the splits of a collection."""
    return os.path.join(files.expand(options.data_root), *name.split(':'))


def _make_entry(name: str, options: CompetitionOptions, model_dir: str) -> Entry:
    """Trains on a collection, or takes a run; ranks test and measures valid."""
    collection = collections.find_collection(name)
    print(f'\n{name}')
    # Layout settings name their subfolder by --source and --search, tiles have one.
    root = os.path.join(files.expand(options.data_root), collection.task)
    root = os.path.join(root, 'xla') if collection.task == 'tile' else root
    stem = name.replace(':', '_')
    csv = os.path.join(files.expand(options.out_dir), f'{stem}.csv')
    if model_dir:
        data = prediction.Options(
            data_root=root, toy_data=options.toy_data, collection=name
        )
        prediction.write_predictions([model_dir], data, csv)
        run = runs_lib.load(model_dir, collection=name)
        summary = run.evaluate('valid', root)
    else:
        folder = os.path.join(options.out_dir, stem)
        settings: text.JsonObject = {
            **collection.flags,
            'out_dir': folder,
            'results_csv': csv,
            'recipe': options.recipe,
            'toy_data': options.toy_data,
            'resume': os.path.isdir(files.expand(folder)),
        }
        if options.epochs:
            settings['epochs'] = options.epochs
        run = training.train(collection.task, data=root, **settings)
        summary = run.evaluate('valid')
    measure = _MEASURES[collection.task]
    figures = summary['overall'][measure]
    bounds = figures['low'], figures['high']
    return Entry(name, run.dir, measure, figures['mean'], *bounds, csv)
