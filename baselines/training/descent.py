"""A graph model of a training, made better step by step."""

import dataclasses
import math
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, Sequence, Tuple

import numpy as np
import tensorflow as tf
import tqdm

from baselines.data import families
from baselines.evaluation import metrics
from baselines.runs import saved
from baselines.training import checkpoints
from baselines.training import loop
from baselines.training import losses
from baselines.training import optimisation


class Descent:
    """Fits the graph model of a training by gradient descent.

    Attributes:
        trainer: takes the steps; what `resuming` keeps.

    Args:
        job: the training: its data, how its graphs are packed, and where the model
            goes.
        kwargs: options of the model.

    Raises:
        ValueError: as `Task.make_model`.
    """

    def __init__(self, job: Any, kwargs: Mapping[str, Any]):
        self._job, config = job, job.config
        noise = losses.noise_share(job.relative_noise())
        self._loss = losses.CombinedLoss(
            config.losses, job.temperature, noise, job.extras.losses
        )
        self._batch = self._batch_size()
        self._steps = job.steps_of(len(job.chosen), self._batch)
        share = job.devices.batch(self._batch)
        job.model = trained = self._new_model(kwargs)
        if job.start:
            saved.read_weights(job.start.run, job.model)
        if job.devices.is_distributed:
            with job.devices.scope():
                trained = self._new_model(kwargs)
                # Before averages of the weights begin.
                trained.set_weights(job.model.get_weights())
        job.packer = job.inputs(job.graphs['train'])
        self.trainer = loop.Trainer(
            trained,
            self._loss,
            optimisation.Optimiser(config, config.epochs * self._steps),
            lambda packed, step: job.unpack(packed, step, share, config.configs),
            job.packer.signature(share),
            job.devices,
        )
        if job.devices.is_distributed:
            self._trace()

    def words(self) -> str:
        """What is trained, for people."""
        return f'{count_weights(self._job.model):,} weights'

    def fit(
        self,
        unfinished: checkpoints.Unfinished,
        after_epoch: Callable[[loop.State], None],
    ) -> Dict[str, Any]:
        """Trains, from where it was interrupted; returns what the run file says."""
        config = self._job.config
        state = loop.fit(
            self.trainer,
            unfinished.state(),
            epochs=config.epochs,
            early_stop=config.early_stop,
            steps_per_epoch=self._steps,
            chunks=self._epochs(),
            validate=self._agreed(self._validator()),
            after_epoch=after_epoch,
            say=tqdm.tqdm.write if self._job.devices.is_chief else lambda line: None,
            patience_steps=getattr(config, 'early_stop_steps', 0),
            known=self._job.start is not None
            or getattr(self._job.model, 'ranks_untrained', False),
        )
        self._take_weights()
        return {'train_curve': state.curve, 'best_epoch': state.best_epoch}

    def _new_model(self, kwargs: Mapping[str, Any]) -> tf.keras.Model:
        job, config = self._job, self._job.config
        return job.make_model(
            config.model,
            kwargs,
            job.extras.models,
            config.configs,
            job.num_ops,
            job.normalizer,
        )

    def _trace(self) -> None:
        """Calls the model that is not trained itself: Keras saves no other."""
        job, batch, configs = self._job, self._batch, self._job.config.configs
        tf.function(
            lambda packed: job.model(job.unpack(packed, 0, batch, configs)[0]),
            input_signature=[job.packer.signature(batch)],
        ).get_concrete_function()

    def _take_weights(self) -> None:
        """Gives the model that scores what the replicas have learned."""
        if self.trainer.model is not self._job.model:
            self._job.model.set_weights(self.trainer.model.get_weights())

    def _agreed(
        self, validate: Callable[[], loop.Validation]
    ) -> Callable[[], loop.Validation]:
        """The same, of which every process has what the chief finds."""
        devices = self._job.devices
        if not devices.is_distributed:
            return validate

        def agreed():
            found = [math.nan] * 4
            if devices.is_chief:
                self._take_weights()
                measured = dataclasses.astuple(validate())
                found = [math.nan if value is None else value for value in measured]
            told = [None if math.isnan(x) else x for x in devices.agree(found)]
            return loop.Validation(*told[:3], error=told[3] or 0.0)

        return agreed

    def _batch_size(self) -> int:
        """Returns --batch, or less where there are fewer graphs, and says so."""
        config, count = self._job.config, len(self._job.chosen)
        if count < config.batch:
            print(
                f'note: {count} training {self._job.unit}s have at least '
                f'{config.configs} configurations,\nfewer than --batch={config.batch}; '
                f'training on batches of {count}'
            )
        return min(config.batch, count)

    def _epochs(self) -> Callable[[int], Iterator[loop.Chunk]]:
        """Each graph once an epoch in random order, but for --family_temperature."""
        job, config = self._job, self._job.config
        ids = job.stores['train'].graph_ids
        names = [families.family(job.program_of(ids[n])) for n in job.chosen]

        def epoch(number: int) -> Iterator[loop.Chunk]:
            rng = np.random.default_rng([config.seed, number])
            order = families.epoch_order(rng, names, config.family_temperature)
            order = np.resize(order, [self._steps, self._batch])
            return job.chunks(rng, job.chosen[order])

        return epoch

    def _validator(self) -> Callable[[], loop.Validation]:
        """Measures configurations drawn once and kept for all epochs.

        OPA over few configurations per graph, newly drawn each epoch, moves by
        more than an epoch's progress.  Here it is over up to
        --validation_configs of each, the same ones every time.
        """
        job, store, chosen = self._job, self._job.stores['valid'], self._job.validated
        labels = [job.labels(store, n)[some] for n, some in enumerate(chosen)]
        score = job.chosen_scores(chosen)

        def validate():
            if not chosen:
                return loop.Validation(None, None)
            pairs = list(zip(score(), labels))
            correct, total = np.sum([metrics.ordered_pairs(*p) for p in pairs], axis=0)
            tau = None
            if job.chosen_by_tau:
                taus = np.nan_to_num([metrics.kendall_tau(*p) for p in pairs])
                tau = float(np.mean(taus))
            opa = float(correct / total) if total else None
            loss, error = self._loss_of(pairs), job.validation_error
            return loop.Validation(loss, opa, tau, error)

        return validate

    def _loss_of(
        self, pairs: Sequence[Tuple[np.ndarray, np.ndarray]]
    ) -> Optional[float]:
        configs = self._job.config.configs
        lists = [
            (labels[:configs] / self._job.label_scale, scores[:configs])
            for scores, labels in pairs
            if len(scores) >= configs
        ]
        if not lists:
            return None
        labels, scores = (np.stack(part) for part in zip(*lists))
        return float(self._loss(labels.astype(np.float32), scores))


def count_weights(model: tf.keras.Model) -> int:
    """Number of trainable numbers in a model."""
    return sum(int(np.prod(v.shape)) for v in model.trainable_variables)
