"""What the trainings of both collections share around the loop: resuming,
keeping the state after every epoch, and writing the run at the end."""

import dataclasses
import os
import platform
import time
from typing import Any, Dict, Iterable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn
import tqdm

from baselines import config as config_lib
from baselines import files
from baselines.data import folds
from baselines.data import variants
from baselines.ranking import submission
from baselines.training import loop
from baselines.training import optimisation
from baselines.training import runs


def with_bar(items: Iterable, total: int, title: str, unit: str) -> Iterable:
    """Yields `items` under a progress bar, on a terminal."""
    return tqdm.tqdm(
        items, total=total, desc=title, unit=unit, leave=False, disable=None
    )


def count_weights(model: tf.keras.Model) -> int:
    """Number of trainable numbers in a model."""
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)


def check_settings(config: Any) -> None:
    """Checks what needs no data, and that there is a place for the results.

    Raises:
        ValueError: a flag is malformed, or there is no such place; names it.
    """
    optimisation.parse_averaging(config.averaging)
    folds.parse(config.fold)
    runs.check_writable(config.out_dir)
    if config.results_csv:
        runs.check_file_writable(config.results_csv, 'results_csv')


def check_splits(config: Any, stores: Dict[str, Any]) -> None:
    """Checks that splits belong together and hold what the settings ask for.

    Raises:
        ValueError: their columns differ, the training split has no runtimes,
            or --test_mode=metrics finds none in the test split.
    """
    train, test = stores['train'], stores['test']
    variant = variants.Variant.of(train)
    for store in stores.values():
        variant.check(store, f'is in {train.source}')
    if not train.has_runtimes:
        raise ValueError(f'{train.source}: all runtimes are 0; nothing to learn')
    if config.test_mode == 'metrics' and not test.has_runtimes:
        raise ValueError(
            f'--test_mode=metrics: all runtimes in {test.source} are 0, as they '
            'are in the published test files; use --test_mode=predictions'
        )


def trainable(store: Any, chosen: np.ndarray, configs: int, most: int) -> np.ndarray:
    """Returns the graphs to train on, `chosen`, if there are any.

    Raises:
        ValueError: there are none.
    """
    if not len(chosen):
        raise ValueError(
            f'{store.source}: nothing has --configs={configs} configurations to '
            f'draw; the most is {most}'
        )
    return chosen


def batch_size(config: Any, count: int, what: str) -> int:
    """Returns --batch, or less where there are only `count`, and says so."""
    if count < config.batch:
        print(
            f'note: {count} training {what} have at least {config.configs} '
            f'configurations, fewer than --batch={config.batch}; training on '
            f'batches of {count}'
        )
    return min(config.batch, count)


def optimisation_of(config: Any, steps_per_epoch: int) -> optimisation.Optimisation:
    """The optimiser's settings among those of a training."""
    return optimisation.Optimisation(
        lr=config.lr,
        clip_norm=config.clip_norm,
        clip=config.clip,
        weight_decay=config.weight_decay,
        schedule=config.schedule,
        warmup=config.warmup,
        averaging=config.averaging,
        total_steps=config.epochs * steps_per_epoch,
    )


def checkpoint_of(config: Any, stores: Dict[str, Any]) -> runs.Checkpoint:
    """Where the unfinished run of these settings and data is kept."""
    key = config_lib.training_key(
        config, stores['train'].fingerprint, stores['valid'].fingerprint
    )
    return runs.Checkpoint(os.path.join(config.out_dir, f'unfinished_{key}.npz'))


def keep(checkpoint: runs.Checkpoint, trainer: loop.Trainer, state: loop.State) -> None:
    """Writes everything that it takes to go on after this epoch."""
    arrays = {f'now_{i:04d}': w for i, w in enumerate(trainer.state())}
    arrays.update({f'best_{i:04d}': w for i, w in enumerate(state.best_weights)})
    described = dataclasses.asdict(dataclasses.replace(state, best_weights=[]))
    checkpoint.write(arrays, described)


def restored(
    config: Any, checkpoint: runs.Checkpoint, trainer: loop.Trainer
) -> loop.State:
    """The state to go on from: that of an interrupted run, or a new one.

    Raises:
        ValueError: the file is damaged, or of other code.
    """
    if not config.resume:
        if os.path.exists(checkpoint.path):
            print(
                'note: a run of these settings was interrupted; --resume would '
                'go on with it.  Starting anew'
            )
        return loop.State()
    kept = checkpoint.read()
    if kept is None:
        print(
            'note: --resume: there is no interrupted run of these settings '
            f'in {config.out_dir}; starting anew'
        )
        return loop.State()
    arrays, described = kept
    now, best = (
        [arrays[key] for key in sorted(arrays) if key.startswith(part)]
        for part in ('now_', 'best_')
    )
    try:
        trainer.restore(now)
        state = loop.State(**{**described, 'best_weights': best})
    except (TypeError, ValueError) as error:
        raise ValueError(
            f'{checkpoint.path} does not fit this code ({error}); delete it to '
            'start anew'
        ) from None
    print(f'resuming after epoch {state.epochs_done}')
    return state


def save(
    config: Any,
    model: tf.keras.Model,
    state: loop.State,
    stores: Dict[str, Any],
    rows: Sequence[submission.Row],
    final_error: Dict[str, Any],
    more: Dict[str, Any],
    csv_suffix: str = '',
) -> str:
    """Writes the run and the ranking of the test split, and says where.

    Args:
        config: the settings.
        model: with the best epoch's weights.
        state: the curves.
        stores: the splits, by name.
        rows: the ranking.
        final_error: by split; None where it was not measured.
        more: what else prediction needs (normaliser, num_ops, ...).
        csv_suffix: ends the default name of the CSV.

    Returns:
        The model directory.
    """
    info = {
        # The data root in full: predictions may be made from another folder.
        'args': {
            **config_lib.to_json(config),
            'data_root': files.expand(config.data_root),
        },
        'train_curve': state.curve,
        'best_epoch': state.best_epoch,
        'final_error': final_error,
        'test_predictions': {row.id: list(row.configs) for row in rows},
        'seed': config.seed,
        'data_fingerprint': {k: s.fingerprint for k, s in stores.items()},
        'simulated_data': config.sample_data,
        **variants.Variant.of(stores['train']).to_json(),
        'versions': versions(),
        **more,
    }
    path = config.results_csv or os.path.join(
        config.out_dir, f'results_{time.time_ns() // 1_000_000}{csv_suffix}.csv'
    )
    model_dir = runs.save(config.out_dir, runs.new_hash(), model, info)
    submission.write_predictions(path, rows)
    print(
        f'model:   {model_dir}\nrun:     {runs.run_file(model_dir)}\n'
        f'ranking: {files.expand(path)}'
    )
    return model_dir


def versions() -> Dict[str, str]:
    """Versions of what a result depends on."""
    return {
        'python': platform.python_version(),
        'tensorflow': tf.__version__,
        'tensorflow_gnn': tfgnn.__version__,
        'numpy': np.__version__,
    }
