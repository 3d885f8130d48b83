"""The contract of a model, rule by rule: the same for tiles and layouts.

    for line in check(MyModel, {}):
        print(line)

The tests check every registered model by these rules, on graphs of their own.  The
rules that a training checks, too, are in `own_code`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
import functools
import tempfile
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config
from baselines.core import registry
from baselines.core import text
from baselines.runs import saved
from baselines.training import losses
from baselines.training import own_code
from tpugraphs.handin import verdict

NUM_CONFIGS = 4
# The last one has no edges.
_NODES = {'five nodes': 5, 'three nodes': 3, 'one node without edges': 1}

# Made-up graphs: `own_code.Graphs`, or a class of a test.
Graphs = Any


def build_model(
    model_class: type, kwargs: Mapping[str, Any], graphs: Graphs, seed: int = 0
) -> tf.keras.Model:
    """Makes a model as the course's script does, by keyword and with `forward` alone.

    Its weights are random, biases too; the same for a seed.
    """
    tf.keras.utils.set_random_seed(seed)
    model = model_class(num_configs=NUM_CONFIGS, num_ops=graphs.num_ops, **kwargs)
    model.forward(graphs.graph(graphs.names[:1]), NUM_CONFIGS)
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        # Biases begin at 0, and a rule would not see how they are used.
        noise = rng.normal(0, 0.1, variable.shape).astype(np.float32)
        variable.assign_add(noise)
    return model


def bound_error(model: tf.keras.Model, graph: tfgnn.GraphTensor) -> float:
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
    # Two evaluations, six standard deviations each; 2^-24 is half a unit in the last
    # place of a float32 near 1.
    return 2 * 6 * 2**-24 * np.sqrt(lengths) * terms


def _require_close(
    model: tf.keras.Model,
    graphs: Graphs,
    scores: np.ndarray,
    expected: np.ndarray,
    change: str,
) -> None:
    """Raises ValueError for scores that differ by more than rounding.

    Args:
        scores: a row for each of the first graphs.
        change: the end of a message.
    """
    for name, row, other in zip(graphs.names, scores, expected):
        most = float(np.abs(row - other).max())
        if most and not most <= bound_error(model, graphs.graph((name,))):  # a gradient
            raise ValueError(f'{change}; a score differs by {most:.2g} ({name})')


def check_scores(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that configurations get different scores, the same in every call.

    Raises:
        ValueError: says what to change, as in all rules.
    """
    graph = graphs.graph(graphs.names)
    scores, again = model(graph).numpy(), model(graph).numpy()
    _require_close(model, graphs, again, scores, 'scores differ from call to call')
    if not np.ptp(scores, axis=1).min() > 0:
        raise ValueError('all configurations of a kernel get the same score')


def check_without_edges(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that `forward` scores a graph without edges, which is the last one."""
    scores = model.forward(graphs.graph(graphs.names[-1:]), NUM_CONFIGS)
    own_code.require_scores('forward', scores, (1, NUM_CONFIGS))


def check_any_number(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that `forward` scores any number of configurations, as `call` does."""
    whole = model(graphs.graph(graphs.names[:1])).numpy()
    for chosen, scores in own_code.check_any_number(model, graphs):
        in_lists = getattr(model, 'scores_depend_on_list', False)
        if len(chosen) == NUM_CONFIGS or not in_lists:
            change = 'a score depends on the other configurations in the list; if it '
            change += 'should, set scores_depend_on_list = True in the class'
            _require_close(model, graphs, scores, whole[:, list(chosen)], change)


def check_order(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that permuting the configurations permutes the scores."""
    order = (2, 0, 3, 1)
    # Not its own inverse, so an inverse applied by mistake is seen.
    permuted = model(graphs.graph(graphs.names, order)).numpy()
    expected = model(graphs.graph(graphs.names)).numpy()[:, order]
    change = 'scores depend on the order of the configurations'
    _require_close(model, graphs, permuted, expected, change)


def check_batches(model: tf.keras.Model, graphs: Graphs) -> None:
    """Checks that a graph has the same scores alone, in a batch, and in another."""
    expected = model(graphs.graph(graphs.names)).numpy()
    turned = model(graphs.graph(graphs.names[::-1])).numpy()[::-1]
    graph_of = lambda name: graphs.graph((name,))
    alone = [model.forward(graph_of(name), NUM_CONFIGS)[0] for name in graphs.names]
    change = 'scores depend on the other kernels of the batch'
    for scores in (turned, np.stack(alone)):
        _require_close(model, graphs, scores, expected, change)


def check_copy(model: tf.keras.Model, graphs: Graphs, other: tf.keras.Model) -> None:
    """Checks that another model scores so with the trainable variables as saved."""
    batch = graphs.graph(graphs.names)
    expected = model(batch).numpy()  # Keras saves a model only after a call
    loaded = save_and_load(model)
    for variable, array in zip(model.trainable_variables, loaded):
        if not np.array_equal(variable, array):
            raise ValueError(
                f'{variable.name} is at another place after loading: assign each '
                'attribute once, and each layer to one attribute'
            )
    copy_variables(loaded, other)
    kept = text.list_names([v.name for v in model.non_trainable_variables]) or 'random'
    change = f'the trainable variables, all that a grader copies, are not all ({kept})'
    _require_close(model, graphs, other(batch).numpy(), expected, change)


def save_and_load(model: tf.keras.Model) -> list[np.ndarray]:
    """Returns the trainable variables of a model as a grader finds them."""
    with tempfile.TemporaryDirectory() as folder:
        saved.save_model(model, folder)
        return load_as_a_grader(folder)


def load_as_a_grader(model_dir: str) -> list[np.ndarray]:
    """Loads a SavedModel without its class, and returns its trainable variables."""
    scope = {'CombinedLoss': losses.CombinedLoss}
    with tf.keras.utils.custom_object_scope(scope):
        loaded = tf.keras.models.load_model(model_dir, compile=False)
    return [variable.numpy() for variable in loaded.trainable_variables]


def copy_variables(loaded: Sequence[np.ndarray], model: tf.keras.Model) -> None:
    """Copies trainable variables by position; raises ValueError if they do not fit."""
    variables = model.trainable_variables
    if len(loaded) != len(variables):
        raise ValueError(
            f'the directory holds {text.count(len(loaded), "trainable variable")}, and '
            f'a new model, built by forward, has {len(variables)}'
        )
    for variable, array in zip(variables, loaded):
        if variable.shape != array.shape:
            raise ValueError(
                f'{variable.name} is of shape {array.shape} in the directory, and of '
                f'{tuple(variable.shape)} in a new model'
            )
        variable.assign(array)


Rule = Callable[[tf.keras.Model, Graphs], Any]
RULES: Mapping[str, Rule] = {
    'forward makes all variables': own_code.check_variables,
    'a row of scores for each kernel': own_code.check_rows,
    'the same scores each time': check_scores,
    'a kernel without edges': check_without_edges,
    'any number of configurations': check_any_number,
    'the order of configurations': check_order,
    'alone as in a batch': check_batches,
    'gradients': own_code.check_gradients,
}
_FIRST = 3  # where one of these fails, others would, too


@functools.cache
def _make_graphs() -> own_code.Graphs:
    return own_code.Graphs(config.TileConfig(configs=NUM_CONFIGS), _NODES)


def check(model_class: type, kwargs: text.JsonObject) -> Iterator[verdict.Line]:
    """Checks a class of tile models by all rules.

    Args:
        model_class: class of a tile model.
        kwargs: arguments of its constructor.
    """
    name, path = model_class.__name__, registry.find_file(model_class)
    graphs = _make_graphs()
    models: list[tf.keras.Model] = []

    def make() -> None:
        models.extend(build_model(model_class, kwargs, graphs, n) for n in range(2))

    made = try_rule(name, "is made as in the course's script", make, path)
    yield made
    if not made.ok:
        return
    model, other = models
    copied: Rule = functools.partial(check_copy, other=other)
    rules = {**RULES, 'a copy of the saved weights': copied}
    said: set[str] = set()
    for number, (rule, check_rule) in enumerate(rules.items()):
        work: Any = functools.partial(check_rule, model, graphs)
        line = try_rule(name, rule, work, path)
        wrong = line.note.removeprefix(f'{rule}: ')
        if wrong not in said:  # one fault may break several rules
            yield line
        said.add(wrong)
        if not line.ok and number < _FIRST:
            return


def try_rule(
    subject: str, rule: str, work: Callable[[], str | None], path: str = ''
) -> verdict.Line:
    """Tries a rule; its line quotes an error, and names the line of the user's file.

    Args:
        work: returns what to add to the rule, if anything.
        path: of the user's file.
    """
    try:
        return verdict.Line('ok', subject, rule + (work() or ''))
    except (Exception, SystemExit) as error:
        wrong = registry.describe_error(error, path)
        return verdict.Line('FIX', subject, f'{rule}: {wrong}')
