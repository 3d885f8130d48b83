"""The contract of a model, rule by rule: the same for tiles and layouts.

    for line in check(MyModel):
        print(line)

The tests check every registered model by these rules, on graphs of their own.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
import dataclasses
import functools
import sys
import tempfile
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config
from baselines.core import registry
from baselines.core import text
from baselines.runs import saved
from baselines.tasks import examples
from baselines.tasks import lookup
from baselines.training import losses
from baselines.training import own_code
from baselines.training import task_data

NUM_CONFIGS = 4
# What a models.py may import in the published tree, next to the standard library.
_LIBRARIES = ('tensorflow', 'tensorflow_gnn', 'tensorflow_ranking', 'numpy', 'absl')


class Graphs:
    """Kernels of one to five nodes with random features, which models are tried on.

    Attributes:
        names: names of the graphs.
        num_ops: more than the largest opcode.
    """

    names: Sequence[str] = ('five nodes', 'three nodes', 'one node')
    num_ops = examples.OPCODES

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        task = lookup.TASKS[config.TileConfig().collection.task]
        records, columns = [], ('node_feat', 'node_opcode')
        for nodes in (5, 3, 1):
            record: Any = task.make_example_record(rng, NUM_CONFIGS)
            parts = {key: getattr(record, key)[:nodes] for key in columns}
            edges = record.edge_index[: nodes - 1]
            records.append(dataclasses.replace(record, edge_index=edges, **parts))
        store = task.store_class.from_records('made up', records)
        settings = config.TileConfig(configs=NUM_CONFIGS)
        self._data = task_data.make(settings, {'train': store})
        self.normalizer = self._data.normalizer

    def graph(self, names: Sequence[str], configs: Sequence[int]) -> tfgnn.GraphTensor:
        """Makes a batch of kernels with these of their NUM_CONFIGS configurations."""
        numbers = np.array([[self.names.index(name) for name in names]])
        packed = self._data.pack(numbers, np.tile(configs, (*numbers.shape, 1)))
        tensors = {key: tf.convert_to_tensor(array) for key, array in packed.items()}
        self._data.settings = config.TileConfig(configs=len(configs))
        return self._data.unpack(tensors, 0, len(names))[0]


def build(
    model_class: type, kwargs: Mapping[str, Any], graphs: Graphs
) -> tf.keras.Model:
    """Makes a model, always the same, with weights at random, biases too.

    Raises:
        ValueError: it makes layers when it is called.
    """
    tf.keras.utils.set_random_seed(0)
    model = model_class(NUM_CONFIGS, graphs.num_ops, **kwargs)
    with own_code.noting_layers(model_class) as layers:
        # Keras saves only models that were called.
        model(graphs.graph(graphs.names[:1], range(NUM_CONFIGS)))
    if layers:
        raise ValueError(own_code.describe_layers(model_class.__name__, layers))
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = rng.normal(0, 0.1, variable.shape).astype(np.float32)
        variable.assign_add(noise)
    return model


def depends_on_list(model: tf.keras.Model) -> bool:
    """Returns whether scores depend on which configurations are in the list."""
    return getattr(model, 'scores_depend_on_list', False)


def rounding(model: tf.keras.Model, graph: tfgnn.GraphTensor) -> float:
    """Bounds how far apart two float32 evaluations of a score may be.

    A score is built from products with weights.  Where the terms of a sum cancel,
    its error does not: it is a share of the sum of the terms' absolute values.  Of
    all sums together that is sum_w |w ds/dw|.  A share of 2^-24 is lost n times
    along the way, n the lengths of all sums; roundings that do not agree add up to
    that times sqrt(n), and to more than 6 sqrt(n) once in 10^7 times
    (Higham & Mary, SIAM J. Sci. Comput. 41, 2019).

    Args:
        model: with its variables.
        graph: a single one.
    """
    with tf.GradientTape() as tape:
        score = model(graph)[0, 0]
    weights = model.trainable_variables
    gradients = tape.gradient(
        score, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    terms = sum(
        float(tf.reduce_sum(tf.abs(weight * tf.convert_to_tensor(gradient))))
        for weight, gradient in zip(weights, gradients)
    )
    lengths = sum(weight.shape[0] for weight in weights if weight.shape.rank == 2)
    return 2 * 6 * 2**-24 * np.sqrt(lengths) * terms


def _require_close(
    model: tf.keras.Model,
    graphs: Graphs,
    name: str,
    scores: np.ndarray,
    expected: np.ndarray,
    change: str,
) -> None:
    """Raises ValueError for scores of a graph that differ by more than rounding."""
    whole = graphs.graph([name], range(NUM_CONFIGS))
    most = float(np.abs(scores - expected).max())
    if most and not most <= rounding(model, whole):  # takes a gradient
        raise ValueError(f'{change}; a score differs by {most:.2g} ({name})')


def check_rows(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks for a row of finite float32 scores per graph, which configurations change.

    Raises:
        ValueError: says what to change, as in all rules.
    """
    scores = model(graphs.graph(graphs.names, range(NUM_CONFIGS)))
    wanted = (len(graphs.names), NUM_CONFIGS)
    if tuple(scores.shape) != wanted or scores.dtype != tf.float32:
        raise ValueError(
            f'call should return float32 {wanted}, [kernels, configurations], not '
            f'{scores.dtype.name} {tuple(scores.shape)}'
        )
    if not np.isfinite(scores).all():
        raise ValueError('a score is not finite')
    if not np.ptp(scores, axis=1).min() > 0:
        raise ValueError('all configurations of a kernel get the same score')


def check_any_number(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that `forward` scores 1, 4 and 7 configurations, as `call` does."""
    name = graphs.names[0]
    whole = model(graphs.graph([name], range(NUM_CONFIGS))).numpy()
    for chosen in (range(NUM_CONFIGS), [2], [0, 1, 2, 3, 3, 1, 0]):
        graph = graphs.graph([name], chosen)
        scores = model.forward(graph, len(chosen)).numpy()
        if scores.shape != (1, len(chosen)):
            raise ValueError(
                f'forward should return {(1, len(chosen))} scores for num_configs = '
                f'{len(chosen)}, not {scores.shape}'
            )
        if len(chosen) == NUM_CONFIGS or not depends_on_list(model):
            change = 'a score depends on the other configurations in the list; if it '
            change += 'should, set scores_depend_on_list = True in the class'
            expected = whole[:, list(chosen)]
            _require_close(model, graphs, name, scores, expected, change)


def check_order(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that permuting the configurations permutes the scores."""
    order = [2, 0, 3, 1]
    permuted = model(graphs.graph(graphs.names, order)).numpy()
    scores = model(graphs.graph(graphs.names, range(NUM_CONFIGS))).numpy()
    for name, row, expected in zip(graphs.names, permuted, scores[:, order]):
        change = 'scores depend on the order of the configurations'
        _require_close(model, graphs, name, row, expected, change)


def check_batches(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that a graph has the same scores alone, in a batch, and in another."""
    together = model(graphs.graph(graphs.names, range(NUM_CONFIGS))).numpy()
    turned = model(graphs.graph(graphs.names[::-1], range(NUM_CONFIGS))).numpy()
    for name, row, other in zip(graphs.names, together, turned[::-1]):
        alone = graphs.graph([name], range(NUM_CONFIGS))
        scores = model.forward(alone, NUM_CONFIGS).numpy()[0]
        change = 'scores depend on the other kernels of the batch'
        _require_close(model, graphs, name, np.stack([scores, other]), row, change)


def check_gradients(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that all variables have finite gradients, with each graph alone, too."""
    loss = losses.CombinedLoss('ListMLELoss:1,MSE:0.02')
    for names in (graphs.names, *([name] for name in graphs.names)):
        with tf.GradientTape() as tape:
            scores = model(graphs.graph(names, range(NUM_CONFIGS)), training=True)
            labels = tf.range(1.0, NUM_CONFIGS + 1) + tf.zeros_like(scores)
            total = tf.add_n([loss(labels, scores), *model.losses])
        with text.located(', '.join(names)):
            own_code.check_gradients(tape, total, model)


def check_state(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that calls make no variables, and that the weights are all that counts."""
    before = [id(variable) for variable in model.trainable_variables]
    model(graphs.graph(graphs.names, range(NUM_CONFIGS)), training=True)
    if [id(variable) for variable in model.trainable_variables] != before:
        raise ValueError('a call makes variables: make them in __init__')
    trained = {id(variable) for variable in model.trainable_variables}
    for variable in model.variables:
        if id(variable) not in trained:
            raise ValueError(
                f'{variable.name} is not trainable: a grader copies trainable '
                'variables alone'
            )


def check_saving(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that a SavedModel of it gives the same variables, by position."""
    with tempfile.TemporaryDirectory() as folder:
        saved.save_model(model, folder)
        loaded = load_as_a_grader(folder)
    for number, variable in enumerate(model.trainable_variables):
        if number >= len(loaded) or not np.array_equal(loaded[number], variable):
            raise ValueError(
                f'{variable.name} is at another place after loading: assign each '
                'attribute once, and each layer to one attribute'
            )


def load_as_a_grader(model_dir: str) -> list[np.ndarray]:
    """Loads a SavedModel without its class, and returns its trainable variables."""
    scope = {'CombinedLoss': losses.CombinedLoss}
    with tf.keras.utils.custom_object_scope(scope):
        loaded = tf.keras.models.load_model(model_dir, compile=False)
    return [variable.numpy() for variable in loaded.trainable_variables]


Rule = Callable[[tf.keras.Model, Graphs], None]
RULES: Mapping[str, Rule] = {
    'a row of scores for each kernel': check_rows,
    'any number of configurations': check_any_number,
    'the order of configurations': check_order,
    'alone as in a batch': check_batches,
    'gradients': check_gradients,
    'variables': check_state,
    'saving and loading': check_saving,
}


class Line(NamedTuple):
    """A line of a report."""

    ok: bool
    subject: str  # a class or a file
    note: str  # the rule that it keeps, or what to change

    def __str__(self) -> str:
        return f'{"ok " if self.ok else "FIX"}  {self.subject}: {self.note}'


def check(model_class: type, kwargs: text.JsonObject) -> Iterator[Line]:
    """Checks a class of tile models by all rules.

    Args:
        model_class: class of a tile model.
        kwargs: arguments of its constructor.
    """
    name, kernels = model_class.__name__, Graphs()
    if 'scaling' in (registry.options(model_class) or ()):
        kwargs = {'scaling': kernels.normalizer.to_json(), **kwargs}
    models: list[tf.keras.Model] = []

    def make() -> None:
        models.append(build(model_class, kwargs, kernels))

    yield tried(name, 'layers are made in __init__', make, model_class)
    for rule, check_rule in RULES.items():
        for model in models:
            work = functools.partial(check_rule, model, kernels)
            yield tried(name, rule, work, model_class)


def tried(
    subject: str, rule: str, work: Callable[[], object], code: Callable | None = None
) -> Line:
    """Tries a rule; its line says what was raised, and where in the user's file.

    Args:
        code: a class of that file.
    """
    try:
        work()
    except Exception as error:
        wrong = str(error)
        if not isinstance(error, ValueError) or '\n' in wrong:
            wrong = own_code.one_line(error, code or work)
        return Line(False, subject, f'{rule}: {wrong}')
    return Line(True, subject, rule)


def check_imports(path: str) -> None:
    """Checks that a models.py imports only what the published tree has.

    Raises:
        ValueError: names the import and its line.
    """
    with open(path, encoding='utf-8') as stream:
        tree = ast.parse(stream.read(), path)
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        package = getattr(node, 'module', None) or ''
        for alias in node.names:
            name = f'{package}.{alias.name}'.lstrip('.')
            parts, is_relative = name.split('.'), getattr(node, 'level', 0) > 0
            there = parts[0] in (*sys.stdlib_module_names, *_LIBRARIES)
            if (is_relative or not there) and 'implicit' not in parts:
                raise ValueError(
                    f'line {node.lineno} imports {name}, which the '
                    'published tree does not have'
                )
