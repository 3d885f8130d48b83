"""How weights move: learning-rate schedule, decay, clipping and averaging.

settings = config.Optimisation(schedule='cosine', warmup=0.05, averaging='ema:0.999')
optimiser = Optimiser(settings, total_steps=10_000)
"""

import math
from typing import List, Optional, Sequence

import numpy as np
import tensorflow as tf

from baselines import config
from baselines.training import devices


class Optimiser:
    """Adam (Kingma & Ba, ICLR 2015) and what goes with it.

    --clip=variable, each variable's gradient, is as published.  Weight decay is
    that of AdamW (Loshchilov & Hutter, ICLR 2019): before each step matrices
    shrink by it times the learning rate.  --warmup counts in steps of the whole
    training, before --schedule; cosine is half a cosine wave from --lr to 0.

    Args:
        settings: see `config.Optimisation`.
        total_steps: of the whole training; schedules need it.
    """

    def __init__(self, settings: config.Optimisation, total_steps: int = 1):
        self._settings = settings
        self._total_steps = total_steps

    def rate(self):
        """Returns the learning rate: a number, or a Keras schedule."""
        settings = self._settings
        warm = round(settings.warmup * self._total_steps)
        falls = settings.schedule == 'cosine'
        if not falls and not warm:
            return settings.lr
        return tf.keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warm else settings.lr,
            decay_steps=max(self._total_steps - warm, 1) if falls else 1,
            alpha=0.0 if falls else 1.0,  # where it ends, as a share of lr
            warmup_target=settings.lr if warm else None,
            warmup_steps=warm,
        )

    def adam(self) -> tf.keras.optimizers.legacy.Optimizer:
        """Makes Adam without the decay, which `decay` applies."""
        clip = 'global_clipnorm' if self._settings.clip == 'global' else 'clipnorm'
        # The legacy class updates a variable in one fused operation; the newer
        # one in ten, and small models are bounded by the number of operations.
        return tf.keras.optimizers.legacy.Adam(
            self.rate(), **{clip: self._settings.clip_norm}
        )

    def decay(
        self,
        optimizer: tf.keras.optimizers.legacy.Optimizer,
        variables: Sequence[tf.Variable],
    ) -> None:
        """Shrinks matrices, as the step that is about to be taken wants it."""
        decay = self._settings.weight_decay
        if not decay:
            return
        factor = 1.0 - optimizer._decayed_lr(tf.float32) * decay
        matrices = [v for v in variables if v.shape.rank > 1]
        devices.update(
            lambda v, factor: v.assign(v * factor), matrices, [factor] * len(matrices)
        )

    def averager(self, variables: Sequence[tf.Variable]) -> 'Averager':
        """Makes the running average of variables that --averaging asks for."""
        return Averager(variables, self._settings.averaging)


def parse_averaging(text: str) -> Optional[float]:
    """Reads --averaging.

    Args:
        text: '', or 'ema:d': an exponential moving average with decay d per step.

    Returns:
        The decay; None for no average.

    Raises:
        ValueError: it is neither.
    """
    if not text:
        return None
    kind, _, number = text.partition(':')
    try:
        decay = float(number)
    except ValueError:
        decay = math.nan
    if kind != 'ema' or not 0 <= decay < 1:
        raise ValueError(
            '--averaging should be empty, or ema:<decay> such as ema:0.999, below 1; '
            f'not {text!r}'
        )
    return decay


class Averager:
    """A running average of weights, updated after every step.

    Args:
        variables: what to average.
        averaging: see `parse_averaging`; '' makes `apply` do nothing.
    """

    def __init__(self, variables: Sequence[tf.Variable], averaging: str):
        self._decay = parse_averaging(averaging)
        self._variables = [] if self._decay is None else list(variables)
        self._averages = [tf.Variable(v, trainable=False) for v in self._variables]

    def update(self, step: tf.Tensor) -> None:
        """Takes in the weights after step `step` (int, the first is 1)."""
        if self._decay is None:
            return
        step = tf.cast(step, tf.float32)
        # While few weights have been seen, the first do not count for more.
        share = 1.0 - tf.minimum(self._decay, step / (9.0 + step))
        devices.update(
            lambda average, v, share: average.assign_add(share * (v - average)),
            self._averages,
            self._variables,
            [share] * len(self._averages),
        )

    def apply(self) -> None:
        """Gives the variables their averages."""
        for variable, average in zip(self._variables, self._averages):
            variable.assign(average)

    def state(self) -> List[np.ndarray]:
        """Returns the averages, for `restore`."""
        return [v.numpy() for v in self._averages]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Puts back what `state` returned."""
        if len(state) != len(self._averages):
            raise ValueError(f'{len(state)} averages for {len(self._averages)} weights')
        for variable, value in zip(self._averages, state):
            variable.assign(value)
