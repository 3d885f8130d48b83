"""Losses by name: 'ListMLELoss:1,MSE:0.02'.

Scores and labels are [kernels, configurations]; a label is a runtime, so the
losses push slow configurations up, and the lowest score is the fastest.

    ListMLELoss            likelihood of the true order, slowest first
    FastestListMLELoss     the same, fastest first: errors at the top cost most
    PairwiseHingeLoss      max(0, 1 - (s_i - s_j)) over pairs with y_i > y_j
    PairwiseLogisticLoss   log(1 + exp(s_j - s_i)) over the same pairs
    NoiseAwarePairLoss     the same, weighted by how far the runtimes differ;
                           pairs within the noise do not count
    PairwiseDifferenceLoss the difference of scores against that of log runtimes
    SoftmaxLoss            cross-entropy with relevance = fastest / runtime
    ApproxNDCGLoss         smooth NDCG with that relevance
    MSE                    (score - label)^2
"""

import functools
import math
from typing import Callable, Dict, List, Tuple

import tensorflow as tf
import tensorflow_ranking as tfr

from baselines import registry

# What the published training divides scores by, in the ranking losses only.
TILE_TEMPERATURE = 10.0

# Repeated measurements of one configuration differ by less than this share.
NOISE = 0.01

_Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]


def _by_name(temperature: float) -> Dict[str, Callable[[], _Loss]]:
    ranking = tfr.keras.losses
    return {
        'ListMLELoss': lambda: functools.partial(list_mle, temperature=temperature),
        'FastestListMLELoss': lambda: functools.partial(
            fastest_list_mle, temperature=temperature
        ),
        'PairwiseHingeLoss': lambda: ranking.PairwiseHingeLoss(temperature=temperature),
        'PairwiseLogisticLoss': lambda: ranking.PairwiseLogisticLoss(
            temperature=temperature
        ),
        'NoiseAwarePairLoss': lambda: functools.partial(
            noise_aware_pairs, temperature=temperature
        ),
        'PairwiseDifferenceLoss': lambda: pairwise_difference,
        'SoftmaxLoss': lambda: _of_relevance(
            ranking.SoftmaxLoss(temperature=temperature)
        ),
        'ApproxNDCGLoss': lambda: _of_relevance(
            ranking.ApproxNDCGLoss(temperature=temperature)
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
        labels, [scores / temperature], shuffle_ties=True, seed=37
    )
    rest = tf.math.cumulative_logsumexp(ordered, axis=1, reverse=True)
    return tf.reduce_mean(tf.reduce_sum(rest - ordered, axis=1))


def fastest_list_mle(
    labels: tf.Tensor, scores: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """ListMLE of the order from the fastest on: `list_mle` of both negated."""
    return list_mle(-labels, -scores, temperature)


def noise_aware_pairs(
    labels: tf.Tensor, scores: tf.Tensor, temperature: float = 1.0
) -> tf.Tensor:
    """Logistic loss of pairs, each as important as its runtimes differ.

        w_ij = min(log(y_i / y_j), 1)  if y_i > 1.01 y_j, else 0
        mean over lists of sum_ij w_ij log(1 + exp(s_j - s_i)) / sum_ij w_ij

    Measurements of one configuration differ by less than NOISE = 1 %: the order
    of a pair that is closer says nothing.  A list without any other is 0.

    Args:
        labels: float32 [lists, n], positive.
        scores: float32 [lists, n].
        temperature: divides the scores.

    Returns:
        A float32 scalar.
    """
    ratios = _differences(_log(labels))
    weights = tf.where(
        ratios > math.log1p(NOISE), tf.minimum(ratios, 1.0), tf.zeros_like(ratios)
    )
    losses = tf.nn.softplus(-_differences(scores / temperature))
    per_list = tf.math.divide_no_nan(
        tf.reduce_sum(weights * losses, axis=[1, 2]),
        tf.reduce_sum(weights, axis=[1, 2]),
    )
    return tf.reduce_mean(per_list)


def pairwise_difference(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Regression of all differences within a list, blind to NOISE.

        mean over pairs of max(0, |(s_i - s_j) - log(y_i / y_j)| - NOISE)

    The score becomes the logarithm of the runtime but for a constant.

    Args:
        labels: float32 [lists, n], positive.
        scores: float32 [lists, n].

    Returns:
        A float32 scalar.
    """
    errors = tf.abs(_differences(scores) - _differences(_log(labels)))
    return tf.reduce_mean(tf.nn.relu(errors - NOISE))


def _differences(x: tf.Tensor) -> tf.Tensor:
    """x_i - x_j: [lists, n] -> [lists, n, n]."""
    return x[:, :, tf.newaxis] - x[:, tf.newaxis, :]


def _log(labels: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(labels, 1e-30))


def _of_relevance(loss: _Loss) -> _Loss:
    """A loss that wants high scores for the relevant, given runtimes."""

    def on_runtimes(labels, scores):
        labels = tf.maximum(labels, 1e-30)
        fastest = tf.reduce_min(labels, axis=1, keepdims=True)
        return loss(fastest / labels, -scores)

    return on_runtimes


class CombinedLoss(tf.keras.losses.Loss):
    """A weighted mean of losses.

        loss = sum_i w_i loss_i / sum_i w_i

    Args:
        spec: names and weights, such as 'ListMLELoss:1,MSE:0.02'; a weight
            that is not given is 1.
        temperature: divides the scores in the ranking losses, not in MSE and
            PairwiseDifferenceLoss, which say what a score is.

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
