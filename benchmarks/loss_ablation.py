"""Compares losses, log features and readouts on families left out, in several seeds.

  python benchmarks/loss_ablation.py --task tile --epochs 8 --every 8
  python benchmarks/loss_ablation.py --task layout --epochs 8

Trains the graph model of `--recipe=strong` without its trees, and for layouts without
the formula, which is of TPUs, on the train and valid splits that ship.  Their families
make five groups: in a fold three train, one chooses the epoch, and one judges.  All
variants but those of the loss have the recipe's.  Figures are means over the graphs
that are judged, with the standard deviation over seeds; the last column is the gain in
OPA or tau over the recipe, with half its 95 % interval over programs.  Trainings that
are in --work already are not repeated.
"""

import argparse
import collections
import contextlib
import io
import os
import pathlib
from typing import Dict, List, Mapping, Sequence

import judging
import numpy as np
import results
import tensorflow as tf

from baselines import config
from baselines import recipes
from baselines.core import files
from baselines.core import starting
from baselines.data import families
from baselines.data import shares
from baselines.layout import models as layout_models
from baselines.tiles.zoo import kernels
from baselines.tiles.zoo import late_join
from baselines.training import loop
from baselines.training import losses
from baselines.training import task_data

_GROUPS = 5  # of families
_PAIRS = 'relative pairs'
_LOSSES = {name: {'losses': name} for name in ('PairwiseRuntimeLoss', _PAIRS)}
# What differs from the recipe, by task and name.  MSE of layouts would compare the
# runtimes of programs.
_VARIANTS = {
    'tile': {
        'recipe: ListMLELoss:1,MSE:0.02': {},
        **_LOSSES,
        'without log features': {'model_kwargs_json': '{"log_scales": []}'},
        'sum next to mean and maximum': {'model': 'TileSums'},
    },
    'layout': {
        'recipe: ListMLELoss': {},
        **_LOSSES,
        'with log features': {'model': 'LayoutLogs'},
        'sum as it is next to mean': {'model': 'LayoutSums'},
    },
}
_WITHOUT = {'tile': {}, 'layout': {'estimate': False}}
_JUDGES = {'tile': judging.tile_figures, 'layout': judging.layout_figures}
# The first figures of a judge, and the place of that whose gain is printed.
_FIGURES = {
    'tile': (('top-1 error', 'top-5 error', 'OPA'), 2),
    'layout': (('tau', 'slowdown@1', 'slowdown@10'), 0),
}
_Parts = Mapping[str, Sequence[judging.Graph]]  # by split


def main() -> None:
    """Trains what is missing, and prints a row for each variant."""
    parser = results.parser(__doc__)
    parser.add_argument('--task', choices=tuple(_VARIANTS), default='tile')
    parser.add_argument('--epochs', type=int, default=8)
    parser.add_argument('--every', type=int, default=1, help='use each n-th graph')
    parser.add_argument('--folds', type=int, default=2, help=f'of {_GROUPS}')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--work', default='~/out/loss_ablation')
    args = parser.parse_args()
    starting.start_tensorflow()
    graphs = [graph for graph in judging.load(args.task) if graph.split != 'test']
    parts = [_parts(graphs[:: args.every], fold) for fold in range(args.folds)]
    judged = [graph for of_fold in parts for graph in of_fold['test']]
    by_name: Dict[str, List[np.ndarray]] = collections.defaultdict(list)
    for seed in args.seeds:
        for name in _VARIANTS[args.task]:
            rows = [_figures(args, name, i, seed, part) for i, part in enumerate(parts)]
            by_name[name].append(np.concatenate(rows))
    names, main_place = _FIGURES[args.task]
    results.head('', *names, f'gain in {names[main_place]}')
    recipe, *_ = (np.mean(by_seed, axis=0) for by_seed in by_name.values())
    for name, by_seed in by_name.items():
        figures = judging.summary(by_seed, judged)
        cells = [f'{mean:.3f}' for mean in figures['mean']]
        if figures['seeds']:
            cells = [f'{c} ± {s:.3f}' for c, s in zip(cells, figures['seeds'])]
        gains = (np.mean(by_seed, axis=0) - recipe)[:, main_place]
        gain = f'{gains.mean():+.3f} ± {judging.interval(judged, gains):.3f}'
        results.row(name, *cells[: len(names)], gain if gains.any() else '')


def relative_pairs(labels: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Averages (s_i - s_j - 2 (y_i - y_j) / (y_i + y_j))^2 over pairs."""
    one, other = labels[:, :, tf.newaxis], labels[:, tf.newaxis, :]  # [lists, n, n]
    given = scores[:, :, tf.newaxis] - scores[:, tf.newaxis, :]
    return tf.reduce_mean((given - 2.0 * (one - other) / (one + other)) ** 2)


class TileSums(late_join.LateJoinResSAGE):
    """Encodes kernels by the sum over nodes, too."""

    def _kernel(self, graph, batch):
        x = self._input(tf.concat(self._node_inputs(graph, batch), -1))
        x = self._activation(self._encode(self._node_layers, x, batch, False))
        largest = tf.math.unsorted_segment_max(x, batch.kernel_of_node, batch.batch)
        sums = batch.pool(x) / 32.0  # a usual number of nodes
        return tf.concat([batch.pool(x, 'mean'), largest, sums], -1)


class LayoutLogs(layout_models.ResModel):
    """Shows node features also as logarithms, with the scales of tiles."""

    def node_inputs(self, graph):
        ops = graph.node_sets['op'].features
        feats = kernels.log_features(ops['feats'], (1e-3, 1e-6))
        changed = {'op': {**ops, 'feats': feats}}
        return super().node_inputs(graph.replace_features(node_sets=changed))


class LayoutSums(layout_models.ResModel):
    """Reads sums over all nodes as they are, instead of brought to length 1."""

    def read_out(self, total, configurable, sizes):
        sums = total / 128.0  # a usual number of nodes
        unit = tf.nn.l2_normalize(configurable, -1)
        return self._head(tf.concat([total / sizes, sums, unit], -1))


_MODELS = {'tile': [TileSums], 'layout': [LayoutLogs, LayoutSums]}


def _parts(graphs: Sequence[judging.Graph], fold: int) -> _Parts:
    """Returns the splits of a fold: one group judges, the next chooses the epoch."""
    names = [families.family(graph.program) for graph in graphs]
    group = shares.share_out(collections.Counter(names), [1] * _GROUPS)
    split_of = {fold: 'test', (fold + 1) % _GROUPS: 'valid'}
    parts: Dict[str, List[judging.Graph]] = {'train': [], 'valid': [], 'test': []}
    for name, graph in zip(names, graphs):
        parts[split_of.get(group[name], 'train')].append(graph)
    return parts


def _figures(
    args: argparse.Namespace, name: str, fold: int, seed: int, parts: _Parts
) -> np.ndarray:
    """Trains a variant, unless that is done; returns figures [graphs, figures]."""
    place = pathlib.Path(files.expand(args.work), f'{args.task}_{args.every}_{fold}')
    words = ''.join(c if c.isalnum() else '_' for c in name)
    done = place / f'{words}_{args.epochs}_{seed}.npy'
    if not done.exists():
        root, kind = place / 'npz', config.CONFIGS[args.task]
        _link(root / ('xla/random' if args.task == 'layout' else ''), parts)
        settings = dict(recipes.settings('strong', kind().collection.name))
        settings.update(recipe='strong', trees=False, epochs=args.epochs, seed=seed)
        settings.update(_WITHOUT[args.task], **_VARIANTS[args.task][name])
        settings.update(data_root=str(root), cache_dir=f'{root}_cache')
        with contextlib.redirect_stdout(io.StringIO()):
            scored = _trained_scores(kind(**settings))
        scores = [scored[graph.name] for graph in parts['test']]
        np.save(done, judging.figures(_JUDGES[args.task], parts['test'], scores))
    return np.load(done)


def _trained_scores(settings: config.AnyConfig) -> Mapping[str, np.ndarray]:
    """Trains a graph model; returns its scores of the test split, by graph id.

    No run is saved: that would take longer than these trainings.
    """
    tf.keras.backend.clear_session()
    tf.keras.utils.set_random_seed(settings.seed)
    data = task_data.open_data(settings)
    settings, task = data.settings, data.task
    model = task.make_model(
        settings.model,
        config.model_kwargs(settings.model_kwargs_json),
        _MODELS[task.name],
        settings.configs,
        data.num_ops,
        data.normalizer,
    )
    loss = losses.CombinedLoss(
        settings.losses, task.temperature, settings.loss_noise, {_PAIRS: relative_pairs}
    )
    inference = task.inference(model, 0, False)
    loop.Trainer(model, loss, settings, inference).fit(data)
    ids = data.stores['test'].graph_ids
    return dict(zip(ids, map(np.asarray, inference.scores(data.graphs['test']))))


def _link(root: pathlib.Path, parts: _Parts) -> None:
    """Makes the folders of a fold, with links to the files that ship."""
    for split, graphs in parts.items():
        folder = root / split
        folder.mkdir(parents=True, exist_ok=True)
        for graph in graphs:
            with contextlib.suppress(FileExistsError):
                (folder / os.path.basename(graph.path)).symlink_to(graph.path)


if __name__ == '__main__':
    results.run(main)
