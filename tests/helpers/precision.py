"""How precise the scores of trained models are, and in what they are computed.

A process of its own scores in float64:

  python -m tests.helpers.precision tile FOLDER
"""

import functools
import importlib
import pathlib
import subprocess
import sys
from typing import Dict, Iterable

import numpy as np
import tensorflow as tf

from baselines import registry
from baselines.features import normalizer as normalizer_lib
from baselines.layout import graphs as layout_graphs
from baselines.runs import opening
from baselines.tiles import graphs as tile_graphs
from baselines.training import losses
from tests.helpers import places

# Graphs that are compared, and configurations of each.
GRAPHS, CONFIGS = 2, 100
_NUM_OPS = 256
_EXACT = 'exact.npz'


class Models:
    """Models of a task, briefly trained on synthetic graphs, and their scores.

    Args:
        kind: 'tile' or 'layout'.
        folder: with the graphs in `data`; trained weights are kept there, too.
    """

    def __init__(self, kind: str, folder: pathlib.Path):
        self._kind, self._folder = kind, pathlib.Path(folder)
        self._task = importlib.import_module(f'baselines.runs.{kind}_task').TASK
        self._store = opening.STORES[kind].open(
            str(self._folder / 'data' / SUBFOLDERS[kind]), str(self._folder / 'cache')
        )
        columns = dict(estimate=True, tile_columns=True) if kind == 'tile' else {}
        self._normalizer = normalizer_lib.Normalizer.fit(self._store, **columns)
        self._graphs = self._task.graphs(self._store, self._normalizer)
        if kind == 'tile':
            self._pack, self._unpack = self._graphs.training_items, tile_graphs.unpack
        else:
            self._pack = layout_graphs.LayoutGraphs(self._graphs).items
            self._unpack = layout_graphs.unpack

    @functools.lru_cache(maxsize=None)
    def load(self, name: str) -> tf.keras.Model:
        """Makes a model; trains it, or takes the weights that training left."""
        tf.keras.utils.set_random_seed(0)
        model = self._task.make_model(name, {}, '', CONFIGS, _NUM_OPS, self._normalizer)
        path = self._folder / f'{name}.npz'
        if path.exists():
            with np.load(path) as stored:
                for variable, array in zip(model.variables, stored.values()):
                    variable.assign(array)
        else:
            self._train(model)
            np.savez(path, *[variable.numpy() for variable in model.variables])
        return model

    def _train(self, model: tf.keras.Model, steps: int = 3) -> None:
        """Spreads the scores: of near ties, rounding decides on some machine."""
        loss = losses.CombinedLoss('ListMLELoss', temperature=1)
        adam = tf.keras.optimizers.legacy.Adam(3e-3, global_clipnorm=1.0)
        rng = np.random.default_rng(0)
        for step in range(steps):
            chosen = np.sort(rng.choice(CONFIGS, 16, replace=False))
            graph, labels = self._batch([step % GRAPHS], chosen)
            with tf.GradientTape() as tape:
                value = loss(labels, model.forward(graph, len(chosen)))
            variables = model.trainable_variables
            adam.apply_gradients(zip(tape.gradient(value, variables), variables))

    def _batch(self, numbers: Iterable[int], configs: np.ndarray):
        numbers = np.array(numbers)[np.newaxis]
        packed = self._pack(
            numbers, np.tile(configs, (*numbers.shape, 1)).astype(np.int64)
        )
        tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
        return self._unpack(tensors, 0, numbers.size, len(configs))

    def alone(self, model: tf.keras.Model) -> np.ndarray:
        """Each graph by itself, all configurations at once: [GRAPHS, CONFIGS]."""
        graphs = [self._batch([n], np.arange(CONFIGS))[0] for n in range(GRAPHS)]
        return np.concatenate([model.forward(graph, CONFIGS) for graph in graphs])

    def in_a_batch(self, model: tf.keras.Model) -> np.ndarray:
        """All graphs merged into one."""
        return model(self._batch(range(GRAPHS), np.arange(CONFIGS))[0]).numpy()

    @functools.lru_cache(maxsize=None)
    def exact(self) -> Dict[str, np.ndarray]:
        """`alone` by name, in float64; without models that cannot be evaluated so."""
        for name in names(self._kind):
            if not (self._folder / f'{name}.npz').exists():
                self.load(name)
        done = subprocess.run(
            [sys.executable, '-m', __name__, self._kind, str(self._folder)],
            cwd=places.ROOT,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr
        with np.load(self._folder / _EXACT) as stored:
            return {name: stored[name] for name in stored.files}


SUBFOLDERS = {'tile': 'valid', 'layout': 'xla/random/valid'}


def names(kind: str):
    """The registered models, each class once."""
    models = {'tile': registry.tile_models, 'layout': registry.layout_models}[kind]()
    return list(registry.distinct(models))


class Suite:
    """The tests; a subclass is parametrised with `name`, and has `models`."""

    def test_rounding_does_not_decide(self, models, name):
        """Errors below 1e-3 of the spread, changed pairs below 1e-4."""
        model = models.load(name)
        ways = {'alone': models.alone(model), 'in a batch': models.in_a_batch(model)}
        exact = models.exact().get(name, ways['alone'])
        spread = np.ptp(exact, axis=1, keepdims=True)
        assert spread.min() > 0, 'nothing was learnt'
        for way, scores in ways.items():
            assert (np.abs(scores - exact) / spread).max() < 1e-3, way
            assert changed_pairs(scores, exact) < 1e-4, way


def changed_pairs(scores: np.ndarray, exact: np.ndarray) -> float:
    """Share of pairs of a row that are in the other order."""
    above, wanted = (x[:, :, np.newaxis] - x[:, np.newaxis] for x in (scores, exact))
    return float((above * wanted < 0).mean())


def _main(kind: str, folder: str) -> None:
    _use_float64()
    models = Models(kind, pathlib.Path(folder))
    found = {}
    for name in names(kind):
        try:
            found[name] = models.alone(models.load(name))
        except (TypeError, ValueError, tf.errors.InvalidArgumentError) as error:
            print(f'{name}: {error}', file=sys.stderr)
    np.savez(pathlib.Path(folder) / _EXACT, **found)


def _use_float64() -> None:
    """What models call float32, and every number without a type, is float64."""

    def of_value(plain, position=0):
        def convert(*args, **kwargs):
            value = args[position]
            if len(args) == position + 1 and 'dtype' not in kwargs:
                if not tf.is_tensor(value) and np.asarray(value).dtype.kind == 'f':
                    args = (*args[:position], np.asarray(value, np.float64))
            return plain(*args, **kwargs)

        return convert

    def of_shape(plain, others=1):
        def convert(*args, **kwargs):
            if len(args) <= others:
                kwargs.setdefault('dtype', tf.float64)
            return plain(*args, **kwargs)

        return convert

    tf.keras.backend.set_floatx('float64')
    tf.float32 = tf.float64
    tf.constant = of_value(tf.constant)
    tf.convert_to_tensor = of_value(tf.convert_to_tensor)
    tf.fill = of_value(tf.fill, position=1)
    tf.ones, tf.zeros = of_shape(tf.ones), of_shape(tf.zeros)
    tf.one_hot = of_shape(tf.one_hot, others=5)


if __name__ == '__main__':
    _main(*sys.argv[1:])
