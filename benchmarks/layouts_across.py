"""Trains layout models on one collection, tests them on others and on real programs.

  python benchmarks/layouts_across.py --work ~/out/layouts --real ~/real/layout/xla
  python benchmarks/layouts_across.py --work ~/out/layouts --real ... --adapt

A model that was made on one simulator may know no more than its rules.  So every
model is trained on simulated programs of the rule books `roofline` and `drawn` (see
docs/simulated-data-layout.md) and measured on the test programs of these and of
`products`, on the measured programs that ship with the package (`measured`), and on
real ones that it never saw: --real is a folder with <search>/<split>/<program>.npz.
`formula` is PaddedSAGE without a training, `strong` the recipe, and the row
`PaddedSAGE` the recipe.

With --adapt models are trained on some configurations of a real program (--program),
a fifth of them to validate on, and tested on all others; equal configurations are on
one side.  `adapted` has begun with the weights of its run on `drawn`
(--init_from); an epoch is one step, --steps in all.  Those of the most configurations
are tested on the other real program, too.

Figures are Kendall's tau, the mean over programs, plus or minus the standard
deviation over seeds; on real programs also over different configurations, each with
its mean runtime, after the slash.  What is in --work is not trained again.
"""

import contextlib
import glob
import io
import os
import shutil
import statistics
import sys
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np
import results

from baselines import command_line
from baselines import config
from baselines import files
from baselines import recipes
from baselines.data.layout import records
from baselines.data.layout import store as store_lib
from baselines.evaluation import metrics
from baselines.measuring import packaged

_BOOKS = ('roofline', 'products', 'drawn')
_SOURCES = ('drawn', 'roofline')
_REAL = ('default/train/unet3d', 'random/valid/unet_3d.4x4.bf16')
_SIZES = (25, 50, 100, 400)
_BEGUN = 'drawn'

Taus = Dict[str, List[float]]  # by target; of real programs two


class Row(NamedTuple):
    """One line of the tables.

    Attributes:
        name: in the table.
        settings: of `LayoutConfig`.
        adapts: whether it can start with other weights.
    """

    name: str
    settings: Mapping[str, Any]
    adapts: bool = True


def rows(epochs: int) -> List[Row]:
    """The models, those that learn by steps with as many epochs."""
    strong = dict(recipes.settings('strong', 'layout:xla:random'))
    strong.update(epochs=epochs, early_stop=epochs)
    plain = {**recipes.LAYOUT_TRAINING, 'epochs': epochs, 'early_stop': epochs}
    formula = {**plain, 'model': 'PaddedSAGE', 'epochs': 1, 'lr': 1e-12}
    # Published, but for a width of 256.
    tgraph: Dict[str, Any] = {
        'lr': 1e-3,
        'losses': 'PairwiseHingeLoss',
        'weight_decay': 1e-5,
    }
    tgraph['validation_configs'] = 128  # a list
    tgraph['model_kwargs_json'] = '{"hidden_dim": 64, "feature_dropout": 0.2}'
    return [
        Row('formula', formula, adapts=False),
        Row('Trees', {**plain, 'model': 'Trees'}, adapts=False),
        Row('ResModel', {**plain, 'model': 'ResModel', 'lr': 1e-3}),
        Row('TGraph', {**plain, 'model': 'TGraph', **tgraph}),
        Row('HybridSAGE', {**plain, 'model': 'HybridSAGE'}),
        Row('PaddedSAGE', strong),
    ]


def main() -> None:
    """Makes the data, trains what is missing, and prints a table."""
    parser = results.parser(__doc__)
    parser.add_argument('--work', default='~/out/layouts_across')
    parser.add_argument('--real', default='', help='folder of measured programs')
    parser.add_argument('--seeds', nargs='+', type=int, default=[0, 1, 2])
    parser.add_argument('--epochs', type=int, default=40)
    parser.add_argument('--rows', nargs='+', help='only these')
    parser.add_argument('--adapt', action='store_true', help='train on real programs')
    programs = [os.path.basename(name) for name in _REAL]
    parser.add_argument('--program', choices=programs, default=programs[0])
    parser.add_argument('--sizes', nargs='+', type=int, default=_SIZES)
    parser.add_argument('--steps', type=int, default=1200, help='of --adapt')
    parser.add_argument('--table', action='store_true', help='train nothing')
    args = parser.parse_args()
    command_line.start_tensorflow()
    args.work = files.expand(args.work)
    chosen = [r for r in rows(args.epochs) if not args.rows or r.name in args.rows]
    real = _real_programs(args)
    if args.adapt:
        _simulate(args.work, _BEGUN)
        print(_adaptation(args, chosen, real))
        return
    for book in _BOOKS:
        _simulate(args.work, book)
    measured = packaged.folder('layout', os.path.join(args.work, 'measured'))
    targets = {
        **{book: [_split(args.work, book, 'test')] for book in _BOOKS},
        'measured': sorted(glob.glob(os.path.join(measured, 'xla/random/*'))),
        **real,
    }
    for source in _SOURCES:
        found = {}
        for row in chosen:
            tasks = [Run(args, row, source, seed) for seed in args.seeds]
            found[row.name] = [each.taus(targets) for each in tasks]
        print(f'\ntrained on {source}\n\n{_table(found, list(targets))}', flush=True)


class Run:
    """One row, trained on one collection with one seed; figures are kept.

    Args:
        args: of the command line.
        row: what is trained.
        source: the collection's folder in --work/data.
        seed: of the training.
        init_from: a run to start from.
    """

    def __init__(self, args, row: Row, source: str, seed: int, init_from: str = ''):
        self._args, self._source = args, source
        beginning = '-adapted' if init_from else ''
        name = f'{row.name}-{source}-{seed}{beginning}-{row.settings["epochs"]}'
        self._out = os.path.join(args.work, 'runs', name.replace('/', '_'))
        self._settings = config.LayoutConfig(
            **{**row.settings, 'source': 'xla', 'search': 'random', 'seed': seed},
            init_from=init_from,
            data_root=os.path.join(args.work, 'data', source),
            cache_dir=os.path.join(args.work, 'cache'),
            out_dir=self._out,
        )

    def model_dir(self) -> str:
        """Trains, unless that was done."""
        done = glob.glob(os.path.join(self._out, 'model_*'))
        if done or self._args.table:
            return done[0] if done else ''
        model_dir, seconds = results.train(self._settings)
        results.keep(f'{self._out}.json', {'seconds': [seconds]})
        return model_dir

    def taus(self, targets: Mapping[str, Sequence[str]]) -> Taus:
        """Tau on each target, a list of folders; measures what is not known."""
        model_dir = self.model_dir()
        known = results.kept(f'{self._out}.json')
        missing = [name for name in targets if name not in known]
        if model_dir and missing:
            folders = self._settings.data_root, self._settings.cache_dir
            with contextlib.redirect_stdout(io.StringIO()):
                predictor = results.load(model_dir, *folders)
            for name in missing:
                found = [self._tau(predictor, folder) for folder in targets[name]]
                known[name] = np.concatenate(found).mean(axis=0).tolist()
                results.keep(f'{self._out}.json', known)
            print(f'{self._out}: {known}', file=sys.stderr, flush=True)
        return known

    def _tau(self, predictor, folder: str) -> np.ndarray:
        """[programs, 2]: over all configurations, and over different ones."""
        store = store_lib.LayoutStore.open(folder, self._settings.cache_dir)
        found = []
        for number, scores in enumerate(predictor.scores(predictor.scaled(store))):
            rows_ = store.rows('config', number)
            group = np.asarray(store.config_group[rows_])
            _, first = np.unique(group, return_index=True)
            each = np.asarray(store.group_runtime[store.rows('group', number)])
            taus = (
                metrics.kendall_tau(scores, np.asarray(store.config_runtime[rows_])),
                metrics.kendall_tau(np.asarray(scores)[first], each),
            )
            found.append(np.nan_to_num(taus))
        return np.array(found)


# Data ---------------------------------------------------------------------------


def _split(work: str, source: str, split: str) -> str:
    return os.path.join(work, 'data', source, 'xla/random', split)


def _simulate(work: str, book: str) -> None:
    root = os.path.join(work, 'data', book)
    results.sample(root, '--collection', 'layout', '--rules', book)


def _real_programs(args) -> Dict[str, List[str]]:
    """A folder for each real program that is there; says what is not."""
    found = {}
    for name in _REAL:
        path = os.path.join(files.expand(args.real), f'{name}.npz')
        if not args.real or not os.path.exists(path):
            print(f'{name}: left out, no such file in --real={args.real}')
            continue
        program = os.path.basename(name)
        folder = os.path.join(args.work, 'real', program)
        os.makedirs(folder, exist_ok=True)
        shutil.copy(path, folder)
        found[program] = [folder]
    return found


def _draw(path: str, root: str, count: int, seed: int) -> int:
    """Writes `count` configurations to train and valid, the others to test.

    Returns:
        How many different ones there are to train on.
    """
    record = records.read_layout(path)
    flat = record.node_config_feat.reshape(record.num_configs, -1)
    group = np.unique(flat, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.random.default_rng(seed).permutation(group.max() + 1)[group]
    order = np.argsort(order, kind='stable')
    bounds = [0, count - count // 5, count, len(order)]
    for i in (1, 2):  # no group on two sides, and something to rank on each
        bounds[i] = max(bounds[i], bounds[i - 1] + 1)
        while (
            group[order[bounds[i]]] == group[order[bounds[i] - 1]]
            or len(np.unique(group[order[bounds[i - 1] : bounds[i]]])) < 3
        ):
            bounds[i] += 1
    different = len(np.unique(group[order[: bounds[1]]]))
    if os.path.exists(os.path.join(root, 'test')):
        return different
    for i, split in enumerate(('train', 'valid', 'test')):
        part = np.sort(order[bounds[i] : bounds[i + 1]])
        kept = {
            name: getattr(record, name)[part]
            for name in ('node_config_feat', 'config_runtime')
        }
        os.makedirs(os.path.join(root, split), exist_ok=True)
        shown = records.LayoutRecord(**{**vars(record), **kept})
        shown.write(os.path.join(root, split, os.path.basename(path)))
    return different


# Tables -------------------------------------------------------------------------


def _adaptation(args, chosen: Sequence[Row], real: Mapping[str, List[str]]) -> str:
    """Tau on the other configurations of a real program, by how many were seen."""
    [path] = glob.glob(os.path.join(real[args.program][0], '*.npz'))
    others = {name: where for name, where in real.items() if name != args.program}
    found: Dict[str, List[Taus]] = {}
    for seed in args.seeds:
        for size in args.sizes:
            source = f'{args.program}-{size}-{seed}'
            root = os.path.join(args.work, 'data', source, 'xla/random')
            different = _draw(path, root, size, seed)
            targets = {str(size): [_split(args.work, source, 'test')]}
            if size == max(args.sizes):
                targets.update(others)
            alone = {'batch': 1, 'configs': min(different, 64)}
            steps = {'epochs': args.steps, 'early_stop': args.steps}
            for row in chosen:
                more = {**alone, **(steps if row.name != 'formula' else {})}
                one = row._replace(settings={**row.settings, **more})
                begun = {row.name: ''}
                if row.adapts:
                    first = Run(args, row, _BEGUN, seed).model_dir()
                    begun[f'{row.name}, adapted'] = first
                for name, init_from in begun.items():
                    taus = Run(args, one, source, seed, init_from).taus(targets)
                    found.setdefault(name, [{} for _ in args.seeds])
                    found[name][args.seeds.index(seed)].update(taus)
    return _table(found, [*map(str, args.sizes), *others])


def _table(results: Mapping[str, Sequence[Taus]], targets: Sequence[str]) -> str:
    lines = ['| model | ' + ' | '.join(targets) + ' | core seconds |']
    lines += ['|' + ' --- |' * (len(targets) + 2)]
    for name, seeds in results.items():
        cells = [_shown([s.get(t) for s in seeds], target=t) for t in targets]
        seconds = [s['seconds'][0] for s in seeds if 'seconds' in s]
        cells.append(f'{statistics.mean(seconds):.0f}' if seconds else '-')
        lines.append(f'| {name} | ' + ' | '.join(cells) + ' |')
    return '\n'.join(lines) + '\n'


def _shown(values: Sequence[Any], target: str) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return '-'
    real = 'unet' in target or target.isdigit()
    parts = list(zip(*known))[: 2 if real else 1]
    return ' / '.join(_with_spread(part) for part in parts)


def _with_spread(values: Tuple[float, ...]) -> str:
    spread = f' ± {statistics.stdev(values):.3f}' if len(values) > 1 else ''
    return f'{statistics.mean(values):.3f}{spread}'


if __name__ == '__main__':
    results.run(main)
