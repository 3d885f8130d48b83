"""Losses by name, from TensorFlow Ranking: 'ListMLELoss:1,MSE:0.02'.

Scores and labels are [kernels, configurations]; a label is a runtime, so the
losses push slow configurations up, and the lowest score is the fastest.
"""

import math
from typing import Callable, Dict, List, Tuple

import tensorflow as tf
import tensorflow_ranking as tfr

from baselines import registry

# What the published training divides scores by, in the ranking losses only.
TILE_TEMPERATURE = 10.0

_Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def _by_name(temperature: float) -> Dict[str, Callable[[], _Loss]]:
    ranking = tfr.keras.losses
    return {
        'ListMLELoss': lambda: ranking.ListMLELoss(temperature=temperature),
        'PairwiseHingeLoss': lambda: ranking.PairwiseHingeLoss(
            temperature=temperature
        ),
        'MSE': tf.keras.losses.MeanSquaredError,
    }


class CombinedLoss(tf.keras.losses.Loss):
    """A weighted mean of losses.

        loss = sum_i w_i loss_i / sum_i w_i

    Args:
        spec: names and weights, such as 'ListMLELoss:1,MSE:0.02'; a weight
            that is not given is 1.
        temperature: divides the scores in the ranking losses, not in MSE.

    Example:
        loss = CombinedLoss('ListMLELoss:1,MSE:0.02')
        value = loss(labels, scores)

    Raises:
        ValueError: a name is unknown or there twice, or a weight is not a
            positive number.
    """

    def __init__(self, spec: str, temperature: float = TILE_TEMPERATURE):
        super().__init__(name='combined_loss')
        parts = _parse(spec)
        total = sum(weight for _, weight in parts)
        makers = _by_name(temperature)
        self._parts: List[Tuple[float, _Loss]] = [
            (weight / total, registry.resolve(name, makers, 'loss')())
            for name, weight in parts
        ]

    def call(self, y_true, y_pred):
        return tf.add_n([w * loss(y_true, y_pred) for w, loss in self._parts])


def _parse(spec: str) -> List[Tuple[str, float]]:
    parts: Dict[str, float] = {}
    for entry in spec.split(','):
        name, colon, text = entry.strip().partition(':')
        try:
            weight = float(text) if colon else 1.0
        except ValueError:
            weight = math.nan
        if not (0 < weight < math.inf):
            raise ValueError(
                f'--losses: the weight of {name!r} in {spec!r} should be a '
                f'positive number, not {text!r}'
            )
        if name in parts:
            raise ValueError(f'--losses: {name!r} stands twice in {spec!r}')
        parts[name] = weight
    return list(parts.items())
