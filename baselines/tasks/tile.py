"""The tile collection: open its data, make its models, rank with a run.

    predictor = load_predictor(model_dir, DataOptions(data_root, cache_dir))
    for graph_id, scores in predictor.score(predictor.open_split('test')): ...
"""

import dataclasses
import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines.data import normalizer as normalizer_lib
from baselines.data import store as store_lib
from baselines.data import variants
from baselines.ranking import metrics
from baselines.ranking import report
from baselines.ranking import scoring
from baselines.ranking import submission
from baselines.tasks import training
from baselines.tiles import graphs as graphs_lib
from baselines.training import runs

_TOY_FILES = 100

_Scaling = Tuple[normalizer_lib.Normalizer, int]  # and num_ops


@dataclasses.dataclass(frozen=True)
class DataOptions:
    """Where kernels come from; the settings of a training serve as well.

    Attributes:
        data_root: folder of the splits; '' for where the run was trained, if
            that is there, or else the default.
        cache_dir: where packed splits are kept.
        sample_data: the simulated kernels in place of `data_root`.
        toy_data: only the first 100 files of each split.
        skip_bad_files: leave damaged files out.
    """

    data_root: str
    cache_dir: str
    sample_data: bool = False
    toy_data: bool = False
    skip_bad_files: bool = False


def data_options(args: Any) -> DataOptions:
    """Takes the options of that name from parsed flags."""
    names = [field.name for field in dataclasses.fields(DataOptions)]
    return DataOptions(**{name: getattr(args, name) for name in names})


def make_model(
    name: str,
    kwargs: Dict[str, Any],
    models_file: str,
    num_configs: int,
    num_ops: int,
    normalizer: normalizer_lib.Normalizer,
) -> tf.keras.Model:
    """Makes a model and its variables, from its name.

    Raises:
        ValueError: the name or a keyword is unknown.
    """
    model_class = registry.resolve(
        name, registry.tile_models(models_file), 'model'
    )
    registry.check_kwargs(model_class, kwargs)
    try:
        model = model_class(num_configs, num_ops, **kwargs)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'--model_kwargs_json: {name} does not take {kwargs}: {error}'
        ) from None
    model.forward(graphs_lib.example_graph(normalizer), 2)
    return model


def open_split(config: Any, split: str) -> store_lib.TileStore:
    """Opens a split of the configured data, packing it on first use."""
    return store_lib.open_tile_split(
        os.path.join(_data_root(config), split),
        config.cache_dir,
        skip_bad_files=config.skip_bad_files,
        limit=_TOY_FILES if config.toy_data else None,
    )


def _data_root(config) -> str:
    if config.sample_data:
        from baselines.data.sample import dataset

        return dataset.ensure_sample()
    return files.expand(config.data_root)


def kernel_labels(store: store_lib.TileStore, kernel: int) -> np.ndarray:
    """Runtimes of a kernel divided by their normalisers, float64."""
    rows = slice(*store.config_offsets[kernel:kernel + 2])
    return np.asarray(store.config_runtime[rows]) / np.asarray(
        store.config_runtime_normalizers[rows])


class Predictor:
    """A run, ready to score kernels.

    Attributes:
        run: the run.
        model: the model with the run's weights.
        normalizer: what its features are scaled by.
        variant: what the columns meant that it was trained on.
        num_ops: it knows the opcodes below this number.
    """

    def __init__(self, run: runs.Run, models_file: str, data: DataOptions):
        args = run.args
        self.run = run
        self._data = data
        try:
            self.variant = variants.Variant.from_json(run.info)
            stored = self._stored_scaling()
        except ValueError as error:
            raise ValueError(f'{runs.run_file(run.model_dir)}: {error}') from None
        self.normalizer, self.num_ops = stored or self._fitted_scaling()
        self.model = make_model(
            args['model'],
            config_lib.model_kwargs(args.get('model_kwargs_json') or '{}'),
            models_file,
            int(args.get('configs', 10)),
            self.num_ops,
            self.normalizer,
        )
        runs.read_weights(run, self.model)

    def open_split(self, split: str) -> store_lib.TileStore:
        """Opens a split of the data to predict."""
        return open_split(self._data, split)

    def score(
        self, store: store_lib.TileStore
    ) -> Iterator[Tuple[str, np.ndarray]]:
        """Yields (graph id, scores [configurations]); lower is faster.

        Raises:
            ValueError: the data is of another kind than the training data.
        """
        self.variant.check(store, 'the model was trained on')
        self._check_opcodes(store)
        graphs = graphs_lib.TileGraphs(store, self.normalizer)
        scored = scoring.TileScorer(self.model, graphs).score_all()
        title = f'ranking {os.path.basename(store.source)}'
        for kernel, scores in training.with_bar(
            scored, store.num_graphs, title, 'kernel'):
            yield store.graph_ids[kernel], scores

    def _check_opcodes(self, store: store_lib.TileStore) -> None:
        kernel = int(np.argmax(store.max_opcode))
        if store.max_opcode[kernel] >= self.num_ops:
            raise ValueError(
                f'{store.source}: {store.graph_ids[kernel]} has opcode '
                f'{store.max_opcode[kernel]}, but the model knows those below '
                f'{self.num_ops}; train a model on data that has it')

    def _stored_scaling(self) -> Optional[_Scaling]:
        info = self.run.info
        if 'normalizer' not in info:
            return None
        num_ops = info.get('num_ops')
        if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
            raise ValueError(
                f'num_ops should be a number up to 65536, not {num_ops!r}')
        return normalizer_lib.Normalizer.from_json(info['normalizer']), num_ops

    def _fitted_scaling(self) -> _Scaling:
        # Made by the published code, which keeps neither: it fits them to the
        # training data each time, and so do we.
        print('note: this run does not hold its normaliser; fitting it to '
              f'{self._data.data_root}', file=sys.stderr)
        stores = [self.open_split(s) for s in ('train', 'valid', 'test')]
        self.variant.check(stores[0], 'the model was trained on')
        least = int(self.run.args.get('configs', 10))
        kept = [(store, store.with_at_least(least)) for store in stores]
        return (normalizer_lib.Normalizer.fit(*kept[0]),
                normalizer_lib.num_ops(*kept))


def load_predictor(
    model_dir: str, data: DataOptions, models_file: str = ''
) -> Predictor:
    """Loads a run for prediction.

    Args:
        model_dir: the run's model directory.
        data: where kernels come from.
        models_file: a models.py in place of ours.  The one that the run file
            names is not run: the file may come from a stranger.

    Raises:
        ValueError: the run is incomplete or does not fit the model's code.
    """
    run = runs.load(model_dir)
    if run.args.get('models_file') and not models_file:
        print(
            f'note: {run.model_dir} was trained with --models_file='
            f'{run.args["models_file"]}; pass it here too if it is not ours',
            file=sys.stderr)
    if not data.data_root and not data.sample_data:
        data = dataclasses.replace(data, **_where_trained(run))
    return Predictor(run, models_file, data)


def _where_trained(run: runs.Run) -> Dict[str, Any]:
    trained_on = run.args.get('data_root')
    if run.args.get('sample_data'):
        return {'sample_data': True}
    if isinstance(trained_on, str) and os.path.isdir(files.expand(trained_on)):
        return {'data_root': trained_on}
    return {'data_root': config_lib.TileConfig.data_root}


def write_predictions(
    model_dirs: List[str],
    data: DataOptions,
    output: str,
    models_file: str = '',
    split: str = 'test',
) -> List[str]:
    """Ranks a split with each run and writes a CSV for each.

    Args:
        model_dirs: the runs' model directories.
        data: where kernels come from.
        output: the CSV; with several runs `_<hash>` goes into its name.
        models_file: a models.py in place of the runs' own.
        split: which kernels to rank.

    Returns:
        The paths written.

    Raises:
        ValueError: a run or the data are unusable.
        OSError: the CSV cannot be written.
    """
    written = []
    for model_dir in model_dirs:
        predictor = load_predictor(model_dir, data, models_file)
        rows = [
            submission.tile_row(name, metrics.best_first(scores))
            for name, scores in predictor.score(predictor.open_split(split))
        ]
        path = files.expand(output)
        if len(model_dirs) > 1:
            stem, ending = os.path.splitext(path)
            run_hash = predictor.run.model_dir.rpartition('model_')[2]
            path = f'{stem}_{run_hash}{ending}'
        submission.write_predictions(path, rows)
        print(f'{path}: {len(rows)} kernels ranked')
        written.append(path)
    return written


def evaluate(
    model_dir: str,
    data: DataOptions,
    models_file: str = '',
    split: str = 'valid',
) -> Dict[str, Any]:
    """Measures a run on a split whose runtimes are known.

    Returns:
        What `report.summarise_tile` returns, with `model`, `split` and
        `data_root` added.

    Raises:
        ValueError: the run or the data are unusable, or no runtime is known.
    """
    predictor = load_predictor(model_dir, data, models_file)
    store = predictor.open_split(split)
    if not store.has_runtimes:
        raise ValueError(
            f'{store.source}: all runtimes are 0, as in the published test '
            'files; there is nothing to compare with'
        )
    results = [
        report.GraphResult(name, scores, kernel_labels(store, i))
        for i, (name, scores) in enumerate(predictor.score(store))
    ]
    summary = report.summarise_tile(results)
    return {
        'model': predictor.run.args['model'],
        'split': split,
        'data_root': os.path.dirname(store.source),
        **summary,
    }
