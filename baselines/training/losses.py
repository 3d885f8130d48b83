"""Losses by name: 'ListMLELoss:1,MSE:0.02'.

Scores and labels are [kernels, configurations]; a label is a runtime, so the
losses push slow configurations up, and the lowest score is the fastest.
"""

import functools
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
        'ListMLELoss': lambda: functools.partial(
            list_mle, temperature=temperature),
        'PairwiseHingeLoss': lambda: ranking.PairwiseHingeLoss(
            temperature=temperature
        ),
        'MSE': tf.keras.losses.MeanSquaredError,
    }


def list_mle(
    labels: tf.Tensor, scores: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """ListMLE (Xia et al., ICML 2008): how unlikely the true order is.

        mean over lists of sum_i (log sum_{j >= i} exp(s_j) - s_i)

    with scores s sorted by falling label; equal labels come in random order.
    The value is that of TensorFlow Ranking's ListMLELoss, which takes the
    logarithm of a sum that underflows, and is infinite, where scores lie more
    than 88 apart: long trainings get there.

    Args:
        labels: float32 [lists, n].
        scores: float32 [lists, n].
        temperature: divides the scores.

    Returns:
        A float32 scalar.
    """
    (ordered,) = tfr.utils.sort_by_scores(
        labels, [scores / temperature], shuffle_ties=True, seed=37)
    rest = tf.math.cumulative_logsumexp(ordered, axis=1, reverse=True)
    return tf.reduce_mean(tf.reduce_sum(rest - ordered, axis=1))


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
