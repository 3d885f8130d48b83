"""The data of a training: what is drawn, packed and validated on.

data, start = open_data(settings)
for drawn in data.draws(epoch=0):
    packed = data.pack(*drawn)
"""

import abc
import dataclasses
import functools
import importlib
from typing import (
    Any,
    Dict,
    Generic,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Protocol,
    Tuple,
    Type,
    TypeVar,
)

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines.data import collections
from baselines.data import folds
from baselines.data import stores as stores_lib
from baselines.data import variants
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.runs import tasks
from baselines.training import init_from


class Sampler(Protocol):
    """Draws configurations of training graphs; a task knows how."""

    @property
    def counts(self) -> np.ndarray:
        """int64 [graphs], how many can be drawn of each."""


class Scaling(NamedTuple):
    """What models are shown of features: scales, and opcodes below `num_ops`."""

    normalizer: normalizer_lib.Normalizer
    num_ops: int


# What a task's graph models read.
Graphs = TypeVar('Graphs')


class TaskData(abc.ABC, Generic[tasks.Store, Graphs]):
    """The graphs that a training draws from, and validates on.

    Attributes:
        task: whose graphs they are.
        settings: of the training.
        stores: the splits, by name.
        sampler: draws configurations of training graphs.
        chosen: int64, numbers of the graphs to train on.
        normalizer: scales features.
        num_ops: more than the largest opcode.
        graphs: the splits as models read them, by name.
        batch: graphs in a step.
        temperature: what the ranking losses divide scores by.
        label_scale: what runtimes are divided by for the loss.

    Args:
        settings: of the training.
        stores: the splits, by name.
        sampler: draws configurations of training graphs.
        chosen: numbers of the graphs to train on.
        scaling: what models are shown of features.
    """

    task: tasks.Task[tasks.Store]
    temperature: float
    label_scale = 1.0

    def __init__(
        self,
        settings: config_lib.AnyConfig,
        stores: Mapping[str, tasks.Store],
        sampler: Sampler,
        chosen: np.ndarray,
        scaling: Scaling,
    ):
        self.task = tasks.of(settings.collection)
        self.settings, self.stores = settings, stores
        self.sampler, self.chosen = sampler, chosen
        self.normalizer, self.num_ops = scaling
        self.graphs = {
            split: self.task.graphs(store, self.normalizer, split == 'train')
            for split, store in stores.items()
        }
        self.batch = min(settings.batch, len(self.chosen))

    # What differs between tiles and layouts.

    @staticmethod
    @abc.abstractmethod
    def make_sampler(settings: Any, train: tasks.Store) -> Sampler:
        """Returns what draws configurations, as the settings ask for."""

    @staticmethod
    @abc.abstractmethod
    def feature_options(settings: Any, train: tasks.Store) -> Dict[str, Any]:
        """Returns what the settings ask of `Normalizer.fit`."""

    @property
    def patience_steps(self) -> int:
        """Fewest steps without a better score before training stops."""
        return 0

    @property
    @abc.abstractmethod
    def steps_per_epoch(self) -> int:
        """How many batches make an epoch."""

    @abc.abstractmethod
    def draws(self, epoch: int) -> Iterator[Tuple[np.ndarray, ...]]:
        """Draws the steps of an epoch; the same number draws the same.

        Yields:
            Arrays [steps, batch, ...] for `pack`: the graphs int64 [steps, batch],
            their configurations int64 [steps, batch, configs], and what a task adds.
        """

    @abc.abstractmethod
    def pack(self, *drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """Packs steps that were drawn, or a share of each."""

    @abc.abstractmethod
    def signature(self, batch: int) -> Dict[str, tf.TensorSpec]:
        """Returns the types of packed steps of so many graphs."""

    @abc.abstractmethod
    def unpack(
        self, packed: Mapping[str, tf.Tensor], step: Any, batch: int
    ) -> Tuple[Any, tf.Tensor]:
        """Cuts a step out of packed ones: graph, and labels [batch, configs]."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Says what is trained on, for people."""

    def model_scorer(self, model: tf.keras.Model) -> tasks.ModelScorer:
        """Returns what scores the graphs with a model."""
        return self.task.model_scorer(model)

    # What does not.

    def order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the graphs of an epoch's steps: int64 [steps, batch].

        Each graph comes once in random order; the last step is filled up.
        """
        order = rng.permutation(len(self.chosen))
        return self.chosen[np.resize(order, [self.steps_per_epoch, self.batch])]

    def epoch_rng(self, epoch: int) -> np.random.Generator:
        """Returns the source of an epoch's randomness."""
        return np.random.default_rng([self.settings.seed, epoch])

    @functools.cached_property
    def validated(self) -> List[np.ndarray]:
        """Configurations of the first graphs to validate on, drawn once for all."""
        store, settings = self.stores['valid'], self.settings
        count = store.num_graphs if store.has_runtimes else 0
        if settings.validate_batches >= 0:
            count = min(count, settings.validate_batches * self.batch)
        rng = np.random.default_rng([settings.seed, 2**32 - 1])
        return [
            rng.permutation(configs)[: settings.validation_configs]
            for configs in store.config_counts[:count]
        ]


def open_data(
    settings: config_lib.AnyConfig,
) -> Tuple[TaskData, Optional[init_from.Start]]:
    """Opens the data of a training.

    Args:
        settings: of the training.

    Returns:
        The data, whose `settings` may draw fewer configurations than a recipe says;
        and the run of --init_from, whose scaling they have, or None.

    Raises:
        ValueError: the data or that run are unusable; says why.
        OSError: the cache cannot be written.
    """
    kind = class_of(settings)
    stores = _open_splits(settings)
    train = stores['train']
    sampler = kind.make_sampler(settings, train)
    if settings.recipe:
        settings = fitted(settings, sampler.counts)
    chosen = _chosen(settings, train, sampler.counts)
    opcodes = [stores[split].max_opcode for split in ('valid', 'test')]
    num_ops = normalizer_lib.num_ops(train.max_opcode[chosen], *opcodes)
    start = None
    if settings.init_from:
        start = init_from.read(settings, train, num_ops)
        scaling = Scaling(start.normalizer, start.num_ops)
    else:
        options = kind.feature_options(settings, train)
        normalizer = normalizer_lib.Normalizer.fit(train, chosen, **options)
        scaling = Scaling(normalizer, num_ops)
    return kind(settings, stores, sampler, chosen, scaling), start


def _chosen(
    settings: config_lib.AnyConfig, train: splits.PackedSplit, drawable: np.ndarray
) -> np.ndarray:
    """Returns the numbers of the graphs that have enough to draw, int64.

    Raises:
        ValueError: none has.
    """
    chosen = np.flatnonzero(drawable >= settings.configs)
    if not len(chosen):
        raise ValueError(
            f'{train.source}: nothing has --configs={settings.configs} '
            f'configurations to draw; the most is {drawable.max()}'
        )
    return chosen


def class_of(settings: config_lib.AnyConfig) -> Type[TaskData]:
    """Returns the data of a collection's task; the other is not imported."""
    name = f'baselines.training.{settings.collection.task}_data'
    return importlib.import_module(name).DATA


def _open_splits(settings: config_lib.AnyConfig) -> Dict[str, splits.PackedSplit]:
    """Opens the splits, those of a fold, and makes sure that they belong together."""
    collection = settings.collection
    whole = {
        split: stores_lib.open_split(collection, settings, split)
        for split in collections.SPLITS
    }
    program_of = tasks.of(collection).program_of
    stores = folds.with_fold(settings.fold, whole, program_of, settings.cache_dir)
    train, test = stores['train'], stores['test']
    variant = variants.Variant.of(train)
    for store in stores.values():
        variant.check(store, f'is in {train.source}')
    if not train.has_runtimes:
        raise ValueError(f'{train.source}: all runtimes are 0; nothing to learn')
    if settings.test_mode == 'metrics' and not test.has_runtimes:
        raise ValueError(
            f'--test_mode=metrics: all runtimes in {test.source} are 0, as they '
            'are in the published test files; use --test_mode=predictions'
        )
    return stores


def fitted(
    settings: config_lib.AnyConfig, drawable: np.ndarray
) -> config_lib.AnyConfig:
    """Returns a recipe's settings for graphs that may have few configurations.

    Where fewer than half have --configs of them, it is as many as 85 % have.
    """
    if np.mean(drawable >= settings.configs) >= 0.5:
        return settings
    configs = max(2, int(np.quantile(drawable, 0.15)))
    print(
        f'note: --recipe={settings.recipe}: few have {settings.configs} configurations '
        f'to draw; drawing --configs={configs}'
    )
    return dataclasses.replace(settings, configs=configs)
