"""The data of a training: draws and packs its steps, and validation lists.

data = open_data(settings)
for drawn in data.draw_steps(epoch=0):
    packed = data.pack(*drawn)
"""

import abc
from collections.abc import Iterator, Mapping, Sequence
import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from baselines import config as config_lib
from baselines import layout
from baselines import tiles
from baselines.core import registry
from baselines.core import text
from baselines.data import families
from baselines.data import hardware
from baselines.data.layout import sampling as layout_sampling
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.data.tile import sampling as tile_sampling
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import column_sets
from baselines.features import normalizer as normalizer_lib
from baselines.features import tile_table
from baselines.hlo import reading
from baselines.runs import run_files
from baselines.tasks import lookup
from baselines.training import init_from
from baselines.training import opening
from baselines.training import progress

if TYPE_CHECKING:
    import tensorflow as tf
    import tensorflow_gnn as tfgnn

    _Packed = Mapping[str, tf.Tensor]
    _Step: TypeAlias = 'int | tf.Tensor'
    _Unpacked = tuple[tfgnn.GraphTensor, tf.Tensor, tf.Tensor | float]

# Steps of kernels between two looks at the progress bar.
_STEPS_PER_CHUNK = 50


class TaskData(abc.ABC):
    """The graphs that a training draws batches from and validates on.

    TensorFlow is imported when graphs are made for a graph model.

    Attributes:
        task: the task of the graphs.
        settings: the training's settings.
        stores: the splits, by name.
        start: the run of --init_from, which also gives the scaling, or None.
        drawable: int64 [training graphs], numbers of configurations to draw from.
        chosen: int64, numbers of the graphs to train on.
        normalizer: scales features.
        num_ops: more than the largest opcode.
        batch: graphs in a step.
        measured_on: processor that measured the runtimes; '' where that is not known.
        weights: float64, how often to draw each graph of `chosen`.
        has_prior: whether the scores of a model are added to a formula's.
        label_scale: the number by which runtimes are divided for the loss.
        patience_steps: fewest steps without a better score before training stops.

    Raises:
        ValueError: no training graph has enough configurations, or the run of
            --init_from does not fit.
    """

    has_prior = False
    label_scale = 1.0
    measured_on = ''
    start: run_files.RunFile | None = None

    def __init__(self, settings: Any, stores: Mapping[str, splits.PackedSplit]):
        self.task: lookup.AnyTask = lookup.TASKS[settings.collection.task]
        self.settings, self.stores = settings, stores
        # Neither is a setting of layouts.
        self.patience_steps: int = getattr(settings, 'early_stop_steps', 0)
        sets = getattr(settings, 'column_sets', [])
        train = stores['train']
        self.drawable = _count_drawable(train, settings)
        # A step draws different configurations, so graphs with fewer are left out.
        self.chosen = np.flatnonzero(self.drawable >= settings.configs)
        if settings.model == registry.TREES:
            self.chosen = self.rankable
        if not len(self.chosen):
            raise ValueError(
                f'{train.source}: nothing has --configs={settings.configs} '
                f'configurations to draw; the most is {self.drawable.max()}'
            )
        self.batch = min(settings.batch, len(self.chosen))
        self.weights = self.compute_weights(self.chosen)
        # The embedding table covers all splits, or validation would meet unknown rows.
        opcodes = [s.max_opcode for split, s in stores.items() if split != 'train']
        self.num_ops = normalizer_lib.count_ops(train.max_opcode[self.chosen], *opcodes)
        self._read = None
        if settings.init_from:
            self.start, scaling = init_from.read_start(settings, train, self.num_ops)
            # Weights mean something only for the scaling that they were trained with.
            self.normalizer, self.num_ops = scaling
        else:
            if sets:  # the graphs read its rows again
                tiles_of_train = cast(tile_store.TileStore, train)
                self._read = tile_table.TileTable(tiles_of_train, sets)
            fit = normalizer_lib.Normalizer.fit
            self.normalizer = fit(train, self.chosen, self._read)

    @functools.cached_property
    def graphs(self) -> dict[str, Any]:
        """The splits as graph models read them, by name; this imports TensorFlow.

        They are None each for trees, which read the splits themselves.
        """
        if self.settings.model == registry.TREES:
            return dict.fromkeys(self.stores)
        return {
            split: self.task.graphs(
                store,
                self.normalizer,
                split == 'train',
                self.has_prior,
                self._read if split == 'train' else None,
            )
            for split, store in self.stores.items()
        }

    @property
    def rankable(self) -> np.ndarray:
        """int64, numbers of the graphs that trees learn from.

        Unlike graph models, trees can use graphs with fewer than `configs`
        configurations, which are often the large ones.
        """
        return np.flatnonzero(self.drawable > 1)

    @property
    def most_multiply_adds(self) -> float | None:
        """Multiply-adds of the largest training graph; None without `has_prior`."""
        if not self.has_prior:
            return None
        return float(self.task.multiply_adds(self.stores['train'], self.rankable).max())

    def compute_weights(self, graphs: np.ndarray) -> np.ndarray:
        """Returns the weights of training graphs, float64 [graphs]; see `families`."""
        programs = self.stores['train'].programs
        names = [families.find_family(programs[graph]) for graph in graphs]
        return families.compute_weights(names, self.settings.family_temperature)

    @property
    @abc.abstractmethod
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""

    @abc.abstractmethod
    def draw_steps(self, epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        """Draws the steps of an epoch; the draws depend on its number alone.

        Yields:
            Arrays [steps, batch, ...] for `pack`: the graphs int64 [steps, batch],
            their configurations int64 [steps, batch, configs], and arrays of the task.
        """

    def pack(self, *drawn: np.ndarray) -> Mapping[str, np.ndarray]:
        """Packs steps that were drawn, or a share of each."""
        return self.graphs['train'].pack(*drawn)

    def make_signature(self) -> dict[str, 'tf.TensorSpec']:
        """Returns the types of packed steps, of any number of graphs."""
        # One step with graph 0 and its configuration 0: types and ranks are the same.
        graph = np.zeros([1, 1], np.int64)
        return tiles.graphs.make_signature(self.pack(graph, graph[..., np.newaxis]))

    def unpack(self, packed: '_Packed', step: '_Step', batch: int) -> '_Unpacked':
        """Cuts a step out of packed ones.

        Returns:
            The graph, labels [batch, configs], and the scores that the model's are
            added to: shaped like labels, or 0.
        """
        graphs = {reading.TILE: tiles.graphs, reading.LAYOUT: layout.graphs}
        unpack = graphs[self.task.name].unpack
        prior = packed['prior'][step] if 'prior' in packed else 0.0
        return (*unpack(packed, step, batch, self.settings.configs), prior)

    def describe_graphs(self) -> str:
        """Describes the training and validation graphs, as text to print."""
        valid, fold = self.stores['valid'], self.settings.fold
        lines = [f'training on {self._describe_graphs()}']
        if valid.has_runtimes:
            graphs = text.count(len(valid), valid.noun)
            of_fold = f' of fold {fold}' if fold else ''
            lines.append(f'validating on {graphs}{of_fold}')
        return '\n'.join(lines)

    @abc.abstractmethod
    def _describe_graphs(self) -> str:
        """Describes the training graphs."""

    def to_json(self) -> text.JsonObject:
        """Returns the fields of a run file on the data and their scaling."""
        settings, train = self.settings, self.stores['train']
        # Numbers of the releases of jaxlib that measured the split, if any did.
        releases = np.unique(train.arrays.get('xla_release', [0]))
        return {
            'data_fingerprint': {k: s.fingerprint for k, s in self.stores.items()},
            'measured_data': settings.sample_data,
            'measured_on': self.measured_on,
            'xla_releases': [int(release) for release in releases if release],
            **splits.Variant.from_store(train).to_json(),
            'normalizer': self.normalizer.to_json(),
            'num_ops': self.num_ops,
        }

    def draw_order(self, rng: np.random.Generator) -> np.ndarray:
        """Returns the graphs of an epoch's steps: int64 [steps, batch].

        Each graph occurs once, in random order, unless --family_temperature is set;
        the last step is filled up.
        """
        # Indices into `chosen`, cut or with the first repeated to fill whole steps.
        order = families.draw_graphs(rng, self.weights)
        return self.chosen[np.resize(order, [self.steps_per_epoch, self.batch])]

    def make_epoch_rng(self, epoch: int) -> np.random.Generator:
        """Makes the random generator of an epoch."""
        # Of both, so that a resumed training draws what it would have drawn.
        return np.random.default_rng([self.settings.seed, epoch])

    @functools.cached_property
    def validated(self) -> list[np.ndarray]:
        """Configurations of the first graphs to validate on, drawn once for all."""
        store, settings = self.stores['valid'], self.settings
        count = len(store) if store.has_runtimes else 0
        if settings.validate_batches >= 0:
            count = min(count, settings.validate_batches * self.batch)
        # A stream of its own, unlike that of any epoch: the lists stay the same when
        # the number of epochs or of drawn configurations changes.
        rng = np.random.default_rng([settings.seed, 2**32 - 1])
        return [
            rng.permutation(configs)[: settings.validation_configs]
            for configs in store.config_counts[:count]
        ]

    def has_choice(self, graph: int, configs: np.ndarray) -> bool:
        """Returns whether configurations of a validation graph differ in features."""
        store = self.stores['valid']
        rows = store.configurations(graph)
        if rows is None:
            rows = store.part('config_feat', graph)
        return bool((rows[configs] != rows[configs][:1]).any())

    def measure_validation(
        self, pairs: Sequence[tuple[np.ndarray, np.ndarray]]
    ) -> progress.Validation:
        """Measures how validation graphs are ranked, without a loss.

        Args:
            pairs: scores and runtimes of the configurations `validated`.
        """
        correct, total = np.sum([metrics.ordered_pairs(*p) for p in pairs], axis=0)
        tau = None
        if self.task.judged_by == 'kendall_tau':
            # NaN, where all scores are equal, counts as 0.
            taus = np.nan_to_num([metrics.kendall_tau(*pair) for pair in pairs])
            # Collections have equal weights, whatever their numbers of programs.
            collection = self.stores['valid'].collection_of[: len(taus)]
            means = [taus[collection == c].mean() for c in np.unique(collection)]
            tau = float(np.mean(means))
        opa = float(correct / total) if total else None
        return progress.Validation(None, opa, tau)


class TileData(TaskData):
    """Kernels, `configs` configurations of each in a step."""

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch; kernels that do not fill one are left out, as published.

        The order differs between epochs, so every kernel is drawn eventually.
        """
        return len(self.chosen) // self.batch

    def draw_steps(self, epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        rng, k = self.make_epoch_rng(epoch), self.settings.configs
        # kernels [steps, batch]; configs [steps * batch, k] -> [steps, batch, k]. Chunk
        # by chunk, so that a long epoch takes no more memory than a short one.
        order = self.draw_order(rng)
        for start in range(0, len(order), _STEPS_PER_CHUNK):
            kernels = order[start : start + _STEPS_PER_CHUNK]
            counts = self.drawable[kernels.reshape(-1)]
            configs = tile_sampling.draw_configs(rng, counts, k)
            yield kernels, configs.reshape(*kernels.shape, k)

    def _describe_graphs(self) -> str:
        configs = text.count(self.drawable[self.chosen].sum(), 'configuration')
        return f'{text.count(len(self.chosen), "kernel")} with {configs}'


class LayoutData(TaskData):
    """Programs, `configs` configurations and a segment of each in a step."""

    label_scale = layout_store.LABEL_SCALE

    def __init__(
        self,
        settings: config_lib.LayoutConfig,
        stores: Mapping[str, layout_store.LayoutStore],
    ):
        self._sampler = layout_sampling.ConfigSampler(
            stores['train'], settings.sampling, settings.max_configs, settings.seed
        )
        self.has_prior = settings.estimate
        super().__init__(settings, stores)

    @property
    def steps_per_epoch(self) -> int:
        """Batches of an epoch, the last one filled up with other programs."""
        return -(-len(self.chosen) // self.batch)

    def draw_steps(self, epoch: int) -> Iterator[tuple[np.ndarray, ...]]:
        rng = self.make_epoch_rng(epoch)
        sizes = np.diff(self.stores['train'].node_offsets)
        # A step at a time: one program can have tens of thousands of nodes.
        for programs in self.draw_order(rng):
            configs = self._sampler.draw_configs(rng, programs, self.settings.configs)
            keep = self.settings.keep_nodes
            kept = layout.graphs.draw_segments(rng, sizes[programs], keep)
            yield tuple(x[np.newaxis] for x in (programs, configs, kept))  # one step

    def _describe_graphs(self) -> str:
        collection = ':'.join(self.settings.collection.flags.values())
        configs = self.drawable[self.chosen].sum()
        return (
            f'{text.count(len(self.chosen), "program")} of {collection} with '
            f'{text.count(configs, "different configuration")}'
        )


# Not in `tasks`, which this package imports: these classes use steps and settings of a
# training.
_DATA: dict[str, type[TaskData]] = {reading.TILE: TileData, reading.LAYOUT: LayoutData}


def make_data(
    settings: config_lib.AnyConfig, stores: Mapping[str, splits.PackedSplit]
) -> TaskData:
    """Makes the data of a training from its opened splits; see `TaskData`."""
    return _DATA[settings.collection.task](settings, stores)


def open_data(settings: config_lib.AnyConfig) -> TaskData:
    """Opens the data of a training.

    Raises:
        ValueError: the data or the run of --init_from are unusable; says why.
        OSError: the cache cannot be written.
    """
    stores = opening.open_splits(settings)
    shipped_task = settings.collection.task if settings.sample_data else ''
    measured_on = hardware.read_measured_on(settings.data_root, shipped_task)
    data = make_data(fit_recipe(settings, stores['train']), stores)
    data.measured_on = measured_on
    return data


def fit_recipe(
    settings: config_lib.AnyConfig, train: splits.PackedSplit
) -> config_lib.AnyConfig:
    """Returns the settings of a recipe, fitted to the data; prints what changed.

    Tiles of a CPU get the column sets for it that are useful.  If fewer than half of
    the graphs have --configs configurations, --configs becomes the number that 85 %
    have.

    Args:
        settings: the training's settings; those without a recipe stay unchanged.
    """
    if not settings.recipe:
        return settings
    changes: dict[str, Any] = {}
    if isinstance(settings, config_lib.TileConfig):
        given = settings.column_sets
        takes = 'tile' in given and not {*given} & {*registry.find_column_sets('cpu')}
        if takes and column_sets.detect_machine(train) == 'cpu':
            sets = column_sets.find(registry.find_column_sets('cpu')).items()
            added = [name for name, columns in sets if columns.is_useful(train)]
            if added:
                changes['columns'] = ','.join([*given, *added])
                print(
                    f'note: --recipe={settings.recipe}: tiles of a CPU; adding '
                    f'--columns={",".join(added)}'
                )
    # With the recipe's number most graphs would not be trained on at all.
    drawable = _count_drawable(train, settings)
    if np.mean(drawable >= settings.configs) < 0.5:
        changes['configs'] = max(2, int(np.quantile(drawable, 0.15)))
        print(
            f'note: --recipe={settings.recipe}: few have {settings.configs} '
            f'configurations to draw; drawing --configs={changes["configs"]}'
        )
    return dataclasses.replace(settings, **changes)


def _count_drawable(
    train: splits.PackedSplit, settings: config_lib.AnyConfig
) -> np.ndarray:
    """Counts the configurations of each graph to draw from, int64 [graphs].

    They are its different ones, up to --max_configs of layouts.
    """
    if isinstance(settings, config_lib.LayoutConfig) and settings.max_configs >= 0:
        return np.minimum(train.group_counts, settings.max_configs)
    return train.group_counts
