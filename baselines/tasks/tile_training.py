"""Trains a tile model: data, loop, and the run that it leaves.

model_dir = train(config.TileConfig(data_root='~/data/tpugraphs/...'))
"""

from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf
import tqdm

from baselines import config as config_lib
from baselines import registry
from baselines.data import families
from baselines.data import folds
from baselines.data.tile import sampling
from baselines.features import expansion as expansion_lib
from baselines.features import normalizer as normalizer_lib
from baselines.ranking import metrics
from baselines.ranking import submission
from baselines.tasks import tile
from baselines.tasks import training
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring
from baselines.training import loop
from baselines.training import losses

# Steps between two looks at the progress bar.
_STEPS_PER_CHUNK = 50
_TOP_K = (1, 5, 10)


def train(config: config_lib.TileConfig) -> str:
    """Trains a tile model and writes the run, and a ranking of the test split.

    Prints what it does; returns the model directory.

    Raises:
        ValueError: the settings or the data are unusable; says why.
        OSError: something cannot be written.
    """
    config_lib.checked(config)
    model_class = registry.resolve(
        config.model, registry.tile_models(config.models_file), 'model'
    )
    if getattr(model_class, 'wants_estimate', False) and not config.estimate:
        raise ValueError(
            f'--model={config.model} corrects an analytical estimate, which is '
            'not among the features: add --estimate'
        )
    loss = losses.CombinedLoss(config.losses)
    training.check_settings(config)
    tf.keras.utils.set_random_seed(config.seed)
    stores = {
        split: tile.open_split(config, split) for split in ('train', 'valid', 'test')
    }
    stores = folds.with_fold(config.fold, stores, families.program_of_kernel)
    training.check_splits(config, stores)
    kernels = training.trainable(
        stores['train'],
        stores['train'].with_at_least(config.configs),
        config.configs,
        stores['train'].config_counts.max(),
    )
    normalizer = normalizer_lib.Normalizer.fit(
        stores['train'],
        kernels,
        config.estimate,
        expansion_lib.Expansion.of_tiles(config.features, config.mod128),
        config.tile_columns,
    )
    num_ops = normalizer_lib.num_ops(
        (stores['train'], kernels), stores['valid'], stores['test']
    )
    graphs = {
        split: graphs_lib.TileGraphs(store, normalizer)
        for split, store in stores.items()
    }
    batch = training.batch_size(config, len(kernels), 'kernels')
    steps = len(kernels) // batch
    model = tile.make_model(
        config.model,
        config_lib.model_kwargs(config.model_kwargs_json),
        config.models_file,
        config.configs,
        num_ops,
        normalizer,
    )
    trainer = loop.Trainer(
        model,
        loss,
        training.optimisation_of(config, steps),
        lambda packed, step: graphs_lib.unpack(packed, step, batch, config.configs),
        graphs['train'].signature(batch),
    )
    print(
        f'{config.model}: {training.count_weights(model):,} weights; training on '
        f'{len(kernels):,} kernels with '
        f'{stores["train"].config_counts[kernels].sum():,} '
        f'configurations, validating on {stores["valid"].num_graphs:,} kernels'
    )
    ids = stores['train'].graph_ids
    names = [families.family(families.program_of_kernel(ids[k])) for k in kernels]
    checkpoint = training.checkpoint_of(config, stores)
    state = training.restored(config, checkpoint, trainer)
    scorer = scoring.TileScorer(model, graphs['valid'])
    loop.fit(
        trainer,
        state,
        epochs=config.epochs,
        early_stop=config.early_stop,
        steps_per_epoch=steps,
        chunks=lambda epoch: _chunks(
            graphs['train'], kernels, names, batch, config, epoch
        ),
        validate=_Validator(scorer, stores['valid'], config, loss, batch),
        after_epoch=lambda s: training.keep(checkpoint, trainer, s),
        say=tqdm.tqdm.write,
    )
    model_dir = _finish(config, model, state, stores, graphs, normalizer, num_ops)
    checkpoint.remove()
    return model_dir


def _chunks(graphs, kernels, names, batch, config, epoch) -> Iterator[loop.Chunk]:
    """An epoch: kernels in random order, `configs` configurations of each.

    Each kernel comes once, unless --family_temperature says otherwise.  What
    does not fill a batch is left out, as published; the order differs from epoch
    to epoch, so everything has its turn.
    """
    rng = np.random.default_rng([config.seed, epoch])
    steps = len(kernels) // batch
    order = families.epoch_order(rng, names, config.family_temperature)
    order = kernels[order[: steps * batch]].reshape(steps, batch)
    counts = graphs.store.config_counts
    for start in range(0, steps, _STEPS_PER_CHUNK):
        some = order[start : start + _STEPS_PER_CHUNK]
        drawn = sampling.draw_configs(rng, counts[some.reshape(-1)], config.configs)
        yield loop.Chunk(
            graphs.training_items(some, drawn.reshape(*some.shape, -1)), len(some)
        )


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

    def __call__(self) -> loop.Validation:
        if not len(self._kernels):
            return loop.Validation(None, None)
        pairs, lists = [], []
        scored = self._scorer.score_chosen(self._kernels, self._configs)
        for (kernel, scores), chosen in zip(scored, self._configs):
            labels = tile.kernel_labels(self._store, kernel)[chosen]
            pairs.append((scores, labels))
            if len(chosen) >= self._per_loss:
                lists.append((labels[: self._per_loss], scores[: self._per_loss]))
        correct, total = np.sum(
            [metrics.ordered_pairs(*pair) for pair in pairs], axis=0
        )
        loss = None
        if lists:
            labels, scores = (np.stack(part) for part in zip(*lists))
            loss = float(self._loss(labels.astype(np.float32), scores))
        return loop.Validation(loss, float(correct / total) if total else None)


def _finish(config, model, state, stores, graphs, normalizer, num_ops) -> str:
    """Measures validation, ranks test, and writes the run."""
    final_error: Dict[str, Any] = {'val': None, 'test': None}
    if stores['valid'].has_runtimes:
        scored = dict(_scored(model, graphs['valid'], 'measuring validation'))
        final_error['val'] = _mean_errors(stores['valid'], scored)
    scored = dict(_scored(model, graphs['test'], 'ranking test'))
    if config.test_mode == 'metrics':
        final_error['test'] = _mean_errors(stores['test'], scored)
    for split, errors in final_error.items():
        if errors:
            shown = ' / '.join(f'{errors[str(k)]:.4f}' for k in _TOP_K)
            print(f'{split} top-1/5/10 error: {shown}')
    names = stores['test'].graph_ids
    rows = [
        submission.tile_row(names[kernel], metrics.best_first(scores))
        for kernel, scores in scored.items()
    ]
    more = {'normalizer': normalizer.to_json(), 'num_ops': num_ops}
    return training.save(config, model, state, stores, rows, final_error, more)


def _scored(model, graphs, title):
    return training.with_bar(
        scoring.TileScorer(model, graphs).score_all(),
        graphs.store.num_graphs,
        title,
        'kernel',
    )


def _mean_errors(store, scored) -> Dict[str, float]:
    """Top-k errors of {kernel: scores}, averaged over kernels."""
    errors = [
        [
            metrics.top_k_error(scores, tile.kernel_labels(store, kernel), k)
            for k in _TOP_K
        ]
        for kernel, scores in scored.items()
    ]
    return {str(k): float(e) for k, e in zip(_TOP_K, np.mean(errors, axis=0))}
