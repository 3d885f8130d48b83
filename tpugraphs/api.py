"""Runs: found, trained, measured, and used to rank."""

import io
import json
import os
import sys
import threading
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Union,
)

from tpugraphs import data as data_lib

Path = Union[str, 'os.PathLike[str]']
Own = Union[str, Sequence[type]]


class Ranked(NamedTuple):
    """The configurations of one graph, the one predicted fastest first.

    Attributes:
        kernel: the graph's id.
        order: int64 [c], numbers of the configurations in the order of their file
            or record.
        scores: float32 [c], of those, ascending; lower means predicted faster.
    """

    kernel: str
    order: Any
    scores: Any


class Ranking(List[Ranked]):
    """Ranked graphs: a list of `Ranked`.

    Attributes:
        failed: for each file or module that could not be ranked, what is wrong.
        skipped: reason -> names of modules with nothing to rank.
    """

    def __init__(self, found: Sequence[Any], model_dir: str, outcome: Any = None):
        super().__init__(Ranked(r.module, r.run_index, r.scores) for r in found)
        self._found, self._model_dir = list(found), model_dir
        self.failed: List[str] = outcome.failed if outcome else []
        self.skipped: Dict[str, List[str]] = outcome.skipped if outcome else {}

    def to_json(self, path: Optional[Path] = None) -> str:
        """Returns what `tpugraphs rank --json` prints; also writes it to `path`."""
        return self._written('.json', path)

    def to_csv(self, path: Optional[Path] = None) -> str:
        """Returns CSV with a row for each configuration; also writes it to `path`."""
        return self._written('.csv', path)

    def _written(self, suffix: str, path: Optional[Path]) -> str:
        from baselines import files
        from baselines.evaluation import choices
        from baselines.evaluation import choices_output

        stream, summary = io.StringIO(), choices.Summary()
        writer = choices_output.WRITERS[suffix](stream, self._model_dir)
        for ranked in self._found:
            writer.add(ranked)
            summary.add(ranked)
        writer.finish(summary.to_json())
        if path is not None:
            with files.write_atomically(os.fspath(path), newline='') as file:
                file.write(stream.getvalue())
        return stream.getvalue()


class Ranker:
    """Scores configurations, with the model in memory and compiled once.

    Made by `Run.ranker`.  Threads may share one, and take turns; processes may not:
    one that was forked from a process with a model is refused.
    """

    def __init__(self, predictor: Any, lock: Any):
        self._predictor, self._lock = predictor, lock
        self._process = os.getpid()

    def __call__(self, record: Any, configs: Any = None) -> Any:
        """Scores the configurations of one graph.

        Args:
            record: a `TileRecord` or `LayoutRecord`, whichever the run is of.
            configs: in place of the record's own: of tiles float32 [c, 24] raw
                columns, or dicts such as {'output_bounds': [8, 128]}; of layouts
                [c, k, 18], -1 where an array or a dimension is absent.

        Returns:
            float32 [c]; lower means predicted faster, and only the order within
            the graph means something.

        Raises:
            ValueError: they are of another kind than the training data, an array of
                the record is not what it should be, or this process was forked
                after the model was loaded.
        """
        from tpugraphs import ranking

        _check_process(self._process)
        if configs is not None:
            record = ranking.with_configs(record, configs)
        with self._lock:
            return self._predictor.score_record(record)


class Run:
    """A finished training; made by `load` and `train`.

    Attributes:
        dir: the model directory, absolute.
        settings: of the training, by the names of the scripts' flags.
        curve: per epoch, lists by name: epoch, train_loss, train_opa, val_loss,
            val_opa, for layouts also val_tau; None where it was not measured.
        info: the whole run file.
    """

    def __init__(self, found: Any, own: Own = ''):
        self.dir: str = found.model_dir
        self.info: Dict[str, Any] = found.info
        self.settings: Dict[str, Any] = dict(found.args)
        self.curve: Dict[str, List[Any]] = found.curve
        self._found, self._own = found, own
        self._predictors: Dict[Any, Any] = {}
        # Keras finishes a model when it is first called, which two threads may not
        # do at once.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce__(self) -> Any:
        return Run, (self._found, self._own)  # a model stays in its process

    def __repr__(self) -> str:
        from baselines.runs import listing

        row = listing.row(self._found)
        score = (
            '' if row.score is None else f', best valid {row.measure} {row.score:.3f}'
        )
        return f'<Run {row.model} on {row.collection}{score}: {self.dir}>'

    def evaluate(
        self, split: str = 'valid', data: Optional[Path] = None, *, cache_dir: str = ''
    ) -> Dict[str, Any]:
        """Measures the run on a split whose runtimes are known.

        Args:
            split: 'train', 'valid' or 'test'.
            data: 'sample' (what ships) or a folder of splits; by default what the
                run was trained on.
            cache_dir: where packed splits are kept.

        Returns:
            What `tpugraphs evaluate --json` prints: `overall` and `groups` (by
            program) with, per measure, `mean`, `low` and `high` (95 % interval)
            and `random`, e.g. found['overall']['top_5_error']['mean'].

        Raises:
            ValueError: the data or the run are unusable, or no runtime is known.
        """
        predictor = self._predictor(data, cache_dir)
        with self._lock:
            return predictor.measure(split)[0]

    def rank(
        self, what: Any, candidates: Optional[Sequence[Mapping[str, Any]]] = None
    ) -> Ranking:
        """Ranks configurations, the one predicted fastest first.

        Args:
            what: a raw file (.pb), a folder or glob of them, or a list of these;
                or a record, or several; or an HloModuleProto (`hlo_module`).
            candidates: configurations in place of those that come with `what`,
                such as {'output_bounds': [8, 128]}; docs/guide/python.md has the form.

        Raises:
            ValueError: nothing could be ranked; says why.
        """
        from tpugraphs import ranking

        predictor = self._predictor()
        with self._lock:
            found, outcome = ranking.rank(predictor, what, candidates)
        return Ranking(found, self.dir, outcome)

    def ranker(self) -> Ranker:
        """Loads the model, to score configurations again and again."""
        return Ranker(self._predictor(), self._lock)

    def _predictor(self, data: Optional[Path] = None, cache_dir: str = '') -> Any:
        if self._predictors:
            _check_process(self._process)
        self._process = os.getpid()
        with self._lock:
            key = (data, cache_dir)
            if key not in self._predictors:
                _start_tensorflow()
                from baselines.runs import loading
                from baselines.runs import prediction

                options = prediction.DataOptions(
                    cache_dir=cache_dir, **data_lib.data_settings(data)
                )
                self._predictors[key] = loading.load_predictor(
                    self.dir, options, self._own
                )
            return self._predictors[key]


def load(
    which: Path = 'latest',
    model: Union[type, str, None] = None,
    out_dir: Optional[Path] = None,
) -> Run:
    """Loads a run.

    Args:
        which: a model directory; or 'latest', the beginning of a hash, a run_id or a
            pattern that fits one run alone.
        model: the class of the run's model, or the file that has it, where it is
            not one of ours.
        out_dir: where to look; by default where trainings write.

    Raises:
        ValueError: there is no such run, or there are several; lists them.
    """
    from baselines.runs import finding
    from baselines.runs import run_files

    name = os.fspath(which)
    if out_dir is not None:
        name = os.path.join(os.fspath(out_dir), name)
    try:
        found = run_files.read(finding.find_one(name))
    except ValueError as error:
        raise ValueError(str(error).replace('--dir: ', '', 1)) from None
    own: Own = [model] if isinstance(model, type) else model or ''
    return Run(found, own)


def runs(out_dir: Optional[Path] = None) -> List[Any]:
    """The finished runs of a folder, the latest last, as `tpugraphs runs` lists them.

    Returns:
        Named tuples: when, model, collection, seed, differs (settings that are not
        the defaults), measure, score, minutes, run_id, command, path.
    """
    from baselines.runs import finding
    from baselines.runs import listing

    folders = finding.default_folders() if out_dir is None else [os.fspath(out_dir)]
    return listing.ordered(listing.rows(folders), 'when')


def train(
    task: str = 'tile',
    *,
    model: Union[type, str, None] = None,
    loss: Union[Callable, str, None] = None,
    data: Optional[Path] = None,
    **settings: Any,
) -> Run:
    """Trains a model, as tiles_train.py and layout_train.py do.

    Args:
        task: 'tile' or 'layout'.
        model: a name, a class, or 'my_file.py:MyModel'; 'my_file.py' where there is
            one model in it.
        loss: a function (labels, scores) -> a scalar, both float32 [lists, n]; or
            what --losses takes, such as 'ListMLELoss:1,MSE:0.02'.
        data: 'sample' (the measured data that ship) or a folder of splits.
        **settings: any flag of the scripts by its name: out_dir, epochs, batch,
            seed, recipe, ...; `model_kwargs` may be a dict.

    Returns:
        The run.

    Raises:
        ValueError: a setting or the data are unusable; says which.
        OSError: something cannot be written.
    """
    from baselines import config
    from baselines import registry
    from baselines.runs import run_files

    kind = registry.resolve(task, config.CONFIGS, 'task')
    given = {**settings, **data_lib.data_settings(data)}
    if 'model_kwargs' in given:
        given['model_kwargs_json'] = json.dumps(given.pop('model_kwargs'))
    config.typed(kind, given)  # before TensorFlow is waited for
    models: Own = ''
    losses: Dict[str, Any] = {}
    if isinstance(model, type):
        given['model'], models = model.__name__, [model]
    elif model is not None:
        given.update(_named_model(model, task))
    models = models or given.get('models_file', '')
    if callable(loss):
        name = getattr(loss, '__name__', 'loss')
        losses = {name: loss}
        given['losses'] = name
    elif loss is not None:
        given['losses'] = loss
    _start_tensorflow()
    from baselines.training import jobs

    chosen = config.with_recipe(kind(**config.typed(kind, given)), given)
    words = [f'{key}={value!r}' for key, value in {'task': task, **given}.items()]
    extras = jobs.Extras(models, losses, f'tpugraphs.train({", ".join(words)})')
    return Run(run_files.read(jobs.train(chosen, extras)), models)


def hlo_module(
    function: Callable, *args: Any, stage: str = 'hlo', **kwargs: Any
) -> Any:
    """Compiles a TensorFlow function and returns its HloModuleProto, to rank.

    Args:
        function: what TensorFlow can trace and XLA can compile.
        *args: tensors to trace it with; their shapes are compiled in.
        stage: 'hlo', as TensorFlow hands it to XLA, or 'optimized_hlo', after
            XLA's passes for this machine.
        **kwargs: passed to the function, too.

    Raises:
        ValueError: XLA cannot compile it.
    """
    _start_tensorflow()
    from baselines.hlo import tensorflow_functions

    return tensorflow_functions.module_from_tf(function, *args, stage=stage, **kwargs)


def _named_model(model: str, task: str) -> Dict[str, str]:
    """Settings from 'Name', 'my_file.py:Name' or 'my_file.py'."""
    path, colon, name = model.rpartition(':')
    if colon and path.endswith('.py'):
        return {'models_file': path, 'model': name}
    if not model.endswith('.py'):
        return {'model': model}
    _start_tensorflow()
    from baselines import registry

    module = registry.load_models_file(model, {'tile': 'tiles'}.get(task, task))
    found = registry.distinct(registry.models_in(module))
    if len(found) != 1:
        raise ValueError(
            f'{model} has {len(found)} models: name one, as in {model}:MyModel'
        )
    return {'models_file': model, 'model': next(iter(found))}


def _check_process(loaded_in: int) -> None:
    """Refuses a model of another process: TensorFlow's threads were not forked."""
    if os.getpid() != loaded_in:
        raise ValueError(
            'this process was forked from the one that loaded the model, and '
            "TensorFlow would wait for ever: use multiprocessing.get_context('spawn')"
        )


def _start_tensorflow() -> None:
    """Imports TensorFlow quietly, if nobody has yet."""
    from baselines import command_line

    if 'tensorflow' not in sys.modules:
        command_line.start_tensorflow()
    import tensorflow as tf

    if tf.keras.Model.__module__.startswith('keras.src.models'):  # of Keras 3
        raise ValueError(
            'TensorFlow was imported before tpugraphs, with Keras 3, and TF-GNN needs '
            'Keras 2: import tpugraphs first'
        )
