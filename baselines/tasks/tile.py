"""The tile collection's jobs: train a model, rank kernels with a run.

    model_dir = train(config.TileConfig(data_root='~/data/...'))
    predictor = load_predictor(model_dir)
    for graph_id, scores in predictor.score(predictor.open_split('test')): ...
"""

import dataclasses
import json
import os
import platform
import sys
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn
import tensorflow_ranking as tfr
import tqdm

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines.data import normalizer as normalizer_lib
from baselines.data import sampling
from baselines.data import store as store_lib
from baselines.ranking import metrics
from baselines.ranking import report
from baselines.ranking import scoring
from baselines.ranking import submission
from baselines.tiles import graphs as graphs_lib
from baselines.training import fitting
from baselines.training import losses
from baselines.training import runs

# Steps between two looks at the progress bar.
_STEPS_PER_CHUNK = 50
_TOY_FILES = 100
_TOP_K = (1, 5, 10)


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


def train(config: config_lib.TileConfig) -> str:
    """Trains a tile model and writes the run, and a ranking of the test split.

    Prints what it does; returns the model directory.

    Raises:
        ValueError: the settings or the data are unusable; says why.
        OSError: something cannot be written.
    """
    config_lib.checked(config)
    registry.resolve(
        config.model, registry.tile_models(config.models_file), 'model')
    loss = losses.CombinedLoss(config.losses)
    runs.check_writable(config.out_dir)
    tf.keras.utils.set_random_seed(config.seed)
    stores = {
        split: open_split(config, split) for split in ('train', 'valid', 'test')
    }
    if config.test_mode == 'metrics' and not stores['test'].has_runtimes:
        raise ValueError(
            f'--test_mode=metrics: all runtimes in {stores["test"].source} are '
            '0, as they are in the published test files; use '
            '--test_mode=predictions'
        )
    kernels = _training_kernels(stores['train'], config.configs)
    normalizer = normalizer_lib.Normalizer.fit(stores['train'], kernels)
    num_ops = normalizer_lib.num_ops(
        (stores['train'], kernels), stores['valid'], stores['test'])
    graphs = {
        split: graphs_lib.TileGraphs(store, normalizer)
        for split, store in stores.items()
    }
    batch = min(config.batch, len(kernels))
    if batch < config.batch:
        print(
            f'note: {len(kernels)} training kernels have at least '
            f'{config.configs} configurations, fewer than --batch='
            f'{config.batch}; training on batches of {batch}'
        )
    model = make_model(
        config.model, config_lib.model_kwargs(config.model_kwargs_json),
        config.models_file, config.configs, num_ops, normalizer)
    trainer = fitting.Trainer(
        model, loss, config.lr, config.clip_norm,
        lambda packed, step: graphs_lib.unpack(
            packed, step, batch, config.configs),
        graphs['train'].signature(batch))
    print(
        f'{config.model}: {_count_weights(model):,} weights; training on '
        f'{len(kernels):,} kernels with {stores["train"].config_counts[kernels].sum():,} '
        f'configurations, validating on {stores["valid"].num_graphs:,} kernels'
    )
    checkpoint = runs.Checkpoint(os.path.join(
        config.out_dir, 'unfinished_' + config_lib.training_key(
            config, stores['train'].fingerprint,
            stores['valid'].fingerprint) + '.npz'))
    state = _restored(config, checkpoint, trainer)
    scorer = scoring.TileScorer(model, graphs['valid'])
    fitting.fit(
        trainer,
        state,
        epochs=config.epochs,
        early_stop=config.early_stop,
        steps_per_epoch=len(kernels) // batch,
        chunks=lambda epoch: _chunks(
            graphs['train'], kernels, batch, config, epoch),
        validate=_Validator(
            scorer, stores['valid'], config, loss, batch),
        after_epoch=lambda s: _keep(checkpoint, trainer, s),
        say=tqdm.tqdm.write,
    )
    model_dir = _finish(config, model, state, stores, graphs, normalizer, num_ops)
    checkpoint.remove()
    return model_dir


def _count_weights(model: tf.keras.Model) -> int:
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


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


def _training_kernels(store: store_lib.TileStore, configs: int) -> np.ndarray:
    if not store.has_runtimes:
        raise ValueError(f'{store.source}: all runtimes are 0; nothing to learn')
    kernels = store.with_at_least(configs)
    if not len(kernels):
        raise ValueError(
            f'{store.source}: no kernel has --configs={configs} configurations; '
            f'the largest has {store.config_counts.max()}'
        )
    return kernels


def _chunks(graphs, kernels, batch, config, epoch) -> Iterator[fitting.Chunk]:
    """An epoch: kernels in random order, `configs` configurations of each.

    What does not fill a batch is left out, as published; the order differs
    from epoch to epoch, so everything has its turn.
    """
    rng = np.random.default_rng([config.seed, epoch])
    steps = len(kernels) // batch
    order = rng.permutation(kernels)[: steps * batch].reshape(steps, batch)
    counts = graphs.store.config_counts
    for start in range(0, steps, _STEPS_PER_CHUNK):
        some = order[start:start + _STEPS_PER_CHUNK]
        drawn = sampling.sample_configs(
            rng, counts[some.reshape(-1)], config.configs)
        yield fitting.Chunk(
            graphs.training_items(some, drawn.reshape(*some.shape, -1)),
            len(some))


class _Validator:
    """Loss and OPA on configurations drawn once and kept for all epochs.

    OPA over 10 configurations per kernel, newly drawn each epoch, moves by
    more than an epoch's progress.  Here it is over up to
    --validation_configs of each, the same ones every time.
    """

    def __init__(self, scorer, store, config, loss, batch):
        self._scorer, self._store, self._loss = scorer, store, loss
        kernels = np.arange(store.num_graphs)
        if config.validate_batches >= 0:
            kernels = kernels[: config.validate_batches * batch]
        self._kernels = kernels if store.has_runtimes else kernels[:0]
        rng = np.random.default_rng([config.seed, 2**32 - 1])
        self._configs: List[np.ndarray] = []
        for count in store.config_counts[self._kernels]:
            most = min(int(count), config.validation_configs)
            self._configs.append(rng.permutation(count)[:most])
        self._per_loss = config.configs

    def __call__(self) -> fitting.Validation:
        if not len(self._kernels):
            return fitting.Validation(None, None)
        pairs, lists = [], []
        scored = self._scorer.score_chosen(self._kernels, self._configs)
        for (kernel, scores), chosen in zip(scored, self._configs):
            labels = kernel_labels(self._store, kernel)[chosen]
            pairs.append((scores, labels))
            if len(chosen) >= self._per_loss:
                lists.append((labels[: self._per_loss], scores[: self._per_loss]))
        correct, total = np.sum(
            [metrics.ordered_pairs(*pair) for pair in pairs], axis=0)
        loss = None
        if lists:
            labels, scores = (np.stack(part) for part in zip(*lists))
            loss = float(self._loss(labels.astype(np.float32), scores))
        return fitting.Validation(
            loss, float(correct / total) if total else None)


def kernel_labels(store: store_lib.TileStore, kernel: int) -> np.ndarray:
    """Runtimes of a kernel divided by their normalisers, float64."""
    rows = slice(*store.config_offsets[kernel:kernel + 2])
    return np.asarray(store.config_runtime[rows]) / np.asarray(
        store.config_runtime_normalizers[rows])


def _keep(checkpoint, trainer, state: fitting.State) -> None:
    arrays = {f'now_{i:04d}': w for i, w in enumerate(trainer.state())}
    arrays.update(
        {f'best_{i:04d}': w for i, w in enumerate(state.best_weights)})
    described = dataclasses.asdict(
        dataclasses.replace(state, best_weights=[]))
    checkpoint.write(arrays, described)


def _restored(config, checkpoint, trainer) -> fitting.State:
    """The state to go on from: that of an interrupted run, or a new one."""
    if not config.resume:
        if os.path.exists(checkpoint.path):
            print(
                'note: a run of these settings was interrupted; --resume would '
                'go on with it.  Starting anew'
            )
        return fitting.State()
    kept = checkpoint.read()
    if kept is None:
        print('note: --resume: there is no interrupted run of these settings '
              f'in {config.out_dir}; starting anew')
        return fitting.State()
    arrays, described = kept
    trainer.restore([arrays[k] for k in sorted(arrays) if k.startswith('now_')])
    best = [arrays[k] for k in sorted(arrays) if k.startswith('best_')]
    state = fitting.State(**{**described, 'best_weights': best})
    print(f'resuming after epoch {state.epochs_done}')
    return state


def _finish(config, model, state, stores, graphs, normalizer, num_ops) -> str:
    """Scores validation and test, and writes the run and the CSV."""
    final_error: Dict[str, Any] = {'val': None, 'test': None}
    if stores['valid'].has_runtimes:
        final_error['val'] = _errors(model, graphs['valid'], 'validation')
    scored = {
        stores['test'].graph_ids[kernel]: scores for kernel, scores in
        _with_bar(scoring.TileScorer(model, graphs['test']).score_all(),
                  stores['test'].num_graphs, 'ranking test')
    }
    rows = [
        submission.tile_row(name, metrics.best_first(scores))
        for name, scores in scored.items()
    ]
    if config.test_mode == 'metrics':
        final_error['test'] = _mean_errors(
            (scored[name], kernel_labels(stores['test'], i))
            for i, name in enumerate(stores['test'].graph_ids))
    run_hash = runs.new_hash()
    info = {
        'args': config_lib.to_json(config),
        'train_curve': state.curve,
        'best_epoch': state.best_epoch,
        'final_error': final_error,
        'test_predictions': {row.id: list(row.configs) for row in rows},
        'normalizer': normalizer.to_json(),
        'num_ops': num_ops,
        'seed': config.seed,
        'data_fingerprint': {k: s.fingerprint for k, s in stores.items()},
        'simulated_data': config.sample_data,
        'versions': versions(),
    }
    csv = config.results_csv or os.path.join(
        config.out_dir, f'results_{time.time_ns() // 1_000_000}.csv')
    model_dir = runs.save(config.out_dir, run_hash, model, info)
    submission.write_predictions(csv, rows)
    for split, errors in final_error.items():
        if errors:
            shown = ' / '.join(f'{errors[str(k)]:.4f}' for k in _TOP_K)
            print(f'{split} top-1/5/10 error: {shown}')
    print(f'model:   {model_dir}\nrun:     {runs.run_file(model_dir)}\n'
          f'ranking: {files.expand(csv)}')
    return model_dir


def _errors(model, graphs, what) -> Dict[str, float]:
    scored = _with_bar(scoring.TileScorer(model, graphs).score_all(),
                       graphs.store.num_graphs, f'measuring {what}')
    return _mean_errors(
        (scores, kernel_labels(graphs.store, kernel))
        for kernel, scores in scored)


def _mean_errors(pairs) -> Dict[str, float]:
    rows = [[metrics.top_k_error(*pair, k) for k in _TOP_K] for pair in pairs]
    return {str(k): float(e) for k, e in zip(_TOP_K, np.mean(rows, axis=0))}


def _with_bar(scored, total: int, title: str):
    return tqdm.tqdm(
        scored, total=total, desc=title, unit='kernel', leave=False,
        disable=None)


class Predictor:
    """A run, ready to score kernels.

    Attributes:
        run: the run.
        model: the model with the run's weights.
        normalizer: what its features are scaled by.
    """

    def __init__(self, run: runs.Run, models_file: str, data: DataOptions):
        args = run.args
        self.run = run
        self._data = data
        self.normalizer, num_ops = self._scaling()
        self.model = make_model(
            args['model'],
            config_lib.model_kwargs(args.get('model_kwargs_json') or '{}'),
            models_file,
            int(args.get('configs', 10)),
            num_ops,
            self.normalizer,
        )
        runs.read_weights(run, self.model)

    def open_split(self, split: str) -> store_lib.TileStore:
        """Opens a split of the data to predict."""
        return open_split(self._data, split)

    def score(
        self, store: store_lib.TileStore
    ) -> Iterator[Tuple[str, np.ndarray]]:
        """Yields (graph id, scores [configurations]); lower is faster."""
        graphs = graphs_lib.TileGraphs(store, self.normalizer)
        scored = scoring.TileScorer(self.model, graphs).score_all()
        title = f'ranking {os.path.basename(store.source)}'
        for kernel, scores in _with_bar(scored, store.num_graphs, title):
            yield store.graph_ids[kernel], scores

    def _scaling(self) -> Tuple[normalizer_lib.Normalizer, int]:
        info = self.run.info
        if 'normalizer' in info:
            num_ops = info.get('num_ops')
            if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
                raise ValueError(
                    f'{runs.run_file(self.run.model_dir)}: num_ops should be a '
                    f'number up to 65536, not {num_ops!r}')
            return normalizer_lib.Normalizer.from_json(info['normalizer']), num_ops
        # Made by the published code, which keeps neither: it fits them to the
        # training data each time, and so do we.
        print('note: this run does not hold its normaliser; fitting it to '
              f'{self._data.data_root}', file=sys.stderr)
        stores = [self.open_split(s) for s in ('train', 'valid', 'test')]
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


def versions() -> Dict[str, str]:
    """Versions of what a result depends on."""
    return {
        'python': platform.python_version(),
        'tensorflow': tf.__version__,
        'tensorflow_gnn': tfgnn.__version__,
        'tensorflow_ranking': tfr.__version__,
        'numpy': np.__version__,
    }
