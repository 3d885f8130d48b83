"""Loads and lists runs; measures with them, and ranks."""

from collections.abc import Iterator, Sequence
import contextlib
import os
import threading
from typing import Any

import numpy as np

from baselines.core import text
from baselines.data import collections
from baselines.data import raw
from baselines.runs import finding
from baselines.runs import listing
from baselines.runs import run_files
from baselines.scoring import measuring
from baselines.scoring import prediction
from tpugraphs.api import data as data_lib
from tpugraphs.api import results
from tpugraphs.ranking import ranking
from tpugraphs.ranking import sources

Path = results.Path
Own = str | Sequence[type]

# The curves of a plot: the title of a panel -> its curves and their labels.
_CURVES = {
    'score': {
        'train_opa': 'OPA, training',
        'val_opa': 'OPA, validation',
        'val_tau': "Kendall's tau, validation",
    },
    'loss': {'train_loss': 'training', 'val_loss': 'validation'},
}


class Ranker:
    """Scores configurations, with the model in memory and compiled once.

    Made by `Run.ranker`.  Threads may share one, and take turns; processes may not:
    one that was forked from a process with a model is refused.
    """

    def __init__(
        self,
        predictor: prediction.Predictor,
        lock: contextlib.AbstractContextManager[bool],
    ):
        self._predictor, self._lock = predictor, lock
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f'<Ranker with {self._predictor.model_name}: {self._predictor.name}>'

    def __call__(self, record: raw.Record, configs: object = None) -> np.ndarray:
        """Scores the configurations of one graph.

        Args:
            record: a `TileRecord` or `LayoutRecord`, of the run's task.
            configs: configurations instead of the record's: for tiles float32
                [c, 24] raw columns, or dicts such as {'output_bounds': [8, 128]};
                for layouts [c, k, 18], -1 where an array or a dimension is absent.

        Returns:
            float32 [c]; lower means predicted faster, and only the order within
            the graph means something.

        Raises:
            ValueError: the record is of another task, one of its arrays has a wrong
                shape or type, or this process was forked after the model was loaded.
        """
        _check_process(self._process)
        if configs is not None:
            record = ranking.with_configs(record, configs)
        with self._lock:
            return self._predictor.score_record(record)


class Run:
    """A finished training, or the untrained estimate; made by `load` and `train`.

    Attributes:
        dir: the model directory, absolute.
        settings: of the training, by the names of the scripts' flags.
        curve: per epoch, lists by name: epoch, train_loss, train_opa, val_loss,
            val_opa, for layouts also val_tau; None where it was not measured.
        info: the whole run file.
    """

    def __init__(
        self, run_file: run_files.RunFile, own: Own = '', collection: str = ''
    ):
        self.dir: str = run_file.model_dir
        self.info: text.JsonObject = run_file.info
        self.settings: text.JsonObject = dict(run_file.args)
        self.curve: dict[str, list[Any]] = run_file.curve
        self._file, self._own, self._collection = run_file, own, collection
        self._predictors: dict[tuple[Path | None, str], prediction.Predictor] = {}
        # Keras finishes a model when it is first called, which two threads may not
        # do at once.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce__(self) -> tuple[Any, ...]:
        # A model stays in its process.
        return Run, (self._file, self._own, self._collection)

    def __repr__(self) -> str:
        if self.dir == finding.ESTIMATE:
            return f'<Run {self.dir} on {self._collection}, untrained>'
        row = listing.make_row(self._file)
        score = '' if row.score is None else f', valid {row.measure} {row.score:.3f}'
        return f'<Run {row.model} on {row.collection}{score}: {self.dir}>'

    def _repr_html_(self) -> str:
        names, values = listing.make_cells([listing.make_row(self._file)])
        pairs = dict(zip(names, values), run=self.dir)
        return text.make_html_table([list(pair) for pair in pairs.items()])

    def plot(self, axes: Sequence[Any] | None = None) -> Sequence[Any]:
        """Draws the curves by epoch with matplotlib.

        Args:
            axes: two matplotlib axes; by default, in a new figure.

        Returns:
            The axes: one of scores, one of losses.
        """
        if axes is None:
            from matplotlib import pyplot

            _, axes = pyplot.subplots(1, 2, figsize=(9, 3), layout='constrained')
        best = self.info.get('best_epoch')
        for panel, (title, labels) in zip(axes, _CURVES.items()):
            for name, label in labels.items():
                values = np.array(self.curve.get(name, []), float)  # NaN for None
                if len(values):
                    panel.plot(range(1, len(values) + 1), values, label=label)
            if best is not None and best >= 0:
                panel.axvline(best + 1, color='grey', linestyle=':', label='best')
            step = 'epoch' if self._file.has_model else 'tree'
            panel.set(xlabel=step, ylabel=title)
            panel.locator_params(axis='x', integer=True)
            panel.legend()
        return axes

    def evaluate(
        self,
        split: str = 'valid',
        data: Path | None = None,
        *,
        cache_dir: str = '',
        protocol: str = '',
    ) -> text.JsonObject:
        """Measures the run on a split that has runtimes.

        Args:
            split: 'train', 'valid' or 'test'.
            data: 'sample' (the measured data that ship) or a folder of splits; by
                default the training data.
            cache_dir: folder of packed splits.
            protocol: for layouts, 'published' (1,000 fixed configurations of a graph)
                or 'all'; by default 'published' if the graphs are those of the
                published validation split.

        Returns:
            The object of `tpugraphs evaluate --json`: `overall` and `groups` (by
            program) with, per measure, `mean`, `low` and `high` (95 % interval)
            and `random`: `summary['overall']['top_5_error']['mean']`.

        Raises:
            ValueError: the data or the run are unusable, or the data have no runtimes.
        """
        data_lib.check_split(split)
        with self.lend_predictor(data, cache_dir) as predictor:
            return measuring.measure(predictor, split, protocol)[0]

    def predict(
        self, split: str = 'test', data: Path | None = None, *, cache_dir: str = ''
    ) -> dict[str, np.ndarray]:
        """Scores all configurations of a split; for the arguments, see `evaluate`.

        Returns:
            By graph id float32 [configurations]; lower means predicted faster, and
            only the order in a graph means something.

        Raises:
            ValueError: the data or the run are unusable.
        """
        data_lib.check_split(split)
        with self.lend_predictor(data, cache_dir) as predictor:
            store = predictor.open_split(split)
            return dict(zip(store.graph_ids, predictor.score(store)))

    def rank(
        self, what: object, candidates: ranking.Candidates = None
    ) -> results.Ranking:
        """Ranks configurations, the one predicted fastest first.

        Args:
            what: a raw file (.pb), a folder or glob of them, or a list of these; or a
                record, or several; or an HloModuleProto, with candidates.
            candidates: configurations that replace those in the files or records,
                such as {'output_bounds': [8, 128]}; docs/guide/python.md has the form.

        Raises:
            ValueError: nothing could be ranked; says why.
        """
        with self.lend_predictor() as predictor:
            ranked, outcome = sources.rank(predictor, what, candidates)
        return results.Ranking(ranked, self.dir, outcome)

    def ranker(self) -> Ranker:
        """Loads the model, to score configurations again and again."""
        return Ranker(self._load_predictor(), self._lock)

    @contextlib.contextmanager
    def lend_predictor(
        self, data: Path | None = None, cache_dir: str = ''
    ) -> Iterator[prediction.Predictor]:
        """Lends the model to a block, which no other thread enters meanwhile."""
        predictor = self._load_predictor(data, cache_dir)
        with self._lock:
            yield predictor

    def _load_predictor(
        self, data: Path | None = None, cache_dir: str = ''
    ) -> prediction.Predictor:
        """Loads the model, once for the same data."""
        if self._predictors:
            _check_process(self._process)
        # The first model is loaded here, whichever process made the run.
        self._process = os.getpid()
        with self._lock:
            # Another folder of data is another source, with a model of its own.
            key = (data, cache_dir)
            if key not in self._predictors:
                options = prediction.Options(
                    cache_dir=cache_dir,
                    models_file=self._own,
                    collection=self._collection,
                    **data_lib.make_data_settings(data),
                )
                self._predictors[key] = prediction.load(self.dir, options)
            return self._predictors[key]


def load(
    which: Path = 'latest',
    model: type | str | None = None,
    out_dir: Path | None = None,
    collection: str = '',
) -> Run:
    """Loads a run.

    Args:
        which: a model directory; or 'latest', the beginning of a hash, or a run_id;
            or 'estimate', which is untrained.
        model: the class of the run's model, or the file that has it, where it is
            not one of ours.
        out_dir: where to look; by default where trainings write.
        collection: of the estimate: 'tile:xla', the default, 'layout:xla:random', ...;
            of a run that was trained on several, the one to score.

    Raises:
        ValueError: there is no such run, or there are several; lists them; there is
            no such collection, or the run is not of it.
    """
    name = data_lib.convert_path('which', which)
    if name == finding.ESTIMATE:
        chosen = collections.find_collection(collection or collections.NAMES[0])
        settings = {'model': finding.ESTIMATE, **chosen.flags}
        estimate = run_files.RunFile(finding.ESTIMATE, {'args': settings})
        return Run(estimate, collection=chosen.name)
    if out_dir is not None and name != finding.PRETRAINED:
        name = os.path.join(data_lib.convert_path('out_dir', out_dir), name)
    run_file = run_files.read(finding.find_one(name))
    if collection:
        # Refuses a collection that the run was not trained on.
        run_file.collection.select_part(collection, run_file.model_dir)
    own: Own = [model] if isinstance(model, type) else model or ''
    return Run(run_file, own, collection)


def runs(out_dir: Path | None = None) -> results.Runs:
    """Lists the finished runs of a folder, the latest last.

    Args:
        out_dir: the folder; by default all folders where trainings write.
    """
    folders = finding.list_default_folders()
    if out_dir is not None:
        folders = [data_lib.convert_path('out_dir', out_dir)]
    return results.Runs(listing.sort_rows(listing.read_rows(folders), 'when'))


def _check_process(loaded_in: int) -> None:
    """Raises ValueError for a model of another process: threads are not forked."""
    if os.getpid() != loaded_in:
        raise ValueError(
            'this process was forked from the one that loaded the model, and '
            "TensorFlow would hang: use multiprocessing.get_context('spawn')"
        )
