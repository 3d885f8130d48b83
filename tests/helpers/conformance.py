"""What every registered model must do, whatever it ranks: one suite for all.

The rules are those of `tpugraphs check`.  A task says which models it has and how its
graphs are made, and runs the suite on every one of them, so that a model added later is
covered without a line:

    class TileTask(conformance.Task): ...

    @pytest.fixture(scope='module')
    def task(tmp_path_factory):
        return TileTask(tmp_path_factory.mktemp('tile'))

    models = registry.find_models('tiles')

    @pytest.mark.parametrize('name', conformance.parameters(models))
    class TestTileModels(conformance.ModelSuite):
        ...                             # what only this task asks of its models

A "piece" below is one graph with its configurations, in a form that the task
chooses.
"""

from collections.abc import Mapping
import functools
import pathlib
import types
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from baselines.core import registry
from baselines.runs import finding
from baselines.runs import saved
from baselines.runs import weights
from baselines.training import own_code
from tests.helpers import finished_runs
from tpugraphs.handin import conformance

NUM_CONFIGS = conformance.NUM_CONFIGS

# Two layers are enough to have a first and a later one; to be saved, one of each.
SMALL = {'num_gnns': 2, 'head_blocks': 1}
_TINY = {'num_gnns': 1, 'node_gnns': 1, 'head_blocks': 1, 'mlp_layers': 1}

# These are tried by the quick tests, too.
_QUICK = ('EarlyJoinSAGE', 'ResModel')


def distinct(models: Mapping[str, type]) -> list[str]:
    """Returns names of the different classes; of two for one class the first."""
    return list(registry.drop_aliases(models))


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
    merged(pieces): a GraphTensor of pieces.
    choose(piece, configs): the piece with some of its configurations, in that order.

    Args:
        folder: where models may be saved.

    Attributes:
        pieces: from `make_pieces`, once.
    """

    num_configs = NUM_CONFIGS
    num_ops: int  # of the opcodes in all pieces, 1 + the largest
    models: Any
    make_pieces: Any
    merged: Any
    choose: Any

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.pieces: dict[str, Any] = self.make_pieces()
        self.names = tuple(self.pieces)

    @functools.cache
    def graph(self, names, configs=tuple(range(NUM_CONFIGS))):
        """Merges pieces with some of their configurations; see the library's `Graphs`.

        Graphs are kept.
        """
        chosen = [self.choose(self.pieces[name], configs) for name in names]
        return self.merged(chosen)

    def batch(self):
        """Merges all pieces."""
        return self.graph(self.names)

    def make(self, name: str, **kwargs) -> tf.keras.Model:
        """Makes a model, always the same; drops keywords that it lacks."""
        model_class = self.models()[name]
        options = registry.list_options(model_class)
        kwargs = {key: v for key, v in kwargs.items() if key in options}
        return conformance.build_model(model_class, kwargs, self)

    @functools.cache
    def shared(self, name: str) -> tf.keras.Model:
        """Returns a model whose variables stay as they are; biases are not 0."""
        return self.make(name, **SMALL)

    @functools.cache
    def rounding(self, name: str) -> float:
        """Bounds how far apart evaluations of the shared model's scores may be."""
        model = self.shared(name)
        graphs = [self.graph((piece,)) for piece in self.pieces]
        return max(conformance.bound_error(model, graph) for graph in graphs)

    @functools.cached_property
    def representatives(self) -> set[str]:
        """Names published models, and the last of each file that defines layers."""
        last = {}
        for name in distinct(self.models()):
            module = self.models()[name].__module__
            if module in {
                type(part).__module__ for part in self.shared(name).submodules
            }:
                last[module] = name
        return {*_QUICK, *last.values()}


def assert_close(scores, expected, tolerance):
    """Checks that scores are equal but for an absolute error."""
    np.testing.assert_allclose(scores, expected, rtol=0, atol=tolerance)


class ModelSuite:
    """The tests; a subclass is parametrised with `name`."""

    @pytest.mark.parametrize('rule', conformance.RULES)
    def test_keeps_the_contract(self, task, name, rule):
        conformance.RULES[rule](task.shared(name), task)

    def test_says_whether_scores_depend_on_the_list(self, task, name):
        model, key = task.shared(name), task.names[-1]
        graph = task.graph((key,))
        alone = model.forward(task.graph((key,), (0,)), 1).numpy()
        most = np.abs(alone - model(graph).numpy()[:, :1]).max()
        same = most <= conformance.bound_error(model, graph)
        assert same != getattr(model, 'scores_depend_on_list', False)

    def test_training_does_not_change_scores(self, task, name):
        model = task.shared(name)
        graph = task.batch()
        assert_close(
            model(graph, training=True), model(graph).numpy(), task.rounding(name)
        )

    def test_gradients_are_finite_where_no_unit_is_active(self, task, name):
        model = task.make(name, hidden_activation='relu', **SMALL)
        for variable in model.trainable_variables:
            if variable.shape.rank == 1:
                variable.assign(tf.fill(variable.shape, -100.0))
        batch = types.SimpleNamespace(
            names=(), num_configs=NUM_CONFIGS, graph=lambda *unused: task.batch()
        )
        own_code.check_gradients(model, batch)

    @pytest.mark.slow
    def test_save_and_load_give_the_same_scores(self, task, name, monkeypatch):
        graph, model = task.batch(), task.make(name, **_TINY)
        model(graph)  # Keras saves only then
        assert not model.non_trainable_variables, 'a grader copies trainable ones'
        variables = list(map(id, model.trainable_variables))
        info = {'args': {'model': name, 'configs': NUM_CONFIGS}}
        # Keras traces all calls of a model and of its layers, which takes most of the
        # time: here it does so once for a file of models.
        if name not in task.representatives:
            monkeypatch.setattr(saved, 'save_model', finished_runs.save_weights)
        run = saved.save_run(str(task.folder), f'{name}0', info, model)
        run = finding.load(run.model_dir)
        assert run.args['model'] == name
        fresh = task.make(name, **_TINY)
        for variable in fresh.trainable_variables:
            variable.assign(tf.zeros_like(variable))
        expected = model(graph).numpy()
        assert np.abs(fresh(graph) - expected).max() > 1e-3
        weights.read_weights(run, fresh)
        np.testing.assert_array_equal(fresh(graph), expected)
        # All calls, and the traces that a SavedModel holds, have made no new ones.
        assert list(map(id, model.trainable_variables)) == variables != []
