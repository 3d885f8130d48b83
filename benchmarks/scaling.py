"""Seconds, bytes and memory of each job at 1, 2, 4 and 8 times the size, and what they
add up to for collections that are larger.

    python benchmarks/scaling.py            # simulated data; some minutes
    python benchmarks/scaling.py --record   # and keep the figures

A job is linear if a unit of it costs the same at every size, up to what starting it
costs.  What it costs at the largest size goes into the plan of docs/scaling.md, whose
formulas are `plan`.
"""

import argparse
import itertools
import os
import pathlib
import resource
import sys
import tempfile
import time
from typing import Dict, List

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# pylint: disable=wrong-import-position
import results

from baselines import command_line
from baselines import text

# Beyond this a unit at the largest size costs so much more than at the smallest that
# the plan does not hold.
_TOLERANCE = 1.25
_SIZES = (1, 2, 4, 8)
# Graphs at size 1, and configurations of each.
_GRAPHS = {'tile': 50, 'layout': 2}
_LAYOUT_CONFIGS = 400
_FILES, _RUNS = 100, 300
_MODELS = {'tile': 'EarlyJoinSAGE', 'layout': 'ResModel'}
_STEPS = 40

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


def measure_extraction(size: int) -> Dict[str, float]:
    """Extracts files of one kernel with 300 runs."""
    import clusters

    from baselines.extraction import extractor

    with tempfile.TemporaryDirectory() as folder:
        raw = pathlib.Path(folder, 'raw')
        clusters.make(raw, _FILES * size)
        options = extractor.Options(os.path.join(folder, 'out'), 'tile')
        began = time.perf_counter()
        for path in sorted(raw.iterdir()):
            extractor.extract_file(str(path), options)
        seconds = time.perf_counter() - began
    return {'extract_us_per_run': seconds / (_FILES * size * _RUNS) * 1e6}


def measure_training(task: str, size: int) -> Dict[str, float]:
    """Packs, trains and scores simulated graphs, of `size` times the number."""
    command_line.start_tensorflow()
    from baselines import config
    from baselines.simulated.layout import dataset as programs
    from baselines.simulated.tile import dataset as kernels
    from baselines.tasks import layout
    from baselines.tasks import tile

    count = _GRAPHS[task] * size
    with tempfile.TemporaryDirectory() as folder:
        data, cache = os.path.join(folder, 'data'), os.path.join(folder, 'cache')
        places = dict(data_root=data, cache_dir=cache, out_dir=folder, epochs=1)
        if task == 'tile':
            kernels.Kernels(count, 2, 2).write(data, progress=False)
            made = config.TileConfig(model=_MODELS[task], **places)
            kind = tile.Training
        else:
            configs = dict(configs_min=_LAYOUT_CONFIGS, configs_max=_LAYOUT_CONFIGS)
            programs.Programs(count, 1, 1, **configs).write(data, progress=False)
            made = config.LayoutConfig(
                model=_MODELS[task], batch=_BATCH[task], keep_nodes=1000, **places
            )
            kind = layout.Training
        began = time.perf_counter()
        training = kind(made)
        opened = time.perf_counter() - began
        train = training.stores['train']
        pairs = int(train.config_counts.sum())
        packed = sum(p.stat().st_size for p in pathlib.Path(cache).rglob('*.*'))
        # A second time the split is packed: what is left is opening it and a model.
        began = time.perf_counter()
        training = kind(made)
        again = time.perf_counter() - began
        descent = training.learners[0]
        epoch = descent._epochs()
        taken, seconds = -1, 0.0  # the first chunk, of 0, compiles
        for chunk in itertools.chain.from_iterable(map(epoch, range(1000))):
            began = time.perf_counter()
            descent.trainer.run_chunk(chunk.packed, chunk.steps)
            if taken >= 0:
                seconds += time.perf_counter() - began
                taken += chunk.steps
            else:
                taken = 0
            if taken >= _STEPS:
                break
        list(training.scores(training.graphs['valid']))
        began = time.perf_counter()
        # Others may have opcodes that the model has not been made for.
        chosen = training.scores(training.graphs['train'], training.chosen)
        scored = sum(map(len, chosen))
        scoring = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        f'{task}_pairs': pairs,
        f'{task}_nodes_per_graph': float(np.diff(train.node_offsets).mean()),
        f'{task}_pack_us_per_pair': max(opened - again, 0.0) / pairs * 1e6,
        f'{task}_packed_bytes_per_pair': packed / pairs,
        f'{task}_step_ms': seconds / taken * 1e3,
        f'{task}_score_us_per_pair': scoring / scored * 1e6,
        f'{task}_peak_mb': peak,
    }


def plan(costs: Dict[str, float], times: float, epochs: int) -> List[List[str]]:
    """What `times` TpuGraphs costs on one core: rows of task, job, and how much.

    Extracting, packing and scoring pass over every pair once.  A training takes a step
    for each batch of its graphs in every epoch, whatever their configurations are.
    Layouts are measured on smaller programs: packing, steps and scores are taken to
    grow with the nodes.
    """
    rows = []
    for task, pairs in _PAIRS.items():
        pairs *= times
        larger = 1.0
        if task == 'layout':
            larger = _NODES[task] / costs['layout_nodes_per_graph']
        steps = epochs * times * _TRAINED_ON[task] / _BATCH[task]
        training = costs[f'{task}_step_ms'] * larger * steps / 1e3
        hours = {
            'pack': costs[f'{task}_pack_us_per_pair'] * larger * pairs / 1e6,
            f'train {epochs} epochs': training,
            f'sweep of {_TRIALS} trials': training * _TRIALS * _SWEPT,
            'score every pair': costs[f'{task}_score_us_per_pair']
            * larger
            * pairs
            / 1e6,
        }
        if task == 'tile':
            hours = {'extract': costs['extract_us_per_run'] * pairs / 1e6, **hours}
        for job, seconds in hours.items():
            rows.append([task, job, f'{seconds / 3600:,.1f} h'])
        size = costs[f'{task}_packed_bytes_per_pair'] * larger * pairs / 1e9
        rows.append([task, 'packed splits on disk', f'{size:,.1f} GB'])
    return rows


def main() -> int:
    """Measures, checks that costs are linear, and prints the plan."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--epochs', type=int, default=100)
    parser.add_argument('--record', action='store_true', help='keep the figures')
    args = parser.parse_args()
    found = []
    for size in _SIZES:
        figures = results.alone(measure_extraction, size)
        for task in _GRAPHS:
            figures.update(results.alone(measure_training, task, size))
        found.append(figures)
        print(f'size {size}: done', flush=True)
    rows = [['a unit costs', *(f'x {size}' for size in _SIZES), 'last / first']]
    for name in found[0]:
        values = [figures[name] for figures in found]
        ratio = values[-1] / values[0] if values[0] else float('nan')
        is_unit = not name.endswith('_pairs')
        grows = is_unit and not ratio <= _TOLERANCE
        rows.append(
            [
                name,
                *(f'{value:,.3g}' if is_unit else f'{value:,}' for value in values),
                f'{ratio:.2f}' + (' grows' if grows else ''),
            ]
        )
    print('\n'.join(text.table(rows, '<>', rules=[1])))
    for times in (1, 100):
        print(f'\n{times} x TpuGraphs, hours on one core')
        print('\n'.join(text.table(plan(found[-1], times, args.epochs), '<<>')))
    results.show(found[-1], args.record)
    return 0


if __name__ == '__main__':
    sys.exit(main())
