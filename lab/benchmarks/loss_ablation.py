"""Compares losses, log features and readouts on families left out, in several seeds.

  python lab/benchmarks/loss_ablation.py --task tile --epochs 6 --every 16
  python lab/benchmarks/loss_ablation.py --task layout --epochs 20 --every 2

Trains the graph model of `--recipe=strong` without its trees, and for layouts without
the formula, which is of TPUs, on the train and valid splits that ship.  Their families
make five groups: in a fold four train, and one judges the weights after the last epoch.
Variants differ from the recipe in one thing, the loss or the model.  Figures are means
over the graphs that are judged, with the standard deviation over seeds; the last column
is the gain in OPA or tau over the recipe, with half its 95 % interval over programs.
Trainings that are in --work already are not repeated.
"""

import argparse
import collections
from collections.abc import Iterator, Mapping, Sequence
import contextlib
import dataclasses
import io
import itertools
import os
import pathlib
from typing import Any

import numpy as np
import tensorflow as tf

from baselines import config
from baselines import recipes
from baselines.core import files
from baselines.core import registry
from baselines.core import settings as settings_lib
from baselines.core import starting
from baselines.data import families
from baselines.data import shares
from baselines.layout import models as layout_models
from baselines.tiles.zoo import kernels
from baselines.tiles.zoo import late_join
from baselines.training import loop
from baselines.training import losses
from baselines.training import task_data
from benchmarks import results
from lab.benchmarks import judging

_GROUPS = 5  # of families
_PAIRS = 'relative pairs'
_LOSSES = {name: {'losses': name} for name in ('PairwiseRuntimeLoss', _PAIRS)}
# What differs from the recipe, by task and name.  MSE of layouts would compare the
# runtimes of programs.
_VARIANTS = {
    'tile': {
        'recipe': {},  # ListMLELoss:1,MSE:0.02
        **_LOSSES,
        'without log features': {'model_kwargs_json': '{"log_scales": []}'},
        'sum next to mean and maximum': {'model': 'TileSums'},
    },
    'layout': {
        'recipe': {},  # ListMLELoss
        **_LOSSES,
        'with log features': {'model': 'LayoutLogs'},
        'sum as it is next to mean': {'model': 'LayoutSums'},
    },
}
_WITHOUT = {'tile': {}, 'layout': {'estimate': False}}
# The figure whose gain is printed, of `judging.FIGURES`.
_MAIN = {'tile': 2, 'layout': 0}
_Parts = Mapping[str, Sequence[judging.Graph]]  # by split


def main() -> None:
    """Trains what is missing, and prints a row for each variant."""
    parser = results.parser(__doc__)
    parser.add_argument('--task', choices=tuple(_VARIANTS), default='tile')
    parser.add_argument('--epochs', type=int, default=8)
    parser.add_argument('--every', type=int, default=1, help='use each n-th graph')
    parser.add_argument('--folds', type=int, default=2, help=f'of {_GROUPS}')
    parser.add_argument('--seeds', type=int, nargs='+', default=[0, 1, 2])
    parser.add_argument('--variants', nargs='+', help='with the recipe; default: all')
    parser.add_argument('--work', default='~/out/loss_ablation')
    args = parser.parse_args()
    chosen = {
        name: registry.resolve(name, _VARIANTS[args.task], 'variant')
        for name in ['recipe', *(args.variants or _VARIANTS[args.task])]
    }
    starting.start_tensorflow()
    graphs = [graph for graph in judging.load(args.task) if graph.split != 'test']
    parts = [_parts(graphs[:: args.every], fold) for fold in range(args.folds)]
    judged = [graph for of_fold in parts for graph in of_fold['test']]
    folds = [_figures(args, chosen, fold, part) for fold, part in enumerate(parts)]
    by_name = {
        name: [np.concatenate(of_seed) for of_seed in zip(*(of[name] for of in folds))]
        for name in chosen
    }
    names, main_place = judging.FIGURES[args.task][:3], _MAIN[args.task]
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
    """Returns the splits of a fold: one group judges, and the others train.

    Nothing is validated, so what judges may stand in for the split that is missing.
    """
    names = [families.find_family(graph.program) for graph in graphs]
    group = shares.share_out(collections.Counter(names), [1] * _GROUPS)
    judges = [group[name] == fold for name in names]
    judged = list(itertools.compress(graphs, judges))
    train = [graph for graph, out in zip(graphs, judges) if not out]
    return {'train': train, 'valid': judged, 'test': judged}


def _figures(
    args: argparse.Namespace,
    chosen: Mapping[str, Mapping[str, Any]],
    fold: int,
    parts: _Parts,
) -> dict[str, list[np.ndarray]]:
    """Trains what is missing in a fold.

    Args:
        chosen: by variant, the settings that are not the recipe's.

    Returns:
        By variant and seed, figures [graphs, figures].
    """
    place = pathlib.Path(files.expand(args.work), f'{args.task}_{args.every}_{fold}')
    root, kind = place / 'npz', config.CONFIGS[args.task]
    _link(root / ('xla/random' if args.task == 'layout' else ''), parts)
    settings = dict(recipes.get_settings('strong', kind().collection.name))
    settings.update(recipe='strong', trees=False, epochs=args.epochs)
    settings.update(_WITHOUT[args.task], validate_batches=0)
    settings.update(data_root=str(root), cache_dir=f'{root}_cache')
    with contextlib.redirect_stdout(io.StringIO()):
        data = task_data.open_data(kind(**settings))
    by_name = {}
    for name, changes in chosen.items():
        words = ''.join(c if c.isalnum() else '_' for c in name)
        done = {s: place / f'{words}_{args.epochs}_{s}.npy' for s in args.seeds}
        missing = [seed for seed, path in done.items() if not path.exists()]
        for seed, scores in zip(missing, _scores(data, changes, missing)):
            ordered = [scores[graph.name] for graph in parts['test']]
            figures = judging.figures(args.task, parts['test'], ordered)
            np.save(done[seed], figures)
        by_name[name] = list(map(np.load, done.values()))
    return by_name


def _scores(
    data: task_data.TaskData, changes: Mapping[str, Any], seeds: Sequence[int]
) -> Iterator[Mapping[str, np.ndarray]]:
    """Trains a variant with each seed; yields its scores of the test split, by name.

    Data are opened once for all variants, and steps compiled once for all seeds: that
    takes longer than these trainings.
    """
    settings, task = dataclasses.replace(data.settings, **changes), data.task

    def make(seed: int) -> tf.keras.Model:
        tf.keras.utils.set_random_seed(seed)
        return scorer.make_model(
            task,
            registry.find_model_class(settings.model, task.name, _MODELS[task.name]),
            settings_lib.parse_model_kwargs(settings.model_kwargs_json),
            settings.configs,
            data.num_ops,
            data.normalizer,
        )

    tf.keras.backend.clear_session()
    model, own = make(0), {_PAIRS: relative_pairs}
    loss = losses.CombinedLoss(
        settings.losses, task.temperature, settings.loss_noise, own
    )
    scorer = task.scorer(model, 0, False)
    steps = loop.Trainer(model, loss, settings, scorer).compile_steps(data)
    moments = [np.zeros_like(x) for x in steps.optimizer.get_weights()]
    for seed in seeds:
        weights = make(seed).get_weights()
        steps.restore_state([*weights, *moments, *weights])  # the last are the averages
        data.settings = dataclasses.replace(settings, seed=seed)  # of the draws
        for epoch in range(settings.epochs):
            for drawn in data.draw_steps(epoch):
                steps.run_chunk(data.pack(*drawn), len(drawn[0]))
        with steps.use_averages():
            scores = list(scorer.scores(data.graphs['test']))
        yield dict(zip(data.stores['test'].graph_ids, scores))


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
