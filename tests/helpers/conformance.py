"""What every registered model must do, whatever it ranks: one suite for all.

A task says which models it has and how its graphs are made, and runs the suite
on every one of them, so that a model added later is covered without a line:

    class TileTask(conformance.Task): ...

    @pytest.fixture(scope='module')
    def task(tmp_path_factory):
        return TileTask(tmp_path_factory.mktemp('tile'))

    @pytest.mark.parametrize('name', conformance.parameters(registry.tile_models()))
    class TestTileModels(conformance.ModelSuite):
        ...                             # what only this task asks of its models

A "piece" below is one graph with its configurations, in a form that the task
chooses.
"""

from collections.abc import Mapping
import functools
import pathlib
from typing import Any, NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from baselines.core import registry
from baselines.runs import finding
from baselines.runs import saved
from baselines.runs import weights
from baselines.training import losses
from tests.helpers import finished_runs

NUM_CONFIGS = 4

# Two layers are enough to have a first and a later one; to be saved, one of each.
SMALL = {'num_gnns': 2, 'head_blocks': 1}
_TINY = {'num_gnns': 1, 'node_gnns': 1, 'head_blocks': 1}

# These are tried by the quick tests, too.
_QUICK = ('EarlyJoinSAGE', 'ResModel')

# Pieces without edges, of either task.
_EDGELESS = ('no_edges', 'single_node')


def distinct(models: Mapping[str, type]) -> list[str]:
    """Returns names of the different classes; of two for one class the first."""
    return list(registry.distinct(models))


def parameters(models: Mapping[str, type]) -> list[Any]:
    """Returns those for `parametrize`; all but the published ones are slow."""
    return [
        pytest.param(name, marks=[] if name in _QUICK else pytest.mark.slow)
        for name in distinct(models)
    ]


class Task:
    """How a task makes its models and graphs; a subclass has, besides `num_ops`:

    models(): the registered models, by name.
    make_pieces(): ordinary and odd graphs by name, of NUM_CONFIGS configurations each.
    graph(pieces): a GraphTensor of pieces.
    choose(piece, configs): the piece with some of its configurations, in that order.

    Args:
        folder: where models may be saved.

    Attributes:
        pieces: from `make_pieces`, once.
    """

    num_ops: int  # of the opcodes in all pieces, 1 + the largest
    models: Any
    make_pieces: Any
    graph: Any
    choose: Any

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.pieces: dict[str, Any] = self.make_pieces()

    @functools.cache
    def batch(self, *names: str):
        """Merges pieces, by default all of them, into one graph, which is kept."""
        return self.graph([self.pieces[name] for name in names or self.pieces])

    def make(self, name: str, **kwargs) -> tf.keras.Model:
        """Makes a model, always the same; drops keywords that it lacks."""
        tf.keras.utils.set_random_seed(0)
        model_class = self.models()[name]
        options = registry.options(model_class)
        kwargs = {key: v for key, v in kwargs.items() if key in options}
        model = model_class(NUM_CONFIGS, self.num_ops, **kwargs)
        model(self.batch(next(iter(self.pieces))))  # so that Keras can save it
        return model

    @functools.cache
    def shared(self, name: str) -> tf.keras.Model:
        """Returns a model whose variables stay as they are; biases are not 0."""
        return _shaken(self.make(name, **SMALL))

    @functools.cache
    def rounding(self, name: str) -> float:
        """Bounds how far apart evaluations of the shared model's scores may be."""
        model = self.shared(name)
        return max(rounding(model, self.batch(name)) for name in self.pieces)

    @functools.cached_property
    def models_of_new_layers(self) -> list[str]:
        """Models with a kind of layer that no model before them has."""
        kinds: set[type] = set()
        names = []
        for name in distinct(self.models()):
            layers = set(map(type, self.shared(name).submodules))
            if layers - kinds:
                names.append(name)
            kinds |= layers
        return names

    @functools.cache
    def saved(self, name: str) -> 'Saved':
        """Saves a tiny model as a run.

        Keras traces all calls of a model and of its layers, which takes most of the
        time: here it does so once for a kind of layer.
        """
        model = _shaken(self.make(name, **_TINY))
        variables = list(map(id, model.trainable_variables))
        info = {'args': {'model': name, 'configs': NUM_CONFIGS}}
        with pytest.MonkeyPatch.context() as patch:
            if name not in self.models_of_new_layers:
                patch.setattr(saved, 'save_model', finished_runs.save_weights)
            run = saved.save(str(self.folder), f'{name}0', info, model)
        return Saved(model, variables, run.model_dir)


class Saved(NamedTuple):
    """A model that was saved."""

    model: tf.keras.Model
    variables: list[int]  # its trainable ones before, by identity
    model_dir: str


def _shaken(model: tf.keras.Model) -> tf.keras.Model:
    """Adds noise to the variables of a model, and returns it."""
    rng = np.random.default_rng(0)
    for variable in model.trainable_variables:
        noise = rng.normal(0, 0.1, variable.shape).astype(np.float32)
        variable.assign_add(noise)
    return model


def _scores(model, graph, configs=NUM_CONFIGS):
    scores = model.forward(graph, configs)
    assert scores.dtype == tf.float32
    return scores.numpy()


def depends_on_list(model) -> bool:
    """Returns whether scores depend on which configurations are in the list."""
    return getattr(model, 'scores_depend_on_list', False)


def rounding(model: tf.keras.Model, graph) -> float:
    """Bounds how far apart two float32 evaluations of a score may be.

    A score is built from products with weights.  Where the terms of a sum cancel,
    its error does not: it is a share of the sum of the terms' absolute values.  Of
    all sums together that is sum_w |w ds/dw|.  A share of 2^-24 is lost n times
    along the way, n the lengths of all sums; roundings that do not agree add up to
    that times sqrt(n), and to more than 6 sqrt(n) once in 10^7 times
    (Higham & Mary, SIAM J. Sci. Comput. 41, 2019).

    Args:
        model: with its variables.
        graph: of one piece.
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


def assert_close(scores, expected, tolerance):
    """Checks that scores are equal but for an absolute error."""
    np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance)


class ModelSuite:
    """The tests; a subclass is parametrised with `name`."""

    def test_scores_are_one_row_per_graph(self, task, name):
        scores = task.shared(name)(task.batch())
        assert scores.shape == [len(task.pieces), NUM_CONFIGS]
        assert np.isfinite(scores).all()
        assert np.ptp(scores, axis=1).min() > 0, 'configurations do not matter'

    def test_forward_takes_any_number_of_configurations(self, task, name):
        model = task.shared(name)
        key, piece = list(task.pieces.items())[1]
        whole = model(task.batch(key)).numpy()
        assert_close(_scores(model, task.batch(key)), whole, task.rounding(name))
        for chosen in ([2], [0, 1, 2, 3, 3, 1, 0]):
            graph = task.graph([task.choose(piece, chosen)])
            scores = _scores(model, graph, len(chosen))
            assert scores.shape == (1, len(chosen))
            if not depends_on_list(model):
                assert_close(scores, whole[:, chosen], task.rounding(name))

    def test_says_whether_scores_depend_on_the_list(self, task, name):
        model = task.shared(name)
        key, piece = list(task.pieces.items())[1]
        whole = model(task.batch(key)).numpy()
        part = _scores(model, task.graph([task.choose(piece, [0, 1])]), 2)
        same = np.abs(part - whole[:, :2]).max() <= task.rounding(name)
        assert same != depends_on_list(model)

    def test_order_of_configurations_does_not_matter(self, task, name):
        model = task.shared(name)
        order = [2, 0, 3, 1]
        permuted = [task.choose(piece, order) for piece in task.pieces.values()]
        assert_close(
            model(task.graph(permuted)),
            model(task.batch()).numpy()[:, order],
            task.rounding(name),
        )

    def test_alone_as_in_a_batch(self, task, name):
        model = task.shared(name)
        together = model(task.batch()).numpy()
        for row, key in zip(together, task.pieces):
            assert_close(_scores(model, task.batch(key))[0], row, task.rounding(name))
        turned = task.batch(*reversed(list(task.pieces)))
        assert_close(model(turned), together[::-1], task.rounding(name))

    def test_training_does_not_change_scores(self, task, name):
        model = task.shared(name)
        graph = task.batch()
        assert_close(
            model(graph, training=True), model(graph).numpy(), task.rounding(name)
        )

    @pytest.mark.parametrize('dead', [False, True])
    def test_gradients_are_finite(self, task, name, dead):
        """Also where a graph is odd, and where no unit is active."""
        model = task.shared(name)
        if dead:
            model = task.make(name, hidden_activation='relu', **SMALL)
            for variable in model.trainable_variables:
                if variable.shape.rank == 1:
                    variable.assign(tf.fill(variable.shape, -100.0))
        loss = losses.CombinedLoss('ListMLELoss:1,MSE:0.02')
        # Alone: those whose lists of edges are empty; next to others none is.
        edgeless = [] if dead else [key for key in task.pieces if key in _EDGELESS]
        for key in [*edgeless, 'all']:
            graph = task.batch(*([] if key == 'all' else [key]))
            with tf.GradientTape() as tape:
                scores = model(graph, training=True)
                labels = tf.range(1.0, NUM_CONFIGS + 1) + tf.zeros_like(scores)
                total = tf.add_n([loss(labels, scores), *model.losses])
            assert np.isfinite(scores).all() and np.isfinite(total), key
            gradients = tape.gradient(total, model.trainable_variables)
            for variable, gradient in zip(model.trainable_variables, gradients):
                assert gradient is not None, (key, variable.name)
                gradient = tf.convert_to_tensor(gradient)
                assert np.isfinite(gradient).all(), (key, variable.name)

    @pytest.mark.slow
    def test_save_and_load_give_the_same_scores(self, task, name):
        graph = task.batch()
        model, variables, model_dir = task.saved(name)
        run = finding.load(model_dir)
        assert run.args['model'] == name
        fresh = task.make(name, **_TINY)
        expected = model(graph).numpy()
        assert np.abs(fresh(graph) - expected).max() > 1e-3
        weights.read(run, fresh)
        np.testing.assert_array_equal(fresh(graph), expected)
        # All calls, and the traces that a SavedModel holds, have made no new ones.
        assert list(map(id, model.trainable_variables)) == variables != []
        assert len(model.variables) == len(variables), 'all state is trained'
