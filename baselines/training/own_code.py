"""Tries a user's model and loss on one small batch, before data are read.

Mistakes that a training would show after minutes, or never, become errors of one line:
scores of a wrong shape, a variable without a gradient, a loss that ignores the scores.
"""

from collections.abc import Callable, Iterator, Mapping
import contextlib
import inspect
import sys
import traceback

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config as config_lib
from baselines.core import registry
from baselines.core import text
from baselines.features import normalizer as normalizer_lib
from baselines.tasks import examples
from baselines.tasks import lookup
from baselines.training import task_data

# (labels, scores), float32 [lists, n] each -> a number, or one of each list
Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
# (number of opcodes, normaliser) -> a built model
MakeModel = Callable[[int, normalizer_lib.Normalizer], tf.keras.Model]

_MOST_GRAPHS = 10
_LABELS = 'labels and scores'
_SIGNATURES = {
    '__init__': ('num_configs', 'num_ops'),
    'forward': ('graph', 'num_configs'),
}
_ANY_NUMBER = (
    'forward has to return num_configs columns, whatever their number, not as many as '
    'the constructor was given'
)


def check_loss(name: str, loss: Loss) -> None:
    """Tries a loss on made-up labels and scores.

    Raises:
        ValueError: it does not take two arguments, raises, does not give finite
            numbers, or has no gradient with respect to the scores.
    """
    # Labels of runtimes above 0, and scores of both signs; a fixed seed, so that a
    # loss is accepted or refused the same every time.
    rng = np.random.default_rng(0)
    labels = tf.constant(rng.uniform(1, 5, (4, 10)), tf.float32)
    scores = tf.constant(rng.normal(size=(4, 10)), tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(scores)
        try:
            values = tf.cast(inspect.unwrap(loss)(labels, scores), tf.float32)
        except Exception as error:
            raise ValueError(
                f'--losses: {name}({_LABELS}), both float32 [4, 10], raised '
                f'{one_line(error, loss)}'
            ) from error
        if values.shape not in ((), (len(labels),)):
            raise ValueError(
                f'--losses: {name}({_LABELS}), both float32 [4, 10], returned '
                f'{list(values.shape)}: a loss returns [lists], or a scalar'
            )
        values = tf.reduce_mean(values)
    if not np.isfinite(values):
        raise ValueError(f'--losses: {name}({_LABELS}) returned {values:.3g}')
    gradient = tape.gradient(values, scores)
    if gradient is None or not np.any(gradient):
        raise ValueError(
            f'--losses: {name}({_LABELS}) does not depend on the scores: nothing '
            'could be learned from it'
        )
    if not np.isfinite(gradient).all():
        raise ValueError(f'--losses: the gradient of {name} is not finite')


@contextlib.contextmanager
def noting_layers(code: Callable) -> Iterator[dict[str, tf.keras.layers.Layer]]:
    """Notes layers with variables that a user's code makes while the block runs.

    Layers that are made inside a layer's `build`, as Keras wants it, do not count.

    Args:
        code: a class or function of the user's file.

    Yields:
        A dict that is filled at the end of the block: place in the file -> layer.
    """
    made: list[tuple[str, tf.keras.layers.Layer]] = []
    noted: dict[str, tf.keras.layers.Layer] = {}
    path = _file_of(code)
    layer_class = tf.keras.layers.Layer
    original = layer_class.__init__

    def init(self: tf.keras.layers.Layer, *args: object, **kwargs: object) -> None:
        original(self, *args, **kwargs)
        for frame in reversed(traceback.extract_stack()):
            if frame.name == '_maybe_build':
                return
            if frame.filename == path:
                made.append((f'{path}, line {frame.lineno}', self))
                return

    setattr(layer_class, '__init__', init)  # noqa: B010  mypy knows no other way
    try:
        yield noted
    finally:
        setattr(layer_class, '__init__', original)  # noqa: B010
    noted.update((place, layer) for place, layer in made if layer.variables)


def describe_layers(name: str, noted: Mapping[str, tf.keras.layers.Layer]) -> str:
    """Says where layers were made that are lost after the call that made them."""
    place, layer = next(iter(noted.items()))
    return (
        f'{name} makes a {type(layer).__name__} layer while it is called ({place}): '
        'make layers in __init__, so that they are trained and saved'
    )


def check_model(
    settings: config_lib.AnyConfig, model_class: type, make: MakeModel, loss: Loss
) -> None:
    """Tries a model on a batch of at most ten made-up graphs.

    Args:
        make: makes a model of it, of the number of opcodes and a normaliser.

    Raises:
        ValueError: the model raises, its scores are not [graphs, configurations] or
            not finite, or a variable has no finite gradient.
    """
    name = model_class.__name__
    if not callable(getattr(model_class, 'forward', None)):
        raise ValueError(f'{name} has no method forward(graph, num_configs)')
    configs = settings.configs
    _check_signatures(model_class)
    # A batch as in training, and one graph with another number of configurations, as
    # in scoring.
    graphs = min(settings.batch, _MOST_GRAPHS)
    several, labels, normalizer = _make_batch(settings, graphs, configs)
    alone, labels_alone, _ = _make_batch(settings, 1, configs + 1)
    try:
        with _explained(f'{name} raised', model_class):
            model = make(examples.OPCODES, normalizer)
    except ValueError as error:
        if _is_fixed(settings, model_class, normalizer):
            raise ValueError(f'{name}.forward: {_ANY_NUMBER}') from error
        raise
    with tf.GradientTape() as tape:
        with (
            _explained(f'{name}.call raised', model_class),
            noting_layers(model_class) as layers,
        ):
            scores = model(several, training=True)
        if layers:
            raise ValueError(describe_layers(name, layers))
        # `call` usually returns what `forward` does.
        _check_scores(f'{name}.forward', scores, labels)
        total = tf.add_n([loss(labels, scores), *model.losses])
    with _explained(f'{name}.forward raised', model_class):
        of_one = model.forward(alone, configs + 1)
    _check_scores(f'{name}.forward', of_one, labels_alone)
    if not model.trainable_variables:
        raise ValueError(f'{name} has no trainable variable')
    with text.located(name):
        check_gradients(tape, total, model)


def check_gradients(
    tape: tf.GradientTape, total: tf.Tensor, model: tf.keras.Model
) -> None:
    """Raises ValueError for a variable without a finite gradient of a loss."""
    variables = model.trainable_variables
    for variable, gradient in zip(variables, tape.gradient(total, variables)):
        if gradient is None:
            raise ValueError(
                f'the scores do not depend on the variable {variable.name}: '
                'use it, or make it with trainable=False'
            )
        if not np.isfinite(tf.convert_to_tensor(gradient)).all():
            raise ValueError(f'the gradient of {variable.name} is not finite')


def _check_signatures(model_class: type) -> None:
    """Raises ValueError unless constructor and `forward` take their two arguments."""
    for method, wanted in _SIGNATURES.items():
        signature = inspect.signature(getattr(model_class, method))
        try:
            signature.bind_partial(model_class, *wanted)
        except TypeError:
            missing = [name for name in wanted if name not in signature.parameters]
            raise ValueError(
                f'{model_class.__name__}.{method}{signature} does not take '
                f'{" and ".join(missing)}: {method}(self, {", ".join(wanted)}, ...) is '
                'wanted'
            ) from None


def _is_fixed(
    settings: config_lib.AnyConfig,
    model_class: type,
    normalizer: normalizer_lib.Normalizer,
) -> bool:
    """Returns whether `forward` scores as many configurations as the constructor knows.

    Called for a model that does not score another number of them.
    """
    kwargs = config_lib.model_kwargs(settings.model_kwargs_json)
    graph = lookup.TASKS[settings.collection.task].make_example_graph(normalizer)
    try:
        model_class(2, examples.OPCODES, **kwargs).forward(graph, 2)
    except Exception:
        return False
    return True


def _check_scores(method: str, scores: tf.Tensor, labels: tf.Tensor) -> None:
    """Makes sure that scores are finite numbers of the shape of the labels."""
    shape = tuple(getattr(scores, 'shape', ()))
    wanted = tuple(labels.shape)
    if not tf.is_tensor(scores) or shape != wanted:
        kind = shape if tf.is_tensor(scores) else type(scores).__name__
        raise ValueError(
            f'{method} returned {kind}; [kernels, num_configs] = {wanted} wanted: '
            f'{_ANY_NUMBER}'
        )
    if not scores.dtype.is_floating or not np.isfinite(scores).all():
        raise ValueError(f'{method} returned scores that are not finite numbers')


@contextlib.contextmanager
def _explained(beginning: str, model_class: type) -> Iterator[None]:
    """Turns errors of a user's model inside the block into a one-line ValueError."""
    try:
        yield
    except Exception as error:
        if str(error).startswith('--model'):
            first = str(error).partition('\n')[0]
            raise ValueError(f'{first}{_place(error, model_class)}') from error
        raise ValueError(f'{beginning} {one_line(error, model_class)}') from error


def one_line(error: BaseException, code: Callable) -> str:
    """Returns the type of an error, the first line of its cause, and its place."""
    cause = registry.cause_in_layer(error).strip().partition('\n')[0]
    return f'{type(error).__name__}: {text.printable(cause)}{_place(error, code)}'


def _place(error: BaseException, code: Callable) -> str:
    """Returns the file and line in a user's file that an error comes from, or ''."""
    return registry.place_of(error, _file_of(code))


def _file_of(code: Callable) -> str:
    """Returns the path of the file that a user's class or function is in, or ''."""
    module = sys.modules.get(getattr(code, '__module__', None) or '')
    return getattr(module, '__file__', None) or ''


def _make_batch(
    settings: config_lib.AnyConfig, graphs: int, configs: int
) -> tuple[tfgnn.GraphTensor, tf.Tensor, normalizer_lib.Normalizer]:
    """Makes up graphs of `configs` configurations, packed as for a step.

    Returns:
        The graphs, labels [graphs, configs], and their scaling.
    """
    task = lookup.TASKS[settings.collection.task]
    rng = np.random.default_rng(0)
    records = [task.make_example_record(rng, configs) for _ in range(graphs)]
    store = task.store_class.from_records('made up', records)
    defaults = type(settings)(batch=graphs, configs=configs)
    data, numbers = task_data.make(defaults, {'train': store}), np.arange(graphs)
    packed = data.pack(numbers[np.newaxis], np.tile(np.arange(configs), (1, graphs, 1)))
    tensors = {key: tf.convert_to_tensor(array) for key, array in packed.items()}
    graph, labels, _ = data.unpack(tensors, 0, graphs)
    return graph, labels, data.normalizer
