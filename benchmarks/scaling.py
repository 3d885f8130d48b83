"""Core seconds, bytes and memory of each job at 1, 2, 4 and 8 times the size, and what
they add up to for collections that are larger.

    python benchmarks/scaling.py            # synthetic data; 17 minutes on busy cores
    python benchmarks/scaling.py --record   # and keep the figures

A job is linear if a unit of it costs the same at every size.  Twice the size is every
graph twice, under two names, so that what differs is the number and not the graphs;
whether layouts cost in proportion to nodes is seen from small and large programs.
What a unit costs at the largest size goes into the plan of docs/findings/speed.md,
whose formulas are `plan`.  Seconds are those of the process on its cores.
"""

import itertools
import math
import os
import pathlib
import tempfile
import time
from typing import Dict, List, Sequence

import numpy as np
import results

from baselines import starting
from baselines import text
from tests.helpers import synthetic

# Beyond this a unit at the largest size costs so much more than at the smallest that
# the plan does not hold.
_TOLERANCE = 1.25
_SIZES = (1, 2, 4, 8)
# Graphs at size 1, and configurations of each program.
_GRAPHS = {'tile': 50, 'layout': 6}
_CONFIGS = {'few': 500, 'layout': 4000}
_NODES_OF = (500, 4000)  # of a program
_FILES, _RUNS = 200, 300
_SUBFOLDERS = {'tile': '', 'layout': 'xla/random'}
_MODELS = {'tile': 'EarlyJoinSAGE', 'layout': 'ResModel'}
_EPOCHS = 2  # of the largest size; as many steps at the others

# TpuGraphs, arXiv:2308.13490: pairs, graphs to train on, and nodes of a graph (of
# layouts: of the nlp collections, which have 95 % of the pairs).
_PAIRS = {'tile': 12.9e6, 'layout': 31.1e6}
_TRAINED_ON = {'tile': 5709, 'layout': 535}
_NODES = {'tile': 40, 'layout': 5700}
_BATCH = {'tile': 10, 'layout': 2}
# Of its epochs a trial makes this share, where halving ends two in three at 1/9 and
# again at 1/3 of them: 1/9 + (1/3) (1/3 - 1/9) + (1/9) (1 - 1/3).
_SWEPT = 1 / 9 + (1 / 3) * (1 / 3 - 1 / 9) + (1 / 9) * (1 - 1 / 3)
_TRIALS = 60
_CORES = 16  # of a machine


def measure_extraction(size: int) -> Dict[str, float]:
    """Extracts files of one kernel with 300 runs."""
    import clusters

    from tpugraphs.extract import extractor

    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder, 'raw')
        clusters.make(raw, _FILES * size)
        options = extractor.Options(os.path.join(folder, 'out'), 'tile')
        began = time.process_time()
        for path in sorted(raw.iterdir()):
            extractor.extract_file(str(path), options)
        seconds = time.process_time() - began
    return {'extract_us_per_run': seconds / (_FILES * size * _RUNS) * 1e6}


def write(folder: pathlib.Path) -> Dict[str, List[pathlib.Path]]:
    """Writes kernels, and programs with many and with few configurations.

    Returns:
        By name, the files of train, in the order of their nodes.
    """
    synthetic.write_kernels(
        str(folder / 'tile'), _GRAPHS['tile'], 2, 2, configs=(60, 2000)
    )
    for name, count in _CONFIGS.items():
        synthetic.write_programs(
            str(folder / name), _GRAPHS['layout'], 1, 1, _NODES_OF, (count, count)
        )
    found = {}
    for name in ('tile', *_CONFIGS):
        train = folder / name / _SUBFOLDERS.get(name, 'xla/random') / 'train'
        found[name] = sorted(train.iterdir(), key=_nodes)
    return found


def _nodes(path: pathlib.Path) -> int:
    with np.load(path) as content:
        return len(content['node_opcode'])


def measure_training(
    task: str, graphs: Sequence[pathlib.Path], size: int
) -> Dict[str, float]:
    """Packs, trains on and scores `size` copies of graphs."""
    starting.start_tensorflow()
    from baselines import config
    from baselines.data import stores as stores_lib
    from baselines.training import devices
    from baselines.training import jobs
    from baselines.training import task_data

    with tempfile.TemporaryDirectory(dir=graphs[0].parents[1]) as folder:
        data_root, cache = pathlib.Path(folder, 'data'), os.path.join(folder, 'cache')
        root = data_root / _SUBFOLDERS[task]
        (root / 'train').mkdir(parents=True)
        for path, copy in itertools.product(graphs, range(size)):
            os.link(path, root / 'train' / f'{copy}_{path.name}')
        for split in ('valid', 'test'):
            (root / split).symlink_to(graphs[0].parents[1] / split)
        began = time.process_time()
        stores_lib.STORES[task].open(str(root / 'train'), cache)
        packing = time.process_time() - began
        packed = sum(p.stat().st_size for p in pathlib.Path(cache).rglob('*.*'))

        settings = dict(model=_MODELS[task], batch=_BATCH[task], out_dir=folder)
        settings.update(data_root=str(data_root), cache_dir=cache)
        if task == 'layout':
            settings['keep_nodes'] = 1000
        data, _ = task_data.open_data(config.CONFIGS[task](**settings))
        train = data.stores['train']
        pairs = int(train.config_counts.sum())
        graph_model = jobs.make_graph_model(
            data, None, devices.Devices(), jobs.Extras()
        )
        compiled = graph_model.trainer.steps(data)
        steps, seconds = 0, 0.0
        for number in range(1 + _EPOCHS * _SIZES[-1] // size):
            for drawn in data.draws(number):
                packed_steps = data.pack(*drawn)
                began = time.process_time()
                compiled.run_chunk(packed_steps, len(drawn[0]))
                if number:  # the first compiles
                    seconds += time.process_time() - began
                    steps += len(drawn[0])
        list(graph_model.scorer.scores(data.graphs['valid']))
        began = time.process_time()
        # Others may have opcodes that the model has not been made for.
        scores = graph_model.scorer.scores(data.graphs['train'], data.chosen)
        scored = sum(map(len, scores))
        scoring = time.process_time() - began
    return {
        f'{task}_pairs': pairs,
        f'{task}_nodes_per_graph': float(np.diff(train.node_offsets).mean()),
        f'{task}_pack_us_per_pair': packing / pairs * 1e6,
        f'{task}_packed_bytes_per_pair': packed / pairs,
        f'{task}_step_ms': seconds / steps * 1e3,
        f'{task}_score_us_per_pair': scoring / scored * 1e6,
        f'{task}_peak_mb': results.peak_mb(),
    }


def plan(costs: Dict[str, float], times: float, epochs: int) -> List[List[str]]:
    """What `times` TpuGraphs costs: rows of task, job, core hours, machines.

    Extracting, packing and scoring pass over every pair once.  A training takes a step
    for each batch of its graphs in every epoch, whatever their configurations are.
    Layouts are measured on smaller programs: packing, steps and scores are taken to
    grow with the nodes.  What a program costs beside its pairs is left out.
    """
    rows = [['', 'job', 'core hours', f'in a day, {_CORES} cores each']]
    for task, pairs in _PAIRS.items():
        pairs *= times
        larger = 1.0
        if task == 'layout':
            larger = _NODES[task] / costs['layout_nodes_per_graph']
        steps = epochs * times * _TRAINED_ON[task] / _BATCH[task]
        training = costs[f'{task}_step_ms'] * larger * steps / 1e3
        passes = {'pack': 'pack_us_per_pair', 'score every pair': 'score_us_per_pair'}
        seconds = {
            job: costs[f'{task}_{unit}'] * larger * pairs / 1e6
            for job, unit in passes.items()
        }
        seconds[f'train {epochs} epochs'] = training
        seconds[f'sweep of {_TRIALS} trials'] = training * _TRIALS * _SWEPT
        if task == 'tile':
            seconds['extract'] = costs['extract_us_per_run'] * pairs / 1e6
        for job, total in seconds.items():
            hours = total / 3600
            machines = f'{math.ceil(hours / 24 / _CORES):,}'
            if job.startswith(('train', 'pack')):  # not divided: docs/findings/speed.md
                machines = f'1 core, {hours / 24:,.1f} days'
            rows.append([task, job, f'{hours:,.1f}', machines])
        size = costs[f'{task}_packed_bytes_per_pair'] * larger * pairs / 1e9
        rows.append([task, 'packed splits on disk', f'{size:,.1f} GB', ''])
    return rows


def marginal(few: Dict[str, float], many: Dict[str, float]) -> Dict[str, float]:
    """What a pair costs without its share of the program: the slope between both."""
    pairs = many['layout_pairs'] - few['layout_pairs']
    return {
        name: (many[name] * many['layout_pairs'] - few[name] * few['layout_pairs'])
        / pairs
        for name in few
        if name.endswith('_per_pair')
    }


def compared(columns: Dict[str, Dict[str, float]], names: Sequence[str]) -> str:
    """A table of figures side by side; marks those that grow, last by first."""
    rows = [['', *columns, 'last / first']]
    for name in names:
        values = [figures[name] for figures in columns.values()]
        ratio = values[-1] / values[0]
        is_unit = not name.endswith(('_pairs', '_graph'))
        grows = ' grows' if is_unit and ratio > _TOLERANCE else ''
        shown = [f'{v:,}' if isinstance(v, int) else f'{v:,.3g}' for v in values]
        rows.append([name, *shown, f'{ratio:.2f}{grows}'])
    return '\n'.join(text.table(rows, '<' + '>' * len(columns) + '<', rules=[1]))


def main() -> None:
    """Measures, checks that costs are linear, and prints the plan."""
    parser = results.parser(__doc__, record=True)
    parser.add_argument('--epochs', type=int, default=100)
    args = parser.parse_args()
    sizes, halves = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        graphs = write(pathlib.Path(folder))
        for size in _SIZES:
            figures = results.alone(measure_extraction, size)
            for task in _GRAPHS:
                found = results.alone(measure_training, task, graphs[task], size)
                figures.update(found)
            sizes[f'x {size}'] = figures
            print(f'size {size}: done', flush=True)
        middle = len(graphs['layout']) // 2
        parts = {'small': graphs['layout'][:middle], 'large': graphs['layout'][middle:]}
        for name, some in parts.items():
            figures = results.alone(measure_training, 'layout', some, 1)
            thousands = figures['layout_nodes_per_graph'] / 1000
            halves[name] = {
                'layout_nodes_per_graph': figures['layout_nodes_per_graph'],
                **{
                    f'{unit} per 1,000 nodes': figures[unit] / thousands
                    for unit in figures
                    if unit.endswith(('_us_per_pair', '_bytes_per_pair', '_step_ms'))
                },
            }
        few = results.alone(measure_training, 'layout', graphs['few'], 1)
    many = sizes[f'x {_SIZES[0]}']
    largest = sizes[f'x {_SIZES[-1]}']
    print(compared(sizes, list(largest)))
    print('\nprograms of few and of many nodes')
    print(compared(halves, list(halves['small'])))
    print('\nthe same programs with few and with many configurations')
    costs = {**largest, **marginal(few, many)}
    columns = {'few': few, 'many': many, 'a pair alone': costs}
    print(compared(columns, [name for name in few if name.endswith('_per_pair')]))
    for times in (1, 100):
        print(f'\n{times} x TpuGraphs')
        print('\n'.join(text.table(plan(costs, times, args.epochs), '<<>>')))
    alone = {f'{name}_alone': value for name, value in marginal(few, many).items()}
    results.show({**largest, **alone}, args.record)


if __name__ == '__main__':
    results.run(main)
