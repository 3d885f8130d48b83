"""Measured graphs, and how well scores rank their configurations.

Times of a graph are taken twice: halves of the passes over its configurations.  One
half is what a tuner or the clock itself ranks by, the other half judges; so noise makes
nobody look better.
"""

from collections.abc import Mapping, Sequence
import os
import pathlib
import types
from typing import Any, NamedTuple

import numpy as np

from baselines.core import starting
from baselines.data import shipped
from baselines.data.layout import store as layout_store
from baselines.data.tile import records
from baselines.data.tile import store as tile_store
from baselines.evaluation import metrics
from baselines.features import tile_table
from baselines.hlo import schema
from baselines.layout import estimate as layout_estimate
from lab.benchmarks import time_saved
from tests.helpers import layout_files
import tpugraphs_lab
from tpugraphs_lab.measure import collection_folder

Scores = list[np.ndarray]  # of each graph: [configurations], lower = faster
SAMPLE_DATA = ('tile', 'layout')
_MEASURED = 10
# The first figures of `tile_figures` and `layout_figures`.
FIGURES = {
    'tile': (
        *('top-1 error', 'top-5 error', 'OPA', 'tau', 'gain with ten measured'),
        *('time saved, first choice', 'time saved, ten measured'),
    ),
    'layout': ('tau', 'slowdown@1', 'slowdown@10'),
}
# Of `tile_figures`: what a figure is a part of.
TILE_WHOLES = {4: 7, 5: 8, 6: 8}
_OPCODES = ('concatenate', 'transpose', 'gather', 'reduce-window', 'dot', 'reduce')
_OPCODES += ('broadcast', 'maximum', 'convolution', 'slice', 'pad')
_SIZES = schema.NODE.at('shape_dimensions_0')
_DIMENSIONS = schema.NODE.at('dimensions_0')
_GROUPS = schema.NODE.at('feature_group_count')
_BF16 = schema.NODE.at('shape_element_type_is_bf16')
_DRAWS = 20
_BOOTSTRAPS = 1000


class Graph(NamedTuple):
    """A measured kernel or program.

    Attributes:
        name: its graph id.
        path: of its npz file.
        program: what a kernel is cut from; a program itself.
        origin: who wrote the program.
        split: train, valid or test.
        halves: nanoseconds [2, configurations].
        default: the number of XLA's own configuration.
        jaxlib: the release that measured it.
    """

    name: str
    path: str
    program: str
    origin: str
    split: str
    halves: np.ndarray
    default: int
    jaxlib: str


def folder_of(archive: str) -> str:
    """Returns the folder of an archive, unpacked: 'tile', 'by_others', ..."""
    return shipped.find_folder(path_of(archive))


def path_of(archive: str) -> str:
    """Returns the path of an archive: sample data, or one of the laboratory."""
    if archive in SAMPLE_DATA:
        return shipped.find_archive(archive)
    folder = pathlib.Path(tpugraphs_lab.__path__[0], 'archives')
    return str(folder / f'{archive}.zip')


def load(archive: str, split: str = '') -> list[Graph]:
    """Returns the graphs of an archive, or of a split of it, by name."""
    root = folder_of(archive)
    measured = collection_folder.read_sidecar(root)['kernels']
    return [
        Graph(
            name,
            os.path.join(root, graph['file']),
            graph['program'],
            graph['origin'],
            graph['split'],
            np.array(graph['halves']),
            graph.get('default', 0),  # collected before configurations were shuffled
            graph.get('jaxlib', ''),
        )
        for name, graph in sorted(measured.items())
        if split in ('', graph['split'])
    ]


def store_of(graphs: Sequence[Graph]) -> tile_store.TileStore:
    """Returns kernels as a split."""
    kernels = [records.TileRecord.read(graph.path) for graph in graphs]
    return tile_store.TileStore.from_records('measured', kernels)


# How scores of a graph are judged ----------------------------------------------


def tile_figures(graph: Graph, scores: np.ndarray) -> list[float]:
    """Returns top-1 and top-5 error, OPA, tau, a log speed-up, savings, and wholes.

    The speed-up over the default is of the best of ten that are measured, next to the
    default.  Savings are the nanoseconds of the first choice and of the best of those
    ten.  The last two are the speed-up and the saving of the best of all:
    `TILE_WHOLES` for `summary`.
    """
    search, judge = graph.halves
    correct, total = metrics.ordered_pairs(scores, judge)
    speedups = np.log(judge[graph.default] / judge)
    # The default is known in any case, and measured first.
    tried = np.where(np.arange(len(scores)) == graph.default, -np.inf, scores)
    saved = time_saved.time_saved(scores, search, judge, graph.default, _MEASURED)
    return [
        metrics.top_k_error(scores, judge, 1),
        metrics.top_k_error(scores, judge, 5),
        correct / max(total, 1),
        tau_of(scores, judge),
        metrics.expected_best(tried, search, 1 + _MEASURED, speedups),
        saved.first,
        saved.measured,
        float(speedups[search.argmin()]),
        saved.possible,
    ]


def size_class(graph: Graph) -> str:
    """Returns the class of a kernel's time with XLA's default."""
    return time_saved.size_class(graph.halves[:, graph.default].min())


def tau_of(scores: np.ndarray, judge: np.ndarray) -> float:
    """Returns Kendall's tau; 0 where all scores are equal, which order nothing."""
    tau = metrics.kendall_tau(scores, judge)
    return 0.0 if np.isnan(tau) else tau


def layout_figures(graph: Graph, scores: np.ndarray) -> list[float]:
    """Returns tau, slowdown@1 and slowdown@10 (both minus 1)."""
    judge = graph.halves[1]
    errors = [metrics.top_k_error(scores, judge, k) for k in (1, 10)]
    return [tau_of(scores, judge), *errors]


def figures(task: str, graphs: Sequence[Graph], scores: Scores) -> np.ndarray:
    """Returns the figures of each graph: float64 [graphs, figures]."""
    judge = {'tile': tile_figures, 'layout': layout_figures}[task]
    return np.array([judge(graph, row) for graph, row in zip(graphs, scores)])


def interval(
    graphs: Sequence[Graph], values: np.ndarray, wholes: np.ndarray | None = None
) -> float:
    """Returns half the 95 % interval of a mean over graphs, programs resampled.

    Args:
        graphs: n of them.
        values: float [n], of each.
        wholes: float [n], what each is a part of, for the interval of the share that
            they come to together; None for that of the mean.
    """
    programs = np.unique([graph.program for graph in graphs], return_inverse=True)[1]
    sums = np.bincount(programs, values)
    counts = np.bincount(programs, wholes)
    rng = np.random.default_rng(0)
    drawn = rng.integers(len(sums), size=(_BOOTSTRAPS, len(sums)))
    means = sums[drawn].sum(1) / counts[drawn].sum(1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(high - low) / 2


# Scores without a trained model of ours -----------------------------------------


def of_chance(graphs: Sequence[Graph]) -> list[Scores]:
    """Returns twenty draws of scores."""
    rng = np.random.default_rng(0)
    return [[rng.random(g.halves.shape[1]) for g in graphs] for _ in range(_DRAWS)]


def of_the_default(graphs: Sequence[Graph]) -> list[Scores]:
    """Returns scores with XLA's own configuration first, and twenty draws of others."""
    draws = of_chance(graphs)
    for scores in draws:
        for graph, row in zip(graphs, scores):
            row[graph.default] = -1.0
    return draws


def of_the_clock(graphs: Sequence[Graph]) -> Scores:
    """Returns the half of the times that does not judge: what scores can reach."""
    return [graph.halves[0] for graph in graphs]


def of_the_estimate(graphs: Sequence[Graph]) -> Scores:
    """Returns the analytical estimate of kernels, in log time of a TPU."""
    return [columns[:, -1] for columns in _estimates(graphs)]


def of_the_layout_estimate(graphs: Sequence[Graph]) -> Scores:
    """Returns the padded work of programs, the analytical estimate of layouts."""
    programs = [layout_files.read(graph.path) for graph in graphs]
    store = layout_store.LayoutStore.from_records('measured', programs)
    return [layout_estimate.estimate(store, i) for i in range(len(programs))]


class FlatTrees:
    """Gradient-boosted trees on flattened features, of the train split of `tile`.

    Columns: those of the configuration and the estimate, sums and maxima over nodes of
    the signed logs of their features, and how often each opcode occurs.

    Args:
        seed: of the rows that trees are grown on.
    """

    def __init__(self, seed: int):
        lightgbm = starting.import_lightgbm()

        train = load('tile', 'train')
        labels = [np.log(g.halves.min(0) / g.halves[:, g.default].min()) for g in train]
        settings = {
            'learning_rate': 0.05,
            'bagging_fraction': 0.8,
            'bagging_freq': 1,
            'num_threads': 1,
            'verbose': -1,
            'seed': seed,
        }
        rows, targets = np.concatenate(_flattened(train)), np.concatenate(labels)
        data = lightgbm.Dataset(rows, targets)
        self._model = lightgbm.train(settings, data, num_boost_round=400)

    def scores(self, graphs: Sequence[Graph]) -> Scores:
        """Returns the scores of graphs."""
        return [self._model.predict(rows) for rows in _flattened(graphs)]


def _flattened(graphs: Sequence[Graph]) -> list[np.ndarray]:
    """Returns a row of numbers for each configuration of each kernel."""
    tables = []
    for graph, extra in zip(graphs, _estimates(graphs)):
        record = records.TileRecord.read(graph.path)
        nodes = np.sign(record.node_feat) * np.log1p(np.abs(record.node_feat))
        counts = np.bincount(record.node_opcode, minlength=128)[:128]
        shared = np.concatenate([nodes.sum(0), nodes.max(0), counts])
        configs = np.log1p(np.abs(record.config_feat))
        halved = configs[graph.default] - configs  # against the untiled kernel
        shared = np.broadcast_to(shared, (len(configs), len(shared)))
        table = np.concatenate([configs, halved, extra, shared], axis=1)
        tables.append(table.astype(np.float32))
    return tables


def _estimates(graphs: Sequence[Graph]) -> list[np.ndarray]:
    """Returns the columns of the analytical estimate for each kernel."""
    store = store_of(graphs)
    rows = np.arange(store.config_offsets[-1])
    columns = tile_table.TileTable(store, ['estimate']).rows(rows)
    return np.split(columns, store.config_offsets[1:-1])


def kinds(record: Any) -> set[str]:
    """Returns the kinds of computation in a kernel, of those that rank unlike others.

    Args:
        record: with node_feat, node_opcode and edge_index, as npz files hold them.
    """
    opcodes = np.asarray(record['node_opcode'])
    features, edges = np.asarray(record['node_feat']), np.asarray(record['edge_index'])
    present = {name for name in _OPCODES if _has(opcodes, name)}
    if {'reduce', 'broadcast', 'maximum'} <= present:
        present.add('reduction to a maximum with broadcasts')
    for node in np.flatnonzero(opcodes == schema.OPCODE_NUMBERS['reduce']):
        operands = [_sizes(features[v]) for u, v in edges if u == node]
        sizes = max(operands, key=len, default=[])
        axes = features[node, _DIMENSIONS : _DIMENSIONS + len(sizes)].astype(int)
        reduced = len(sizes) - len(_sizes(features[node]))
        axes = set(axes[:reduced].tolist())
        if len(sizes) > 1 and 0 in axes:
            present.add('reduction over a major axis')
        if len(sizes) > 1 and len(sizes) - 1 in axes and 2 <= sizes[-1] <= 16:
            present.add('reduction over a minor axis of 2 to 16')
    for node in np.flatnonzero(opcodes == schema.OPCODE_NUMBERS['convolution']):
        if features[node, _GROUPS] > 1:
            present.add('grouped or depthwise convolution')
    for node in np.flatnonzero(opcodes == schema.OPCODE_NUMBERS['dot']):
        sizes = _sizes(features[node])
        if len(sizes) > 2 and max(sizes[-2:]) <= 9:
            present.add('batched product of small matrices')
    if features[:, _BF16].any():
        present.add('bf16')
    return present - {'reduce', 'broadcast', 'maximum'}


def _has(opcodes: np.ndarray, name: str) -> bool:
    return bool((opcodes == schema.OPCODE_NUMBERS[name]).any())


def _sizes(row: np.ndarray) -> list[int]:
    """Returns the sizes of an instruction's array, of six axes at most."""
    sizes = row[_SIZES : _SIZES + schema.RANK].astype(int)
    return sizes[sizes > 0].tolist()


def summary(
    rows: Sequence[np.ndarray],
    graphs: Sequence[Graph],
    wholes: Mapping[int, int] = types.MappingProxyType({}),
) -> dict[str, Any]:
    """Returns the mean of figures, its interval over programs, and over seeds.

    Args:
        rows: of each seed, float [graphs, figures].
        graphs: as many as the figures are of.
        wholes: number of a figure -> of the one that it is a part of: the share that
            both come to over all graphs takes the place of its mean.
    """
    means = np.array([row.mean(0) for row in rows])
    overall = np.mean(rows, axis=0)
    of_wholes = {part: overall[:, whole] for part, whole in wholes.items()}
    for part, whole in wholes.items():
        means[:, part] /= means[:, whole]
    return {
        'mean': means.mean(0).tolist(),
        'programs': [
            interval(graphs, column, of_wholes.get(place))
            for place, column in enumerate(overall.T)
        ],
        'seeds': means.std(0, ddof=1).tolist() if len(rows) > 1 else None,
    }
