"""Losses by name: 'ListMLELoss:1,MSE:0.02'.

Scores and labels are [lists, n]; a label is a runtime, so the losses push slow
configurations up, and the lowest score is the fastest.  A function of the user's
own is named by its file: 'my_file.py:my_loss:1'; a loss of TensorFlow Ranking, where
that is installed, by its class: 'ApproxNDCGLoss:1', or 'tfr.ApproxNDCGLoss:1' where
ours has the same name.

A new loss is one function here, with the decorator `register`: its name there is
for --losses, and the first line of its docstring for `tpugraphs losses`.  It
takes labels and scores, float32 [lists, n], and returns a float32 scalar.
"""

from collections.abc import Callable, Mapping
import functools
import inspect
import math
import re
from typing import NamedTuple

import tensorflow as tf

from baselines.core import registry

# The published training divides scores by it, in the ranking losses only.
TILE_TEMPERATURE = 10.0

# Measurements of one configuration differ by up to this share of a runtime.
NOISE = 0.01

_Function = Callable[..., tf.Tensor]
_OF_FILE = re.compile(r'.*\.py:')
_RANKING = 'tfr.'  # before the names of TensorFlow Ranking's losses


class _Loss(NamedTuple):
    """A loss, and how it is called; see `register`."""

    function: _Function
    tempered: bool
    takes_noise: bool = False


# By the name that --losses takes.
LOSSES: dict[str, _Loss] = {}


def register(
    name: str, tempered: bool = True, takes_noise: bool = False
) -> Callable[[_Function], _Function]:
    """Registers a loss.

    Args:
        name: the loss's name in --losses.
        tempered: whether the temperature divides its scores; False for a loss that
            defines the scale of scores.
        takes_noise: True where its third argument is the share by which measurements
            of one configuration may differ, of --loss_noise.
    """

    def add(function: _Function) -> _Function:
        LOSSES[name] = _Loss(function, tempered, takes_noise)
        return function

    return add


@register('ListMLELoss')
def list_mle(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Computes the negative log-likelihood of the true order (Xia et al., ICML 2008).

        mean over lists of sum_i (log sum_{j >= i} exp(s_j) - s_i)

    with scores s sorted by falling label; equal labels come in random order.
    The value is that of TensorFlow Ranking's ListMLELoss.

    Example:
        >>> loss = CombinedLoss('ListMLELoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[1.0, 0.0]]))  # log(e + 1) - 1
        0.3132...
    """
    ordered = _sort_by_label(labels, scores)
    # Not the logarithm of a sum, as there: float32 sums underflow, and the loss is
    # infinite, where scores lie 88 apart, and long trainings get there.
    rest = tf.math.cumulative_logsumexp(ordered, axis=1, reverse=True)
    return tf.reduce_mean(tf.reduce_sum(rest - ordered, axis=1))


@register('PairwiseHingeLoss')
def pairwise_hinge(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Averages max(0, 1 - (s_i - s_j)) over pairs with y_i > y_j.

        mean over lists and i of sum_j [y_i > y_j] max(0, 1 - (s_i - s_j))

    The value is that of TensorFlow Ranking's PairwiseHingeLoss.

    Example:
        >>> loss = CombinedLoss('PairwiseHingeLoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[0.5, 0.0]]))  # one pair, two items
        0.25
    """
    return _average_pairs(labels, tf.nn.relu(1.0 - _compute_differences(scores)))


@register('PairwiseLogisticLoss')
def pairwise_logistic(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Averages log(1 + exp(s_j - s_i)) over pairs with y_i > y_j.

        mean over lists and i of sum_j [y_i > y_j] log(1 + exp(s_j - s_i))

    The value is that of TensorFlow Ranking's PairwiseLogisticLoss; its gradient
    for a pair of equal scores is 0 there, and the derivative, 1/2, here.

    Example:
        >>> loss = CombinedLoss('PairwiseLogisticLoss', temperature=1)
        >>> float(loss([[3.0, 1.0]], [[0.0, 0.0]]))  # log(2) / 2
        0.3465...
    """
    return _average_pairs(labels, tf.nn.softplus(-_compute_differences(scores)))


@register('PairwiseRuntimeLoss', takes_noise=True)
def pairwise_runtime(
    labels: tf.Tensor, scores: tf.Tensor, noise: float = NOISE
) -> tf.Tensor:
    """Averages log(1 + exp(s_j - s_i)), pairs weighted by log runtime differences.

        w_ij = log(y_i / y_j) if y_i > (1 + noise) y_j, else 0
        mean over lists of sum_ij w_ij log(1 + exp(s_j - s_i)) / sum_ij w_ij

    The weight of a pair grows with the difference of its runtimes, and is 0 if they are
    as close as two measurements of one configuration.  A list without pairs of positive
    weight has a loss of 0.

    Example:
        >>> loss = CombinedLoss('PairwiseRuntimeLoss', temperature=1)
        >>> float(loss([[4.0, 1.0, 1.005]], [[0.0, 0.0, 0.0]]))  # log(2)
        0.6931...
    """
    # log(y_i / y_j), [lists, n, n]; runtimes of 0 stay finite.
    ratios = _compute_differences(tf.math.log(tf.maximum(labels, 1e-30)))
    weights = tf.where(ratios > math.log1p(noise), ratios, 0.0)
    losses = tf.nn.softplus(-_compute_differences(scores))
    of_lists = tf.math.divide_no_nan(  # 0 / 0 is 0: a list without pairs
        tf.reduce_sum(weights * losses, axis=[1, 2]),
        tf.reduce_sum(weights, axis=[1, 2]),
    )
    return tf.reduce_mean(of_lists)


@register('MSE', tempered=False)
def mean_squared_error(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Averages (score - label)^2.

    Example:
        >>> float(CombinedLoss('MSE')([[3.0, 1.0]], [[1.0, 1.0]]))
        2.0
    """
    return tf.reduce_mean(tf.math.squared_difference(scores, labels))


def _sort_by_label(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Returns scores in the order of falling labels; ties in a random order.

    The seed is taken from the scores, which every step changes: a generator would have
    a state, which a resumed training had lost.
    """
    total = tf.cast(tf.reduce_sum(scores), tf.float32)
    seed = tf.stack([tf.bitcast(total, tf.int32), 37])  # a seed is two integers
    drawn = tf.random.stateless_uniform(tf.shape(labels), seed)
    shuffled = tf.argsort(drawn, stable=True)
    # `top_k` keeps the order of equal labels, which have been shuffled.
    _, order = tf.math.top_k(
        tf.gather(labels, shuffled, batch_dims=1), tf.shape(labels)[1]
    )
    order = tf.gather(shuffled, order, batch_dims=1)
    return tf.gather(scores, order, batch_dims=1)


def _compute_differences(x: tf.Tensor) -> tf.Tensor:
    """Computes x_i - x_j: [lists, n] -> [lists, n, n]."""
    return x[:, :, tf.newaxis] - x[:, tf.newaxis, :]


def _average_pairs(labels: tf.Tensor, losses: tf.Tensor) -> tf.Tensor:
    """Sums over pairs with y_i > y_j, per item: [lists, n, n] -> scalar."""
    wanted = tf.cast(_compute_differences(labels) > 0, losses.dtype)
    return tf.reduce_mean(tf.reduce_sum(wanted * losses, axis=2))


def _get_relevance(labels: tf.Tensor) -> tf.Tensor:
    """Computes relevance: 1 for the fastest of a list, 1/2 for twice its time."""
    labels = tf.maximum(labels, 1e-30)  # or 0 / 0 where a runtime is 0
    return tf.reduce_min(labels, axis=1, keepdims=True) / labels


class CombinedLoss(tf.keras.losses.Loss):
    """A weighted mean of losses.

        loss = sum_i w_i loss_i / sum_i w_i

    Args:
        spec: names and weights, such as 'ListMLELoss:1,MSE:0.02'; a weight
            that is not given is 1.
        temperature: divides the scores in the ranking losses, not in MSE, which
            defines their scale.
        noise: share by which measurements of one configuration may differ, for the
            losses that take it.
        own: functions of the user's by name, (labels, scores) -> a scalar or
            [lists]; the temperature does not touch their scores.

    Attributes:
        own: the user's own functions that are used, by name.

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
        own: Mapping[str, _Function] | None = None,
    ):
        # `call` returns a scalar; the losses of several replicas are added up.
        super().__init__(tf.keras.losses.Reduction.SUM, name='combined_loss')
        parts = _parse_spec(spec)
        total = sum(weight for _, weight in parts)
        choices = {**LOSSES, **{n: _wrap_user_loss(f) for n, f in (own or {}).items()}}
        by_name = {name: _find_loss(name, choices) for name, _ in parts}
        self._parts: list[tuple[float, _Loss]] = [
            (weight / total, by_name[name]) for name, weight in parts
        ]
        ours = list(LOSSES.values())
        self.own = {n: x.function for n, x in by_name.items() if x not in ours}
        self._temperature, self._noise = temperature, noise

    def call(self, y_true: tf.Tensor, y_pred: tf.Tensor) -> tf.Tensor:
        labels, scores = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
        total = tf.zeros([], scores.dtype)
        for weight, loss in self._parts:
            inputs = scores / self._temperature if loss.tempered else scores
            noise = [self._noise] if loss.takes_noise else []
            total += weight * loss.function(labels, inputs, *noise)
        return total


def _find_loss(name: str, choices: Mapping[str, _Loss]) -> _Loss:
    """Finds a loss by its name, or by the file and name of a function."""
    path, _, function = name.rpartition(':')
    if not path and name.startswith(_RANKING):
        return _make_ranking_loss(name[len(_RANKING) :])
    if not path:
        of_ranking = registry.find_ranking_losses()
        if name not in choices and name in of_ranking:
            return _make_ranking_loss(name)
        listed: dict[str, _Loss | None] = dict(choices)
        if of_ranking:
            listed[f'{_RANKING}<class>'] = None
        return registry.resolve(name, listed, 'loss')
    module = registry.load_models_file(path, 'training', 'losses')
    functions = {
        key: value
        for key, value in vars(module).items()
        # Not what the file imports.
        if inspect.isfunction(value) and value.__module__ == module.__name__
    }
    return _wrap_user_loss(registry.resolve(function, functions, f'function in {path}'))


def _make_ranking_loss(name: str) -> _Loss:
    """Returns a loss of TensorFlow Ranking, applied to relevance and -scores.

    A high score is a good one there.  The temperature is ours, not the loss's own.
    """
    choices = registry.find_ranking_losses()
    if not choices:
        raise ValueError(
            f'--losses: {_RANKING}{name} is of TensorFlow Ranking, which is not '
            'installed and needs Python 3.10 or 3.11: pip install tensorflow-ranking'
        )
    registry.resolve(name, choices, 'loss of TensorFlow Ranking')
    from tensorflow_ranking.python.keras import losses

    loss_class = getattr(losses, name)
    tempered = 'temperature' in inspect.signature(loss_class).parameters
    loss = loss_class(
        # The other reductions are refused where several devices train.
        reduction=tf.keras.losses.Reduction.NONE,
        **({'temperature': 1.0} if tempered else {}),
    )
    return _Loss(
        lambda labels, scores: tf.reduce_mean(loss(_get_relevance(labels), -scores)),
        tempered,
    )


def _wrap_user_loss(function: _Function) -> _Loss:
    """Returns a user's loss; a loss per list is averaged."""

    @functools.wraps(function)  # errors are located in its file
    def mean(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
        return tf.reduce_mean(function(labels, scores))

    return _Loss(mean, tempered=False)


def _parse_spec(spec: str) -> list[tuple[str, float]]:
    """Reads the names and weights of --losses; raises ValueError."""
    parts: dict[str, float] = {}
    for entry in spec.split(','):
        entry = entry.strip()
        # A path may contain colons; what follows '.py:' is the function's name.
        of_file = _OF_FILE.match(entry)
        start = of_file.end() if of_file else 0
        name, colon, text = entry[start:].partition(':')
        name = entry[:start] + name
        try:
            weight = float(text) if colon else 1.0
        except ValueError:
            weight = math.nan  # refused below
        if not (0 < weight < math.inf):
            raise ValueError(
                f'--losses: the weight of {name!r} must be above 0, not {text!r}'
            )
        if name in parts:
            raise ValueError(f'--losses: {name!r} must be in {spec!r} once, not twice')
        parts[name] = weight
    return list(parts.items())
