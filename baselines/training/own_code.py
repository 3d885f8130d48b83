"""Tries a user's model and loss on small graphs, before data are read.

Mistakes that a training would show after minutes, or never, become errors of one line:
scores of a wrong shape, a variable without a gradient, a loss that ignores the scores.
`tpugraphs check` has the same rules, and more.
"""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import inspect
import traceback
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config as config_lib
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.tasks import lookup
from baselines.tasks import protocol
from baselines.training import losses
from baselines.training import task_data

# (labels, scores), float32 [lists, n] each -> a number, or one of each list
Loss = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_MOST_GRAPHS = 3
_BY_NODE = ('node_feat', 'node_opcode')  # arrays of a record with a row per node


class Graphs:
    """Graphs with random features, which models are tried on.

    Attributes:
        names: names of the graphs.
        num_configs: configurations of each.
        num_ops: more than the largest opcode.
        normalizer: scales their features.

    Args:
        settings: of the task; graphs have `configs` configurations.
        nodes: the number of nodes of each graph, by name.
    """

    num_ops = protocol.EXAMPLE_OPCODES

    def __init__(self, settings: config_lib.AnyConfig, nodes: Mapping[str, int]):
        self.names, self.num_configs = tuple(nodes), settings.configs
        task = lookup.TASKS[settings.collection.task]
        rng, records = np.random.default_rng(0), []
        for count in nodes.values():
            record: Any = task.make_example_record(rng, self.num_configs)
            parts = {key: getattr(record, key)[:count] for key in _BY_NODE}
            # The example is a chain, so these are the edges of its first nodes.
            edges = record.edge_index[: count - 1]
            records.append(dataclasses.replace(record, edge_index=edges, **parts))
        store = task.store_class.from_records('made up', records)
        plain = type(settings)(batch=len(nodes), configs=settings.configs)
        self._data = task_data.make_data(plain, {'train': store})
        self.normalizer = self._data.normalizer

    @functools.cache  # noqa: B019  lives as long as a check
    def graph(
        self, names: tuple[str, ...], configs: tuple[int, ...] = ()
    ) -> tfgnn.GraphTensor:
        """Makes a batch of graphs with all configurations, or with the given ones."""
        configs = configs or tuple(range(self.num_configs))
        numbers = np.array([[self.names.index(name) for name in names]])
        packed = self._data.pack(numbers, np.tile(configs, (*numbers.shape, 1)))
        tensors = {key: tf.convert_to_tensor(array) for key, array in packed.items()}
        settings = self._data.settings
        # `unpack` takes the number of configurations from the settings.
        self._data.settings = dataclasses.replace(settings, configs=len(configs))
        return self._data.unpack(tensors, 0, len(names))[0]


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
    call, wrong = f'--losses: {name}(labels and scores), both float32 [4, 10],', ''
    with tf.GradientTape() as tape:
        tape.watch(scores)
        try:
            # The user's function itself: its wrapper would average any shape.
            values = tf.cast(inspect.unwrap(loss)(labels, scores), tf.float32)
        except Exception as error:
            wrong = registry.describe_error(error, registry.find_file(loss))
            raise ValueError(f'{call} raised {wrong}') from error
        mean = tf.reduce_mean(values)
    gradient = tape.gradient(mean, scores)
    if values.shape not in ((), (len(labels),)):
        wrong = f'must return [{len(labels)}], or a scalar, not {list(values.shape)}'
    elif not np.isfinite(mean):
        wrong = f'must return finite numbers; their mean is {mean:.3g}'
    elif gradient is None or not np.any(gradient):
        wrong = 'must depend on the scores: nothing can be learned from it'
    elif not np.isfinite(gradient).all():
        wrong = 'must have a finite gradient: look for 0 / 0 and log(0)'
    if wrong:
        raise ValueError(f'{call} {wrong}')


def check_model(settings: config_lib.AnyConfig, model_class: type, loss: Loss) -> None:
    """Tries a model as a training uses it, on a batch of made-up graphs.

    Raises:
        ValueError: the model raises, its scores are not [graphs, configurations] or
            not finite, or a variable has no finite gradient.
    """
    name, path = model_class.__name__, registry.find_file(model_class)
    try:
        inspect.signature(model_class).bind_partial(num_configs=1, num_ops=1)
    except TypeError as error:
        if isinstance(settings, config_lib.TileConfig):
            text.note(
                f'{name} trains, but cannot be handed in: a grader makes '
                f'{name}(num_configs=..., num_ops=...), and {error}'
            )
    count = min(settings.batch, _MOST_GRAPHS)
    names = [f'graph {number}' for number in range(count)]
    graphs = Graphs(settings, dict.fromkeys(names, protocol.EXAMPLE_NODES))
    model = registry.construct_model(
        model_class,
        settings.configs,
        graphs.num_ops,
        settings_lib.parse_model_kwargs(settings.model_kwargs_json),
        graphs.normalizer.to_json(),
        lambda model: model.forward(graphs.graph(graphs.names[:1]), settings.configs),
    )
    with_loss = functools.partial(check_gradients, loss=loss)
    for rule in (check_variables, check_rows, check_any_number, with_loss):
        try:
            rule(model, graphs)
        except (Exception, SystemExit) as error:
            wrong = registry.describe_error(error, path)
            raise ValueError(f'{name}: {wrong}') from error


def check_variables(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that calls make no variables: `forward` alone has made them all.

    Raises:
        ValueError: says what to change, as in all rules.
    """
    path, made = registry.find_file(type(model)), []

    def note(create: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        frames = traceback.extract_stack()
        lines = [frame.lineno for frame in frames if frame.filename == path]
        variable = create(**kwargs)
        # The innermost frame in the user's file is the line that makes it.
        place = f' ({path}, line {lines[-1]})' if lines else ''
        made.append(f'{variable.name}{place}')
        return variable

    with tf.variable_creator_scope(note):
        model(graphs.graph(graphs.names), training=True)
    if made:
        raise ValueError(
            f'call makes the variable {made[0]}: make layers in __init__, and use all '
            'in forward, which alone builds a model that scores'
        )
    if not model.trainable_variables:
        raise ValueError('forward must use a layer with trainable variables')


def check_rows(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that `call`, traced, returns a row of finite float32 scores a graph."""
    # As Keras traces it to save it.
    traced = tf.function(model, autograph=False)
    scores = traced(graphs.graph(graphs.names))
    require_scores('call', scores, (len(graphs.names), graphs.num_configs))


def check_any_number(
    model: tf.keras.Model, graphs: Graphs
) -> list[tuple[tuple[int, ...], tf.Tensor]]:
    """Checks that `forward` scores one configuration, and more than in training.

    Returns:
        Pairs of configurations of the first graph, and their scores [1, n].
    """
    scored, most = [], graphs.num_configs
    for count in (1, most, 2 * most - 1):  # fewer, as many as in training, more
        chosen = tuple(i % most for i in range(count))
        graph = graphs.graph(graphs.names[:1], chosen)
        try:
            scores = model.forward(graph, count)
        except (Exception, SystemExit) as error:
            wrong = registry.describe_error(error, registry.find_file(type(model)))
            raise ValueError(
                'forward must score any number of configurations, and raised for '
                f'{count}: {wrong}'
            ) from None
        require_scores(f'forward, for {count} configurations,', scores, (1, count))
        scored.append((chosen, scores))
    return scored


def require_scores(method: str, scores: Any, shape: tuple[int, int]) -> None:
    """Raises ValueError unless scores are finite float32 numbers of a shape."""
    given = type(scores).__name__
    if tf.is_tensor(scores):
        given = f'{scores.dtype.name} {tuple(scores.shape)}'
    if given != f'float32 {shape}':
        raise ValueError(
            f'{method} must return float32 {shape}, [graphs, configs], not {given}'
        )
    if not np.isfinite(scores).all():
        raise ValueError(f'{method} must return finite scores, not NaN or infinity')


def check_gradients(
    model: tf.keras.Model, graphs: Graphs, loss: Loss | None = None
) -> None:
    """Checks that all variables have finite gradients, with each graph alone, too.

    Args:
        loss: None for the default of a training.
    """
    loss = loss or losses.CombinedLoss(config_lib.TileConfig.losses)
    for names in (graphs.names, *((name,) for name in graphs.names)):
        with tf.GradientTape() as tape:
            scores = model(graphs.graph(names), training=True)
            # 1, 2, 3, ... in every list: [graphs, configurations].
            labels = tf.range(1.0, graphs.num_configs + 1) + tf.zeros_like(scores)
            total = tf.add_n([loss(labels, scores), *model.losses])
        variables = model.trainable_variables
        for variable, gradient in zip(variables, tape.gradient(total, variables)):
            if gradient is None:
                raise ValueError(
                    f'the scores do not depend on the variable {variable.name}: '
                    'use it, or make it with trainable=False'
                )
            if not np.isfinite(tf.convert_to_tensor(gradient)).all():
                graph = ', '.join(names)
                raise ValueError(
                    f'{graph}: the gradient of {variable.name} must be finite'
                )
