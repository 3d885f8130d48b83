"""How weights move: learning-rate schedule, decay, clipping and averaging.

settings = Optimisation(lr=1e-3, schedule='cosine', warmup=0.05,
                        averaging='ema:0.999', total_steps=10_000)
"""

import contextlib
import dataclasses
import math
from typing import List, Sequence, Tuple

import numpy as np
import tensorflow as tf


@dataclasses.dataclass(frozen=True)
class Optimisation:
    """Settings of the optimiser.

    Attributes:
        lr: highest learning rate of Adam (Kingma & Ba, ICLR 2015).
        clip_norm: gradients are scaled down to this L2 norm.
        clip: 'variable': each variable's gradient, as published; 'global': all
            gradients together, by one factor.
        weight_decay: AdamW (Loshchilov & Hutter, ICLR 2019): before each step
            matrices shrink by this times the learning rate; 0 is plain Adam.
        schedule: 'constant', or 'cosine': half a cosine wave from `lr` to 0.
        warmup: share of all steps in which the rate climbs linearly from 0.
        averaging: '', 'ema:decay' or 'swa:start', see `parse_averaging`.
        total_steps: of the whole training; schedules need it.
    """

    lr: float = 1e-3
    clip_norm: float = 1e-3
    clip: str = 'variable'
    weight_decay: float = 0.0
    schedule: str = 'constant'
    warmup: float = 0.0
    averaging: str = ''
    total_steps: int = 1

    def rate(self):
        """The learning rate: a number, or a Keras schedule."""
        warm = round(self.warmup * self.total_steps)
        if self.schedule == 'constant' and not warm:
            return self.lr
        if self.schedule == 'constant':
            # A wave that does not fall: alpha is its end, as a share of lr.
            return self._wave(1, warm, alpha=1.0)
        return self._wave(max(self.total_steps - warm, 1), warm, alpha=0.0)

    def _wave(self, steps: int, warm: int, alpha: float):
        return tf.keras.optimizers.schedules.CosineDecay(
            initial_learning_rate=0.0 if warm else self.lr,
            decay_steps=steps,
            alpha=alpha,
            warmup_target=self.lr if warm else None,
            warmup_steps=warm,
        )

    def adam(self) -> tf.keras.optimizers.legacy.Optimizer:
        """Adam without the decay, which `decay` applies."""
        clip = {'variable': 'clipnorm', 'global': 'global_clipnorm'}[self.clip]
        # The legacy class updates a variable in one fused operation; the newer
        # one in ten, and small models are bounded by the number of operations.
        return tf.keras.optimizers.legacy.Adam(self.rate(), **{clip: self.clip_norm})

    def decay(self, optimizer, variables: Sequence[tf.Variable]) -> None:
        """Shrinks matrices, as the step that is about to be taken wants it."""
        if not self.weight_decay:
            return
        rate = optimizer._decayed_lr(tf.float32)
        for variable in variables:
            if variable.shape.rank > 1:
                variable.assign(variable * (1.0 - rate * self.weight_decay))


def parse_averaging(text: str) -> Tuple[str, float]:
    """Reads --averaging.

    Args:
        text: ''; 'ema:d', an exponential moving average with decay d per step;
            or 'swa:s' (stochastic weight averaging, Izmailov et al., UAI 2018),
            the mean of all weights since the share s of the training.

    Returns:
        ('', 'ema' or 'swa', and the number).

    Raises:
        ValueError: it is none of these.
    """
    if not text:
        return '', 0.0
    kind, _, number = text.partition(':')
    try:
        value = float(number)
    except ValueError:
        value = math.nan
    if kind not in ('ema', 'swa') or not 0 <= value < 1:
        raise ValueError(
            '--averaging should be empty, ema:<decay> such as ema:0.999, or '
            f'swa:<start> such as swa:0.75, both below 1; not {text!r}'
        )
    return kind, value


class Averager:
    """A running average of weights, updated after every step.

    Args:
        variables: what to average.
        averaging: see `parse_averaging`; '' makes `averaged` the identity.
        total_steps: of the whole training.
    """

    def __init__(
        self, variables: Sequence[tf.Variable], averaging: str, total_steps: int
    ):
        self._kind, self._value = parse_averaging(averaging)
        self._start = round(self._value * total_steps)
        self._variables = list(variables) if self._kind else []
        self._averages = [tf.Variable(v, trainable=False) for v in self._variables]

    def update(self, step: tf.Tensor) -> None:
        """Takes in the weights after step `step` (int, the first is 1)."""
        if not self._kind:
            return
        step = tf.cast(step, tf.float32)
        if self._kind == 'ema':
            # While few weights have been seen, the first do not count for more.
            share = 1.0 - tf.minimum(self._value, step / (9.0 + step))
        else:
            share = 1.0 / tf.maximum(step - self._start, 1.0)
        for average, variable in zip(self._averages, self._variables):
            average.assign_add(share * (variable - average))

    @contextlib.contextmanager
    def averaged(self):
        """Within it the variables hold their averages."""
        kept = [v.numpy() for v in self._variables]
        for variable, average in zip(self._variables, self._averages):
            variable.assign(average)
        try:
            yield
        finally:
            for variable, value in zip(self._variables, kept):
                variable.assign(value)

    def state(self) -> List[np.ndarray]:
        """The averages, for `restore`."""
        return [v.numpy() for v in self._averages]

    def restore(self, state: Sequence[np.ndarray]) -> None:
        """Puts back what `state` returned."""
        if len(state) != len(self._averages):
            raise ValueError(f'{len(state)} averages for {len(self._averages)} weights')
        for variable, value in zip(self._averages, state):
            variable.assign(value)
