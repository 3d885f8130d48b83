"""The training loop and its validation.  File access is left to the caller.

state = Trainer(model, loss, settings, scorer).fit(data)
"""

from collections.abc import Sequence
import dataclasses
import math
import time

import numpy as np
import tensorflow as tf
import tqdm

from baselines import config
from baselines.core import arrays
from baselines.core import phases
from baselines.core import text
from baselines.tasks import protocol
from baselines.training import devices as devices_lib
from baselines.training import progress
from baselines.training import steps as steps_lib
from baselines.training import task_data

_LONG = 10.0  # seconds after which a terminal shows a bar
_IGNORES = (
    '{} gives all configurations of a graph the same score after an epoch: its '
    'scores do not depend on the features of configurations'
)
_UNMEASURED = progress.Validation(None, None)


class Validator:
    """Measures a model on configurations that are drawn once for all epochs.

    OPA over a few configurations per graph that are redrawn each epoch varies by more
    than an epoch's progress.  Here it is over the same --validation_configs of each
    graph in every epoch.

    Attributes:
        ignores_configs: True where the scores measured last are equal in every list of
            configurations that differ in features.
    """

    ignores_configs = False

    def __init__(
        self,
        data: task_data.TaskData,
        loss: tf.keras.losses.Loss,
        scorer: protocol.Scorer,
    ):
        self._data = data
        self._loss = loss
        store, chosen = data.stores['valid'], data.validated
        self._labels = [store.labels(n)[configs] for n, configs in enumerate(chosen)]
        self._score = scorer.chosen(data.graphs['valid'], chosen)
        # Lists of equal configurations do not tell whether a model ignores them.
        differ = [data.has_choice(n, configs) for n, configs in enumerate(chosen)]
        self._with_choice = np.flatnonzero(differ)

    def measure(self) -> progress.Validation:
        """Measures the model with its current weights."""
        if not self._labels:
            return _UNMEASURED
        count, noun = len(self._labels), self._data.stores['valid'].noun
        scored = phases.each(self._score(), 'validating', count, noun, _LONG)
        pairs = list(zip(scored, self._labels))
        self.ignores_configs = len(self._with_choice) > 0 and all(
            arrays.are_scores_equal(pairs[graph][0]) for graph in self._with_choice
        )
        measured = self._data.measure_validation(pairs)
        return dataclasses.replace(measured, loss=self._get_loss(pairs))

    def _get_loss(self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]) -> float | None:
        """Computes the training loss on the first `configs` entries of each list."""
        configs = self._data.settings.configs
        # As long as the lists of the training: a loss may grow with the length.
        lists: list[tuple[np.ndarray, np.ndarray]] = [
            (labels[:configs] / self._data.label_scale, scores[:configs])
            for scores, labels in pairs
            if len(scores) >= configs
        ]
        if not lists:
            return None
        labels, scores = (np.stack(part) for part in zip(*lists))
        return float(self._loss(labels.astype(np.float32), scores))


@dataclasses.dataclass(eq=False, repr=False)
class Trainer:
    """Fits a graph model by gradient descent.

    Attributes:
        model: a built model: `model(graph, training=True)` gives scores.
        loss: (labels, scores) -> scalar.
        scorer: scores graphs with `model`.
        devices: the replicas' devices; by default one replica in this process.
        replica: with several devices, a copy of the model that was made in their
            scope; it is trained, and `model` gets its weights.
        validate_first: True to validate the initial weights, too, which come from
            a run or a formula, and to keep them if no epoch is better.
    """

    model: tf.keras.Model
    loss: tf.keras.losses.Loss
    settings: config.AnyConfig
    scorer: protocol.Scorer
    devices: devices_lib.Devices = dataclasses.field(
        default_factory=devices_lib.Devices
    )
    replica: tf.keras.Model | None = None
    validate_first: bool = False

    def fit(
        self,
        data: task_data.TaskData,
        state: progress.State | None = None,
        after_epoch: progress.AfterEpoch = lambda state: None,
    ) -> progress.State:
        """Trains until the validation score stops rising.

        It stops after --early_stop epochs, of at least `data.patience_steps` steps,
        without a better score.  An epoch's draws depend on its number alone, so that a
        resumed training repeats them.

        Returns:
            The state; the model has the weights of the best epoch.

        Raises:
            ValueError: the loss or a score is not finite.
            MisfitError: the state belongs to another model.
        """
        settings, state = self.settings, state or progress.State()
        steps, validator = self.compile_steps(data), self.make_validator(data)
        write = tqdm.tqdm.write if self.devices.is_chief else lambda line: None
        # Steps -> epochs, rounded up: few graphs make an epoch of few steps.
        epochs_of_steps = -(-data.patience_steps // max(data.steps_per_epoch, 1))
        patience = max(settings.early_stop, epochs_of_steps)
        done = state.epochs_done
        if state.variables:
            try:
                steps.restore_state(state.variables)
            except ValueError as error:
                raise progress.MisfitError(str(error)) from None
        if self.validate_first and not done:
            score = self._validate(validator).score
            if score is not None:
                state.best_score, state.best_weights = score, steps.model.get_weights()
        then = ', then trees' * settings.trees
        with progress.Progress(write, settings.epochs, patience, then) as shown:
            for epoch in range(done, settings.epochs):
                if state.best_weights and epoch - state.best_epoch > patience:
                    break
                started = time.monotonic()
                trained = self._train_epoch(steps, data, epoch)
                seconds = time.monotonic() - started
                with steps.use_averages():
                    measured = self._validate(validator)
                    weights = steps.model.get_weights()
                # An epoch later: weights that began at 0 have changed by then.
                if validator.ignores_configs and not epoch:
                    raise ValueError(_IGNORES.format(settings.model))
                validated = time.monotonic() - started - seconds
                row = (epoch, *trained, measured.loss, measured.opa, seconds, validated)
                is_better = state.add_epoch(row, measured, weights)
                state.variables = steps.get_state()
                after_epoch(state)  # first: an epoch that is shown is saved
                shown.show_epoch(state.curve, is_better)
        if state.best_weights:
            is_early = state.epochs_done < settings.epochs
            write(progress.format_last_line(state, patience if is_early else 0))
            steps.set_weights(state.best_weights)
        self._take_weights()
        return state

    def count_weights(self) -> int:
        """Counts the numbers that are trained."""
        return sum(int(np.prod(v.shape)) for v in self.model.trainable_variables)

    def compile_steps(self, data: task_data.TaskData) -> steps_lib.Steps:
        """Compiles the steps on the model, or on its replica."""
        if self.replica is not None:
            # The model itself is not trained, and Keras cannot save it before a call.
            tf.function(
                lambda packed: self.model(data.unpack(packed, 0, data.batch)[0]),
                input_signature=[data.make_signature()],
            ).get_concrete_function()
        share = self.devices.divide_batch(data.batch)
        return steps_lib.Steps(
            self.replica or self.model,
            self.loss,
            self.settings,
            lambda packed, step: data.unpack(packed, step, share),
            data.make_signature(),
            self.settings.epochs * data.steps_per_epoch,
            self.devices,
        )

    def make_validator(self, data: task_data.TaskData) -> Validator:
        """Prepares to measure the model after each epoch."""
        return Validator(data, self.loss, self.scorer)

    def _validate(self, validator: Validator) -> progress.Validation:
        """Measures the current model, in the chief for all processes."""
        measured = _UNMEASURED
        if self.devices.is_chief:
            self._take_weights()
            measured = validator.measure()
        if not self.devices.is_distributed:
            return measured
        # A tensor holds no None, so NaN travels in its place.
        values = [math.nan if x is None else x for x in dataclasses.astuple(measured)]
        agreed = self.devices.broadcast_values(values)
        defined = (None if math.isnan(x) else float(x) for x in agreed)
        return progress.Validation(*defined)

    def _take_weights(self) -> None:
        """Copies the weights learned by the replicas to the model that scores."""
        if self.replica is not None:
            self.model.set_weights(self.replica.get_weights())

    def _train_epoch(
        self, steps: steps_lib.Steps, data: task_data.TaskData, epoch: int
    ) -> tuple[float, float | None]:
        """Takes the steps of an epoch; returns its mean loss and its OPA."""
        added, done = np.zeros(3), 0  # loss, pairs in the right order, pairs
        # Scored with these, a graph that makes the loss infinite is found and named.
        weights = steps.model.get_weights()
        title = f'epoch {epoch + 1}/{self.settings.epochs}'
        with phases.Phase(title, data.steps_per_epoch, 'step', delay=_LONG) as phase:
            for drawn in data.draw_steps(epoch):
                count = len(drawn[0])
                packed = data.pack(*self.devices.take_share(*drawn))
                try:
                    added += steps.run_chunk(packed, count)
                except steps_lib.LossError:
                    steps.set_weights(weights)
                    self._take_weights()
                    self._require_finite_scores(data, np.unique(drawn[0]))
                    raise  # all scores are finite, and the loss is not
                loss, correct, total = added.tolist()
                done += count
                opa = correct / total if total else None
                means = progress.show_value(loss / done), progress.show_value(opa)
                phase.set_remark(f'loss {means[0]}, OPA {means[1]}')
                phase.update(count)
        return loss / done, opa

    def _require_finite_scores(
        self, data: task_data.TaskData, graphs: np.ndarray
    ) -> None:
        """Raises ValueError for a training graph whose scores are not finite."""
        sizes = np.diff(data.stores['train'].node_offsets)
        for graph in graphs:  # one by one, so that the error names it and its size
            where = f'the loss is not finite: a graph of {sizes[graph]:,} nodes'
            with text.locate_errors(where):
                list(self.scorer.scores(data.graphs['train'], graph[None]))
