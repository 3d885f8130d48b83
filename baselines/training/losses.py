"""Losses by name: 'ListMLELoss:1,MSE:0.02'.

Scores and labels are [lists, n]; a label is a runtime, so the losses push slow
configurations up, and the lowest score is the fastest.  A function of the user's
own is named by its file: 'my_file.py:my_loss:1'; a loss of TensorFlow Ranking, where
that is installed, by its class: 'tfr.ApproxNDCGLoss:1'.

A new loss is one function here, with the decorator `register`: its name there is
what --losses takes, and the first line of its docstring what --help says.  It
takes labels and scores, float32 [lists, n], and returns a float32 scalar.
"""

import importlib.util
import inspect
import math
import re
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Tuple

import tensorflow as tf

from baselines import registry

# What the published training divides scores by, in the ranking losses only.
TILE_TEMPERATURE = 10.0

# Measurements of one configuration differ by less than this share, where the
# data do not say (`noise_share`).
NOISE = 0.01

_Function = Callable[..., tf.Tensor]
_OF_FILE = re.compile(r'.*\.py:')
_RANKING = 'tfr.'  # before the names of TensorFlow Ranking's losses


class _Loss(NamedTuple):
    function: _Function
    tempered: bool
    noisy: bool


_LOSSES: Dict[str, _Loss] = {}


def register(
    name: str, tempered: bool = True, noisy: bool = False
) -> Callable[[_Function], _Function]:
    """Registers a loss.

    Args:
        name: as in --losses.
        tempered: whether the temperature divides its scores; not where the loss
            says what a score is.
        noisy: whether it takes the share by which measurements of one
            configuration may differ, as `noise`.
    """

    def add(function: _Function) -> _Function:
        _LOSSES[name] = _Loss(function, tempered, noisy)
        return function

    return add


def names() -> List[str]:
    """The names that --losses takes."""
    return list(_LOSSES)


@register('ListMLELoss')
def list_mle(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Likelihood of the true order, slowest first (Xia et al., ICML 2008).

        mean over lists of sum_i (log sum_{j >= i} exp(s_j) - s_i)

    with scores s sorted by falling label; equal labels come in random order.
    The value is that of TensorFlow Ranking's ListMLELoss, which takes the
    logarithm of a sum that underflows, and is infinite, where scores lie more
    than 88 apart: long trainings get there.

    Example:
        >>> loss = CombinedLoss('ListMLELoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[1.0, 0.0]]))  # log(e + 1) - 1
        0.3132...
    """
    ordered = _by_falling_label(labels, scores)
    rest = tf.math.cumulative_logsumexp(ordered, axis=1, reverse=True)
    return tf.reduce_mean(tf.reduce_sum(rest - ordered, axis=1))


@register('FastestListMLELoss')
def fastest_list_mle(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Likelihood of the true order, fastest first: errors at the top cost most.

    `list_mle` of both negated.

    Example:
        >>> loss = CombinedLoss('FastestListMLELoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[1.0, 0.0]]))
        0.3132...
    """
    return list_mle(-labels, -scores)


@register('PairwiseHingeLoss')
def pairwise_hinge(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Mean of max(0, 1 - (s_i - s_j)) over pairs with y_i > y_j.

        mean over lists and i of sum_j [y_i > y_j] max(0, 1 - (s_i - s_j))

    The value is that of TensorFlow Ranking's PairwiseHingeLoss.

    Example:
        >>> loss = CombinedLoss('PairwiseHingeLoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[0.5, 0.0]]))  # one pair, two items
        0.25
    """
    return _mean_over_pairs(labels, tf.nn.relu(1.0 - _differences(scores)))


@register('PairwiseLogisticLoss')
def pairwise_logistic(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Mean of log(1 + exp(s_j - s_i)) over pairs with y_i > y_j.

        mean over lists and i of sum_j [y_i > y_j] log(1 + exp(s_j - s_i))

    The value is that of TensorFlow Ranking's PairwiseLogisticLoss; its gradient
    for a pair of equal scores is 0 there, and the derivative, 1/2, here.

    Example:
        >>> loss = CombinedLoss('PairwiseLogisticLoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[0.0, 0.0]]))  # log(2) / 2
        0.3465...
    """
    return _mean_over_pairs(labels, tf.nn.softplus(-_differences(scores)))


@register('NoiseAwarePairLoss', noisy=True)
def noise_aware_pairs(
    labels: tf.Tensor, scores: tf.Tensor, noise: float = NOISE
) -> tf.Tensor:
    """Logistic loss of pairs, weighted by how far they differ, without those in noise.

        w_ij = min(log(y_i / y_j), 1)  if y_i > (1 + noise) y_j, else 0
        mean over lists of sum_ij w_ij log(1 + exp(s_j - s_i)) / sum_ij w_ij

    The order of a pair that is as close as two measurements of one configuration
    says nothing.  A list without any other is 0.

    Example:
        >>> loss = CombinedLoss('NoiseAwarePairLoss', temperature=1)
        >>> float(loss([[3.0, 1.0, 1.005]], [[0.0, 0.0, 0.0]]))  # log(2)
        0.6931...
    """
    ratios = _differences(_log(labels))
    weights = tf.where(
        ratios > math.log1p(noise), tf.minimum(ratios, 1.0), tf.zeros_like(ratios)
    )
    losses = tf.nn.softplus(-_differences(scores))
    per_list = tf.math.divide_no_nan(
        tf.reduce_sum(weights * losses, axis=[1, 2]),
        tf.reduce_sum(weights, axis=[1, 2]),
    )
    return tf.reduce_mean(per_list)


@register('PairwiseDifferenceLoss', tempered=False, noisy=True)
def pairwise_difference(
    labels: tf.Tensor, scores: tf.Tensor, noise: float = NOISE
) -> tf.Tensor:
    """The difference of two scores against that of their log runtimes.

        mean over pairs of max(0, |(s_i - s_j) - log(y_i / y_j)| - noise)

    The score becomes the logarithm of the runtime but for a constant.

    Example:
        >>> loss = CombinedLoss('PairwiseDifferenceLoss')
        >>> float(loss([[2.0, 1.0]], [[0.0, 0.0]]))  # (log(2) - 0.01) / 2
        0.3415...
    """
    errors = tf.abs(_differences(scores) - _differences(_log(labels)))
    return tf.reduce_mean(tf.nn.relu(errors - noise))


@register('SoftmaxLoss')
def softmax(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Cross-entropy with relevance r_i = fastest / runtime.

        mean over lists of -sum_i r_i log(exp(-s_i) / sum_j exp(-s_j))

    The value is that of TensorFlow Ranking's SoftmaxLoss of r and -s.

    Example:
        >>> loss = CombinedLoss('SoftmaxLoss', temperature=1)
        >>> float(loss([[2.0, 1.0]], [[0.0, 0.0]]))  # (1 / 2 + 1) log(2)
        1.0397...
    """
    logs = tf.nn.log_softmax(-scores)
    return -tf.reduce_mean(tf.reduce_sum(_relevance(labels) * logs, axis=1))


@register('ApproxNDCGLoss')
def approx_ndcg(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Smooth -NDCG with relevance r_i = fastest / runtime (Qin et al., 2010).

        rank_i = 1 + sum_{j != i} sigmoid(s_i - s_j)
        DCG    = sum_i (2^r_i - 1) / log(1 + rank_i)
        mean over lists of -DCG / (DCG of the true order)

    The value is that of TensorFlow Ranking's ApproxNDCGLoss of r and -s.

    Example:
        >>> loss = CombinedLoss('ApproxNDCGLoss', temperature=1)
        >>> round(float(loss([[2.0, 1.0]], [[50.0, 0.0]])), 4)  # the true order
        -1.0
    """
    relevance = _relevance(labels)
    # sigmoid(0) of i with itself is the missing half of 1.
    ranks = tf.reduce_sum(tf.sigmoid(_differences(scores)), axis=2) + 0.5
    true_ranks = tf.range(1.0, tf.cast(tf.shape(scores)[1], tf.float32) + 1.0)
    best = tf.sort(relevance, axis=1, direction='DESCENDING')
    return -tf.reduce_mean(_dcg(relevance, ranks) / _dcg(best, true_ranks))


@register('MSE', tempered=False)
def mean_squared_error(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Mean of (score - label)^2.

    Example:
        >>> float(CombinedLoss('MSE')([[3.0, 1.0]], [[1.0, 1.0]]))
        2.0
    """
    return tf.reduce_mean(tf.math.squared_difference(scores, labels))


def _by_falling_label(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Scores in the order of falling labels; ties in a random order.

    The seed is taken from the scores, which every step changes: a generator would have
    a state, which a resumed training had lost.
    """
    total = tf.cast(tf.reduce_sum(scores), tf.float32)
    seed = tf.stack([tf.bitcast(total, tf.int32), 37])
    drawn = tf.random.stateless_uniform(tf.shape(labels), seed)
    shuffled = tf.argsort(drawn, stable=True)
    _, order = tf.math.top_k(
        tf.gather(labels, shuffled, batch_dims=1), tf.shape(labels)[1]
    )
    order = tf.gather(shuffled, order, batch_dims=1)
    return tf.gather(scores, order, batch_dims=1)


def _differences(x: tf.Tensor) -> tf.Tensor:
    """x_i - x_j: [lists, n] -> [lists, n, n]."""
    return x[:, :, tf.newaxis] - x[:, tf.newaxis, :]


def _mean_over_pairs(labels: tf.Tensor, losses: tf.Tensor) -> tf.Tensor:
    """Sum over pairs with y_i > y_j, per item: [lists, n, n] -> scalar."""
    wanted = tf.cast(_differences(labels) > 0, losses.dtype)
    return tf.reduce_mean(tf.reduce_sum(wanted * losses, axis=2))


def _log(labels: tf.Tensor) -> tf.Tensor:
    return tf.math.log(tf.maximum(labels, 1e-30))


def _relevance(labels: tf.Tensor) -> tf.Tensor:
    """1 for the fastest of a list, 1/2 for twice its runtime."""
    labels = tf.maximum(labels, 1e-30)
    return tf.reduce_min(labels, axis=1, keepdims=True) / labels


def _dcg(relevance: tf.Tensor, ranks: tf.Tensor) -> tf.Tensor:
    """Discounted cumulative gain: [lists, n] -> [lists]."""
    gains = tf.pow(2.0, relevance) - 1.0
    return tf.reduce_sum(gains / tf.math.log1p(ranks), axis=1)


class CombinedLoss(tf.keras.losses.Loss):
    """A weighted mean of losses.

        loss = sum_i w_i loss_i / sum_i w_i

    Args:
        spec: names and weights, such as 'ListMLELoss:1,MSE:0.02'; a weight
            that is not given is 1.
        temperature: divides the scores in the ranking losses, not in MSE and
            PairwiseDifferenceLoss, which say what a score is.
        noise: share by which measurements of one configuration may differ;
            closer ones do not count in NoiseAwarePairLoss, nor do such errors
            in PairwiseDifferenceLoss.
        own: functions of the user's by name, (labels, scores) -> a scalar or
            [lists]; the temperature does not touch their scores.

    Example:
        >>> loss = CombinedLoss('PairwiseHingeLoss:3,MSE:1', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[0.0, 0.0]]))  # (3 * 1/2 + 5) / 4
        1.625

    Raises:
        ValueError: a name is unknown or there twice, or a weight is not a
            positive number.
    """

    def __init__(
        self,
        spec: str,
        temperature: float = TILE_TEMPERATURE,
        noise: float = NOISE,
        own: Optional[Mapping[str, _Function]] = None,
    ):
        # A scalar already; replicas add theirs up.
        super().__init__(tf.keras.losses.Reduction.SUM, name='combined_loss')
        parts = _parse(spec)
        total = sum(weight for _, weight in parts)
        known = {**_LOSSES, **{n: _own(f) for n, f in (own or {}).items()}}
        by_name = {name: _resolved(name, known) for name, _ in parts}
        self._parts: List[Tuple[float, _Loss]] = [
            (weight / total, by_name[name]) for name, weight in parts
        ]
        ours = list(_LOSSES.values())
        self._own = {
            n: loss.function for n, loss in by_name.items() if loss not in ours
        }
        self._temperature, self._noise = temperature, noise

    @property
    def own(self) -> Dict[str, _Function]:
        """The functions of labels and scores that are the user's, by name."""
        return dict(self._own)

    def call(self, y_true: Any, y_pred: Any) -> tf.Tensor:
        labels, scores = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        tempered = scores / self._temperature
        return tf.add_n(
            [
                weight
                * loss.function(
                    labels,
                    tempered if loss.tempered else scores,
                    **({'noise': self._noise} if loss.noisy else {}),
                )
                for weight, loss in self._parts
            ]
        )


def noise_share(relative_std: float) -> float:
    """Returns the share by which measurements may differ: three deviations.

    Args:
        relative_std: of repeated measurements, over their mean; NaN where
            nothing was measured twice, and NOISE is returned.
    """
    return NOISE if math.isnan(relative_std) else 3.0 * relative_std


def _resolved(name: str, known: Mapping[str, _Loss]) -> _Loss:
    """A loss by its name, or by the file and the name of a function in it."""
    path, _, function = name.rpartition(':')
    if not path and name.startswith(_RANKING):
        return _of_tensorflow_ranking(name[len(_RANKING) :])
    if not path:
        return registry.resolve(name, known, 'loss')
    module = registry.load_models_file(path, 'training', 'losses')
    functions = {
        key: value
        for key, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return _own(registry.resolve(function, functions, f'function in {path}'))


def _of_tensorflow_ranking(name: str) -> _Loss:
    """A loss of TensorFlow Ranking, of relevances r_i = fastest / runtime and -scores.

    There a high score is a good one.  The temperature is ours, not the loss's own.
    """
    if not importlib.util.find_spec('tensorflow_ranking'):
        raise ValueError(
            f'--losses: {_RANKING}{name} is of TensorFlow Ranking, which is not '
            'installed and needs Python 3.9 to 3.11: pip install tensorflow-ranking'
        )
    from tensorflow_ranking.python.keras import losses

    choices = {
        key: value
        for key, value in vars(losses).items()
        if key.endswith('Loss')
        and not key.startswith('_')
        and issubclass(value, tf.keras.losses.Loss)
    }
    loss_class = registry.resolve(name, choices, 'loss of TensorFlow Ranking')
    tempered = 'temperature' in inspect.signature(loss_class).parameters
    loss = loss_class(
        # The other reductions are refused where several devices train.
        reduction=tf.keras.losses.Reduction.NONE,
        **({'temperature': 1.0} if tempered else {}),
    )
    return _Loss(
        lambda labels, scores: tf.reduce_mean(loss(_relevance(labels), -scores)),
        tempered,
        noisy=False,
    )


def _own(function: _Function) -> _Loss:
    # One that returns a loss of each list means their mean.
    return _Loss(
        lambda labels, scores: tf.reduce_mean(function(labels, scores)),
        tempered=False,
        noisy=False,
    )


def _parse(spec: str) -> List[Tuple[str, float]]:
    parts: Dict[str, float] = {}
    for entry in spec.split(','):
        entry = entry.strip()
        of_file = _OF_FILE.match(entry)
        start = of_file.end() if of_file else 0
        name, colon, text = entry[start:].partition(':')
        name = entry[:start] + name
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
