"""Seconds, bytes and memory of each job at 1, 2, 4 and 8 times the size, and what they
add up to for collections that are larger.

    python benchmarks/scaling.py            # simulated data; some minutes
    python benchmarks/scaling.py --record   # and keep the figures

A job is linear if a unit of it costs the same at every size, up to what starting it
costs.  What it costs at the largest size goes into the plan of docs/scaling.md, whose
formulas are `plan`.
"""

import argparse
import dataclasses
import os
import pathlib
import resource
import sys
import tempfile
import time
from typing import Dict, List, Tuple

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

# Pairs of TpuGraphs; arXiv:2308.13490, table 2.
TILE_PAIRS, LAYOUT_PAIRS = 13e6, 31e6


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
                model=_MODELS[task], batch=2, keep_nodes=1000, **places
            )
            kind = layout.Training
        began = time.perf_counter()
        training = kind(made)
        opened = time.perf_counter() - began
        pairs = int(training.stores['train'].config_counts.sum())
        packed = sum(p.stat().st_size for p in pathlib.Path(cache).rglob('*.*'))
        # A second time the split is packed: what is left is opening it and a model.
        began = time.perf_counter()
        training = kind(dataclasses.replace(made))
        again = time.perf_counter() - began
        batches = training._epochs()
        taken, seconds = 0, 0.0
        for epoch in range(1000):
            for chunk in batches(epoch):
                began = time.perf_counter()
                training._trainer.run_chunk(chunk.packed, chunk.steps)
                if taken:  # the first compiles
                    seconds += time.perf_counter() - began
                taken += chunk.steps
                first = chunk.steps if taken == chunk.steps else 0
                if first:
                    warm = chunk.steps
            if taken - warm >= _STEPS:
                break
        list(training.scores(training.graphs['valid']))
        began = time.perf_counter()
        scored = sum(len(s) for s in training.scores(training.graphs['train']))
        scoring = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {
        f'{task}_pairs': pairs,
        f'{task}_pack_us_per_pair': max(opened - again, 0.0) / pairs * 1e6,
        f'{task}_packed_bytes_per_pair': packed / pairs,
        f'{task}_step_ms': seconds / (taken - warm) * 1e3,
        f'{task}_score_us_per_pair': scoring / scored * 1e6,
        f'{task}_peak_mb': peak,
    }


def plan(costs: Dict[str, float], times: float, epochs: int) -> List[Tuple[str, ...]]:
    """What `times` TpuGraphs costs on one core, hours: a row for each job.

    extract and pack once; an epoch draws 10 configurations of a kernel and 16 of a
    program, in steps of 10 and 8, so its steps grow with the graphs; scoring passes
    over every pair once.
    """
    kernels, programs = 7229 * times, 1100 * times
    pairs = {'tile': TILE_PAIRS * times, 'layout': LAYOUT_PAIRS * times}
    steps = {'tile': epochs * kernels / 10, 'layout': epochs * programs / 8}
    rows = []
    for task in pairs:
        for job, seconds in {
            'extract': costs['extract_us_per_run'] * pairs[task] / 1e6,
            'pack': costs[f'{task}_pack_us_per_pair'] * pairs[task] / 1e6,
            f'train {epochs} epochs': costs[f'{task}_step_ms'] * steps[task] / 1e3,
            'sweep of 60 trials': costs[f'{task}_step_ms']
            * steps[task]
            * 60
            * _SWEPT
            / 1e3,
            'score': costs[f'{task}_score_us_per_pair'] * pairs[task] / 1e6,
        }.items():
            rows.append((task, job, f'{seconds / 3600:,.1f}'))
        gigabytes = costs[f'{task}_packed_bytes_per_pair'] * pairs[task] / 1e9
        rows.append((task, 'packed, GB', f'{gigabytes:,.1f}'))
    return rows


# Of its epochs a trial makes this share, where halving ends two in three at 1/9 and
# 1/3 of them: 1/9 + (1/3) (1/3 - 1/9) + (1/9) (1 - 1/3).
_SWEPT = 1 / 9 + (1 / 3) * (1 / 3 - 1 / 9) + (1 / 9) * (1 - 1 / 3)


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
