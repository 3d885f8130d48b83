"""Trains a layout model: data, loop, and the run that it leaves.

model_dir = train(config.LayoutConfig(source='xla', search='random'))
"""

from typing import Any, Dict, Iterator, List

import numpy as np
import tensorflow as tf
import tqdm

from baselines import config as config_lib
from baselines import registry
from baselines.data import families
from baselines.data import folds
from baselines.data.layout import sampling as layout_sampling
from baselines.features import expansion as expansion_lib
from baselines.features import normalizer as normalizer_lib
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import scoring
from baselines.layout import segments as segments_lib
from baselines.ranking import metrics
from baselines.ranking import submission
from baselines.tasks import layout
from baselines.tasks import training
from baselines.training import loop
from baselines.training import losses

# What the published layout training divides scores by.
_TEMPERATURE = 1.0
_SLOWDOWNS = (1, 10, 100)


def train(config: config_lib.LayoutConfig) -> str:
    """Trains a layout model and writes the run, and a ranking of the test split.

    Prints what it does; returns the model directory.

    Raises:
        ValueError: the settings or the data are unusable; says why.
        OSError: something cannot be written.
    """
    config_lib.checked(config)
    registry.resolve(
        config.model, registry.layout_models(config.models_file), 'layout model'
    )
    loss = losses.CombinedLoss(config.losses, _TEMPERATURE)
    training.check_settings(config)
    tf.keras.utils.set_random_seed(config.seed)
    stores = {
        split: layout.open_split(config, config.source, config.search, split)
        for split in ('train', 'valid', 'test')
    }
    stores = folds.with_fold(config.fold, stores, str)
    training.check_splits(config, stores)
    sampler = layout_sampling.ConfigSampler(
        stores['train'],
        config.sampling,
        unique=True,
        max_configs=config.max_configs if config.max_configs > 0 else None,
        seed=config.seed,
    )
    chosen = training.trainable(
        stores['train'],
        sampler.with_at_least(config.configs),
        config.configs,
        sampler.counts.max(),
    )
    normalizer = normalizer_lib.Normalizer.fit(
        stores['train'],
        chosen,
        expansion=expansion_lib.Expansion.of_layouts(config.features, config.mod128),
    )
    num_ops = normalizer_lib.num_ops(
        (stores['train'], chosen), stores['valid'], stores['test']
    )
    programs = {
        split: programs_lib.StoredPrograms(
            store, normalizer, mean_runtimes=split == 'train'
        )
        for split, store in stores.items()
    }
    batch = training.batch_size(config, len(chosen), 'programs')
    steps = -(-len(chosen) // batch)
    model = layout.make_model(
        config.model,
        config_lib.model_kwargs(config.model_kwargs_json),
        config.models_file,
        config.configs,
        num_ops,
        normalizer,
    )
    graphs = graphs_lib.LayoutGraphs(programs['train'])
    trainer = loop.Trainer(
        model,
        loss,
        training.optimisation_of(config, steps),
        lambda packed, step: graphs_lib.unpack(packed, step, batch, config.configs),
        graphs.signature(batch),
    )
    print(
        f'{config.model}: {training.count_weights(model):,} weights; training '
        f'on {len(chosen):,} programs of {config.source}:{config.search} with '
        f'{sampler.counts[chosen].sum():,} different configurations, '
        f'validating on {stores["valid"].num_graphs:,} programs'
    )
    checkpoint = training.checkpoint_of(config, stores)
    state = training.restored(config, checkpoint, trainer)
    names = [families.family(stores['train'].graph_ids[n]) for n in chosen]
    cuts = [_segments(config, stores['train'], number) for number in chosen]
    scorer = scoring.LayoutScorer(model, config.memory_budget << 20)
    loop.fit(
        trainer,
        state,
        epochs=config.epochs,
        early_stop=config.early_stop,
        steps_per_epoch=steps,
        chunks=lambda epoch: _chunks(
            graphs, sampler, chosen, names, cuts, batch, config, epoch
        ),
        validate=_Validator(
            scorer, programs['valid'], stores['valid'], config, loss, batch
        ),
        after_epoch=lambda s: training.keep(checkpoint, trainer, s),
        say=tqdm.tqdm.write,
    )
    model_dir = _finish(
        config,
        state,
        scorer,
        model,
        stores,
        programs,
        {'normalizer': normalizer.to_json(), 'num_ops': num_ops},
    )
    checkpoint.remove()
    return model_dir


def _segments(config, store, number) -> np.ndarray:
    """The segments that a program is cut into: int [segments, 2]."""
    if config.segments == 'splits':
        splits = store.node_splits[store.rows('split', number)]
        return segments_lib.split_segments(splits, config.keep_nodes)
    rows = store.rows('node', number)
    return segments_lib.equal_segments(rows.stop - rows.start, config.keep_nodes)


def _chunks(
    graphs, sampler, chosen, names, cuts, batch, config, epoch
) -> Iterator[loop.Chunk]:
    """An epoch, a step at a time: every program once, in random order.

    The last batch is filled up with other programs.
    """
    rng = np.random.default_rng([config.seed, epoch])
    order = families.epoch_order(rng, names, config.family_temperature)
    order = np.resize(order, -(-len(order) // batch) * batch)
    for some in order.reshape(-1, batch):
        numbers = chosen[some]
        drawn = sampler.draw(rng, numbers, config.configs)
        kept = segments_lib.draw_segments(rng, [cuts[i] for i in some])
        packed = graphs.items(
            numbers[np.newaxis], drawn.configs[np.newaxis], kept[np.newaxis]
        )
        yield loop.Chunk(packed, 1)


class _Validator:
    """Tau, OPA and loss on configurations drawn once and kept for all epochs.

    Up to --validation_configs of each program, uniformly: the published
    protocol, which fixes 1,000 of them.
    """

    def __init__(self, scorer, programs, store, config, loss, batch):
        self._scorer, self._loss, self._per_loss = scorer, loss, config.configs
        count = store.num_graphs if store.has_runtimes else 0
        if config.validate_batches >= 0:
            count = min(count, config.validate_batches * batch)
        rng = np.random.default_rng([config.seed, 2**32 - 1])
        self._programs = []
        for number in range(count):
            program = programs[number]
            chosen = rng.permutation(program.num_configs)
            self._programs.append(
                layout.subset(program, chosen[: config.validation_configs])
            )

    def __call__(self) -> loop.Validation:
        pairs = [
            (self._scorer.score(program), program.runtimes)
            for program in self._programs
        ]
        if not pairs:
            return loop.Validation(None, None)
        correct, total = np.sum(
            [metrics.ordered_pairs(*pair) for pair in pairs], axis=0
        )
        taus = np.nan_to_num([metrics.kendall_tau(*pair) for pair in pairs])
        return loop.Validation(
            self._loss_of(pairs),
            float(correct / total) if total else None,
            float(np.mean(taus)),
        )

    def _loss_of(self, pairs):
        lists = [
            (
                runtimes[: self._per_loss] / graphs_lib.RUNTIME_SCALE,
                scores[: self._per_loss],
            )
            for scores, runtimes in pairs
            if len(scores) >= self._per_loss
        ]
        if not lists:
            return None
        labels, scores = (np.stack(part) for part in zip(*lists))
        return float(self._loss(labels.astype(np.float32), scores))


def _finish(config, state, scorer, model, stores, programs, more) -> str:
    """Measures validation, ranks test, and writes the run."""
    final_error: Dict[str, Any] = {'val': None, 'test': None}
    if stores['valid'].has_runtimes:
        scored = _scored(scorer, programs['valid'], 'measuring validation')
        final_error['val'] = _measured(scored, programs['valid'])
    scored = _scored(scorer, programs['test'], 'ranking test')
    if config.test_mode == 'metrics':
        final_error['test'] = _measured(scored, programs['test'])
    for split, found in final_error.items():
        if found:
            slowdowns = ' / '.join(f'{found[str(k)]:.4f}' for k in _SLOWDOWNS)
            print(
                f'{split} tau: {found["kendall_tau"]:.4f}; '
                f'slowdown@1/10/100: {slowdowns}'
            )
    rows = [
        submission.layout_row(
            config.source,
            config.search,
            programs['test'][i].graph_id,
            metrics.best_first(scores),
        )
        for i, scores in enumerate(scored)
    ]
    return training.save(
        config,
        model,
        state,
        stores,
        rows,
        final_error,
        more,
        f'_{config.source}_{config.search}',
    )


def _scored(scorer, programs, title) -> List[np.ndarray]:
    bar = training.with_bar(range(len(programs)), len(programs), title, 'program')
    return [scorer.score(programs[number]) for number in bar]


def _measured(scored, programs) -> Dict[str, float]:
    """Mean tau and slowdowns over programs."""
    rows = []
    for number, scores in enumerate(scored):
        runtimes = programs[number].runtimes
        row = {'kendall_tau': np.nan_to_num(metrics.kendall_tau(scores, runtimes))}
        for k in _SLOWDOWNS:
            row[str(k)] = metrics.slowdown(scores, runtimes, k)
        rows.append(row)
    return {key: float(np.mean([row[key] for row in rows])) for key in rows[0]}
