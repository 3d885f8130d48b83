"""The graph model of a training: checked and made, on one device or several.

graph_model = GraphModel(settings, registry.find_model_class('MLP', 'tile'), {})
trainer = graph_model.make_trainer(data)
state = trainer.fit(data)

A training imports this module, and TensorFlow with it, only if it has a graph model.
"""

import functools

import tensorflow as tf

from baselines import config as config_lib
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.runs import weights
from baselines.scoring import scorer as scorer_lib
from baselines.tasks import lookup
from baselines.training import devices as devices_lib
from baselines.training import loop
from baselines.training import losses
from baselines.training import own_code
from baselines.training import task_data


class GraphModel:
    """The graph model that settings ask for, and the devices that train it.

    Prints the devices that train it.

    Args:
        config: the settings.
        model_class: the class of the model.
        own_losses: functions of the user's by the name that --losses says.
        is_own: whether the class may be the user's, and is tried first.

    Attributes:
        devices: the devices that train it.

    Raises:
        ValueError: there is no such loss or device, or the user's model or loss
            does not work.
    """

    def __init__(
        self,
        config: config_lib.AnyConfig,
        model_class: type,
        own_losses: registry.OwnLosses,
        is_own: bool,
    ):
        self._task = lookup.TASKS[config.collection.task]
        self._class = model_class
        self._loss = make_loss(config, own_losses)
        # Before TensorFlow computes anything.
        self.devices = devices_lib.open_devices(config.strategy)
        if self.devices.is_chief:
            print(devices_lib.describe_machine())
        check_own_losses(self._loss)
        if is_own:
            own_code.check_model(config, model_class, self._loss)
        tf.keras.utils.set_random_seed(config.seed)

    def make_trainer(self, data: task_data.TaskData) -> loop.Trainer:
        """Makes the model, and the trainer that fits it."""
        config = data.settings
        if data.batch < config.batch:
            graphs = text.count(data.batch, f'training {data.stores["train"].noun}')
            print(
                f'note: only {graphs} with at least {config.configs} configurations,\n'
                f'fewer than --batch={config.batch}; '
                f'training on batches of {data.batch}'
            )
        self.devices.divide_batch(data.batch)  # refuses a size that cannot be divided
        kwargs = settings_lib.parse_model_kwargs(config.model_kwargs_json)
        arguments = kwargs, config.configs, data.num_ops, data.normalizer
        make = functools.partial(
            scorer_lib.make_model, self._task, self._class, *arguments
        )
        model, replica = make(), None
        if data.start is not None:
            weights.read_weights(data.start, model)
        elif data.has_prior:
            begin_at_zero(model)
        if self.devices.is_distributed:
            with self.devices.strategy.scope():
                replica = make()
                # Before averages of the weights begin.
                replica.set_weights(model.get_weights())
        budget = getattr(config, 'memory_budget', 0)  # kernels need none
        scorer = self._task.scorer(model, budget, False)
        is_known = data.start is not None or data.has_prior
        return loop.Trainer(
            model, self._loss, config, scorer, self.devices, replica, is_known
        )


def make_loss(
    config: config_lib.AnyConfig, own_losses: registry.OwnLosses
) -> losses.CombinedLoss:
    """Makes the loss of --losses.

    Args:
        own_losses: functions of the user's by name.

    Raises:
        ValueError: there is no such loss.
    """
    temperature = lookup.TASKS[config.collection.task].temperature
    return losses.CombinedLoss(
        config.losses, temperature, config.loss_noise, own_losses
    )


def check_own_losses(loss: losses.CombinedLoss) -> None:
    """Raises ValueError for a loss of the user's that does not work."""
    for name, function in loss.own.items():
        own_code.check_loss(name, function)


def begin_at_zero(model: tf.keras.Model) -> None:
    """Sets the last matrix of one column to 0, so that all scores of the model are 0.

    Scores then begin with the formula alone.  The first step changes this matrix only,
    as the gradients of the layers before it are 0; the second step changes all.

    Raises:
        ValueError: there is no such matrix.
    """
    readouts = [v for v in model.trainable_variables if v.shape[1:] == [1]]  # [h, 1]
    if not readouts:
        raise ValueError(
            f'--estimate: {type(model).__name__} must have a matrix of one column, '
            'which makes its scores; drop --estimate for this model'
        )
    readouts[-1].assign(tf.zeros_like(readouts[-1]))
