"""Trains, loads, measures and lists runs, and ranks and tunes with them."""

import contextlib
import json
import math
import os
import sys
import threading
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from baselines import config
from baselines.core import files
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.core import text
from baselines.data import collections
from baselines.runs import finding
from baselines.runs import listing
from baselines.runs import run_files
from baselines.scoring import graph_source
from baselines.scoring import loading
from tpugraphs import callbacks as callbacks_lib
from tpugraphs import data as data_lib
from tpugraphs import ranking
from tpugraphs import results
from tpugraphs import tile_scores
from tpugraphs.records import machine_records
from tpugraphs.tuning import executable
from tpugraphs.tuning import program_search

Path = results.Path
Own = Union[str, Sequence[type]]

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

    def __init__(self, predictor: Any, lock: Any):
        self._predictor, self._lock = predictor, lock
        self._process = os.getpid()

    def __repr__(self) -> str:
        return f'<Ranker with {self._predictor.model_name}: {self._predictor.name}>'

    def __call__(self, record: Any, configs: Any = None) -> Any:
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

    def __init__(self, run_file: Any, own: Own = '', collection: str = ''):
        self.dir: str = run_file.model_dir
        self.info: Dict[str, Any] = run_file.info
        self.settings: Dict[str, Any] = dict(run_file.args)
        self.curve: Dict[str, List[Any]] = run_file.curve
        self._file, self._own, self._collection = run_file, own, collection
        self._predictors: Dict[Any, Any] = {}
        # Keras finishes a model when it is first called, which two threads may not
        # do at once.
        self._lock = threading.RLock()
        self._process = os.getpid()

    def __reduce__(self) -> Any:
        # A model stays in its process.
        return Run, (self._file, self._own, self._collection)

    def __repr__(self) -> str:

        if self.dir == finding.ESTIMATE:
            return f'<Run {self.dir} on {self._collection}, untrained>'
        row = listing.row(self._file)
        score = (
            '' if row.score is None else f', best valid {row.measure} {row.score:.3f}'
        )
        return f'<Run {row.model} on {row.collection}{score}: {self.dir}>'

    def _repr_html_(self) -> str:

        names, values = listing.cells([listing.row(self._file)])
        pairs = dict(zip(names, values), run=self.dir)
        return text.html_table([list(pair) for pair in pairs.items()])

    def plot(self, axes: Any = None) -> Any:
        """Draws the curves by epoch with matplotlib.

        Args:
            axes: two matplotlib axes; by default those of a new figure.

        Returns:
            The axes: one of scores, one of losses.
        """
        if axes is None:
            from matplotlib import pyplot

            _, axes = pyplot.subplots(1, 2, figsize=(9, 3), layout='constrained')
        best = self.info.get('best_epoch')
        for panel, (title, labels) in zip(axes, _CURVES.items()):
            for name, label in labels.items():
                values = self.curve.get(name) or ()
                points = [math.nan if value is None else value for value in values]
                if points:
                    panel.plot(range(1, len(points) + 1), points, label=label)
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
        data: Optional[Path] = None,
        *,
        cache_dir: str = '',
        protocol: str = '',
    ) -> Dict[str, Any]:
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
        predictor = self._predictor(data, cache_dir)
        with self._lock:
            return predictor.measure(split, protocol)[0]

    def predict(
        self, split: str = 'test', data: Optional[Path] = None, *, cache_dir: str = ''
    ) -> Dict[str, Any]:
        """Scores all configurations of a split; arguments are as of `evaluate`.

        Returns:
            By graph id float32 [configurations]; lower means predicted faster, and
            only the order in a graph means something.

        Raises:
            ValueError: the data or the run are unusable.
        """
        data_lib.check_split(split)
        predictor = self._predictor(data, cache_dir)
        with self._lock:
            store = predictor.open_split(split)
            return dict(zip(store.graph_ids, predictor.score(store)))

    def rank(
        self, what: Any, candidates: Optional[Sequence[Mapping[str, Any]]] = None
    ) -> results.Ranking:
        """Ranks configurations, the one predicted fastest first.

        Args:
            what: a raw file (.pb), a folder or glob of them, a program in any form
                of a file, or a list of these; or a record, or several; or a program
                of `read_program`, or the module of `hlo_module`.
            candidates: configurations instead of those of the files or records,
                such as {'output_bounds': [8, 128]}; docs/guide/python.md has the form.

        Raises:
            ValueError: nothing could be ranked; says why.
        """

        predictor = self._predictor()
        with self._lock:
            ranked, outcome = ranking.rank(predictor, what, candidates)
        return results.Ranking(ranked, self.dir, outcome)

    def ranker(self) -> Ranker:
        """Loads the model, to score configurations again and again."""
        return Ranker(self._predictor(), self._lock)

    def _predictor(self, data: Optional[Path] = None, cache_dir: str = '') -> Any:
        """Loads the model, once for the same data."""
        if self._predictors:
            _check_process(self._process)
        self._process = os.getpid()
        with self._lock:
            key = (data, cache_dir)
            if key not in self._predictors:
                options = graph_source.SourceOptions(
                    cache_dir=cache_dir,
                    models_file=self._own,
                    collection=self._collection,
                    **data_lib.data_settings(data),
                )
                self._predictors[key] = loading.load_predictor(self.dir, options)
            return self._predictors[key]


def load(
    which: Path = 'latest',
    model: Union[type, str, None] = None,
    out_dir: Optional[Path] = None,
    collection: str = '',
) -> Run:
    """Loads a run.

    Args:
        which: a model directory; or 'latest', the beginning of a hash, a run_id or a
            pattern that fits one run alone; or 'estimate', which is untrained.
        model: the class of the run's model, or the file that has it, where it is
            not one of ours.
        out_dir: where to look; by default where trainings write.
        collection: of the estimate: 'tile:xla', the default, 'layout:xla:random', ...;
            of a run that was trained on several, the one to score.

    Raises:
        ValueError: there is no such run, or there are several; lists them; there is
            no such collection, or the run is not of it.
    """

    name = data_lib.path_of('which', which)
    if name == finding.ESTIMATE and out_dir is None:
        chosen = collections.of_name(collection or collections.NAMES[0])
        settings = {'model': finding.ESTIMATE, **chosen.flags}
        estimate = run_files.RunFile(finding.ESTIMATE, {'args': settings})
        return Run(estimate, collection=chosen.name)
    if out_dir is not None:
        name = os.path.join(data_lib.path_of('out_dir', out_dir), name)
    run_file = run_files.read(finding.find_one(name))
    if collection:
        graph_source.collection_of(run_file, collection)
    own: Own = [model] if isinstance(model, type) else model or ''
    return Run(run_file, own, collection)


def runs(out_dir: Optional[Path] = None) -> results.Runs:
    """Lists the finished runs of a folder, the latest last.

    Args:
        out_dir: the folder; by default those that trainings write to.
    """

    folders = finding.default_folders()
    if out_dir is not None:
        folders = [data_lib.path_of('out_dir', out_dir)]
    return results.Runs(listing.ordered(listing.rows(folders), 'when'))


def train(
    task: str = 'tile',
    *,
    model: Union[type, str, None] = None,
    loss: Union[Callable, str, None] = None,
    data: Optional[Path] = None,
    verbose: bool = True,
    callbacks: Sequence[callbacks_lib.Callback] = (),
    **settings: Any,
) -> Run:
    """Trains a model, as tiles_train.py and layout_train.py do.

    Args:
        task: 'tile' or 'layout'.
        model: a name, a class, or 'my_file.py:MyModel'; 'my_file.py' where there is
            one model in it.
        loss: a function (labels, scores) -> a scalar, both float32 [lists, n]; or
            a value of --losses, such as 'ListMLELoss:1,MSE:0.02'.
        data: 'sample' (the measured data that ship) or a folder of splits.
        verbose: whether it prints its progress; notes and warnings are printed anyway.
        callbacks: objects whose `on_epoch` is called after every epoch of a graph
            model, see `Callback`; an error that they raise ends the training, and
            resume=True goes on from there.
        **settings: any flag of the scripts by its name: out_dir, epochs, batch,
            seed, recipe, ...; `model_kwargs` may be a dict.

    Returns:
        The run.

    Raises:
        ValueError: a setting or the data are unusable; says which.
        OSError: something cannot be written.
    """

    if not isinstance(callbacks, (list, tuple)):
        raise ValueError(f'callbacks should be a list, not {callbacks!r}')
    for callback in callbacks:
        if not callable(getattr(callback, 'on_epoch', None)):
            raise ValueError(
                f'callbacks: {callback!r} has no method on_epoch(run, metrics)'
            )
    kind = registry.resolve(task, config.CONFIGS, 'task')
    flags = {**settings, **data_lib.data_settings(data)}
    if 'model_kwargs' in flags:
        flags['model_kwargs_json'] = json.dumps(flags.pop('model_kwargs'))
    flags = settings_lib.typed(kind, flags)  # before TensorFlow is waited for
    models: Own = ''
    losses: Dict[str, Any] = {}
    if isinstance(model, type):
        flags['model'], models = model.__name__, [model]
    elif isinstance(model, str):
        flags.update(registry.named_model(model, task))
    elif model is not None:
        raise ValueError(f'model should be a name, a file or a class, not {model!r}')
    models = models or flags.get('models_file', '')
    if callable(loss):
        name = getattr(loss, '__name__', 'loss')
        losses = {name: loss}
        flags['losses'] = name
    elif isinstance(loss, str):
        flags['losses'] = loss
    elif loss is not None:
        raise ValueError(f'loss should be a function or text, not {loss!r}')
    starting.start_tensorflow()
    from baselines.training import jobs

    arguments = [f'{key}={value!r}' for key, value in {'task': task, **flags}.items()]
    output = sys.stdout
    with contextlib.nullcontext() if verbose else callbacks_lib.silence():
        chosen = config.with_recipe(kind(**flags), flags)
        training = callbacks_lib.Training(config.to_json(chosen))

        def after_epoch(state: Any) -> None:
            training.curve = state.curve
            measured = {name: values[-1] for name, values in state.curve.items()}
            metrics = {n: value for n, value in measured.items() if value is not None}
            with contextlib.redirect_stdout(output):
                for callback in callbacks:
                    callback.on_epoch(training, metrics)

        model_dir = jobs.train(
            chosen,
            models=models,
            own_losses=losses,
            command=f'tpugraphs.train({", ".join(arguments)})',
            after_epoch=after_epoch,
        )
    return Run(run_files.read(model_dir), models)


def hlo_module(
    function: Callable, *args: Any, stage: str = 'hlo', **kwargs: Any
) -> Any:
    """Compiles a TensorFlow function and returns its HloModuleProto, to rank.

    Args:
        function: a function that TensorFlow can trace and XLA can compile.
        *args: tensors to trace it with; their shapes are compiled in.
        stage: 'hlo', as TensorFlow hands it to XLA, or 'optimized_hlo', after
            XLA's passes for this machine.
        **kwargs: passed to the function, too.

    Raises:
        ValueError: there is no such stage, or XLA cannot compile the function; has the
            line that tells the cause.
    """
    starting.start_tensorflow()
    from baselines.hlo import tensorflow_functions

    return tensorflow_functions.module_from_tf(function, *args, stage=stage, **kwargs)


def tune(
    program: Any,
    *args: Any,
    minutes: float = 5,
    output: Path = '',
    which: Path = 'pretrained',
    **settings: Any,
) -> Any:
    """Finds a faster program that computes the same, and proves it.

    Each kernel's tiles are tuned, the faster ones are put into the program, and both
    programs are timed side by side on one processor core.

    Args:
        program: a `jax.jit` function, a `tf.function` or a Keras model; or another
            argument of `read_program`, such as a file of HLO.
        *args: arguments of the function, arrays nested in tuples, lists and dicts;
            their shapes are compiled in, and the program is timed with their values.
            For a file, flat arrays, or none to draw random ones.
        minutes: of wall time, about.
        output: folder to write the program to, for `load_program`.
        which: the run of the model that proposes, as `load` takes it; '' draws
            configurations at random.
        **settings: the options of `tpugraphs tune`: measure, candidates, seed, core,
            platform, records, fresh.

    Returns:
        An `Executable`: call it as the program, with NumPy or JAX arrays; it returns
        NumPy arrays.  `original` is the untuned program, `about` has the figures.

    Raises:
        ValueError: there is no such setting, the program cannot be traced, compiled or
            measured, or the output cannot be written; says why.
        OSError: a file cannot be read.
    """

    settings = {'records': machine_records.FOLDER, 'minutes': minutes, **settings}
    settings = settings_lib.typed(program_search.TuningOptions, settings, 'argument')
    if output:
        settings['output'] = files.expand(data_lib.path_of('output', output))
    options = program_search.TuningOptions(**settings)
    if which == finding.PRETRAINED:
        model = tile_scores.pretrained(options.platform)
    else:
        model = tile_scores.load(load(which).dir, options.platform) if which else None
    return program_search.tune_and_write(program, args, options, model)


def load_program(folder: Path) -> Any:
    """Loads a tuned program from a folder that `tune` wrote.

    Args:
        folder: the output folder; it is untrusted.

    Returns:
        An `Executable`, see `tune`.

    Raises:
        ValueError: a file is damaged or does not fit the others; names it.
        OSError: a file cannot be read.
    """

    return executable.load(data_lib.path_of('folder', folder))


def _check_process(loaded_in: int) -> None:
    """Raises ValueError for a model of another process: threads are not forked."""
    if os.getpid() != loaded_in:
        raise ValueError(
            'this process was forked from the one that loaded the model, and '
            "TensorFlow would wait for ever: use multiprocessing.get_context('spawn')"
        )
