"""Makes the run that ships, `pretrained`, and the description that `rank` prints.

  python lab/tools/measured_data/pretrain.py

Trains `--recipe=strong --model=Trees`, with more trees than by default, on the train
split of the measured kernels that ship, with their valid split to stop at, and judges
it on `by_others_real`: kernels at published sizes, of programs whose families it has
not seen.  The run and about.json replace those in `lab/tpugraphs_lab/pretrained`.  The
same data, LightGBM and settings make the same trees.
"""

import json
import os
import shlex
import shutil
import tempfile
from typing import Any

import numpy as np

from baselines.core import files
from baselines.runs import run_files
from benchmarks import results
from lab.benchmarks import judging
from lab.benchmarks import leaderboard
from tpugraphs_lab import pretrained_run

_FLAGS = ('--sample_data', '--recipe=strong', *leaderboard.MORE_TREES, '--seed=0')
_UNSEEN = 'by_others_real'


def main() -> None:
    """Trains, judges, and replaces the run that ships."""
    results.parser(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        made = os.path.join(scratch, 'made')
        results.trained('tile', made, *_FLAGS)
        run = run_files.read(results.run_of(made))
        about = describe(run)
        print(json.dumps(about, indent=1))
        target = pretrained_run.folder()
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(run.model_dir, os.path.join(target, f'model_{run.hash}'))
        shutil.copy(run.file, target)
        with files.write_atomically(
            os.path.join(target, 'about.json'), encoding='utf-8'
        ) as stream:
            json.dump(about, stream, indent=1)
    print(pretrained_run.describe())


def describe(run: run_files.RunFile) -> dict[str, Any]:
    """Returns what a run was trained on, and its figures on unseen programs."""
    graphs = judging.load(_UNSEEN, 'test')
    scores, _ = results.scores(run.model_dir, judging.folder_of(_UNSEEN), graphs)
    rows = judging.figures('tile', graphs, scores)
    figures = judging.summary([rows], graphs, judging.TILE_WHOLES)['mean']
    return {
        'model': run.args['model'],
        'command': f'tiles_train.py {shlex.join(_FLAGS)}',
        'kernels': len(judging.load('tile', 'train')),
        'hardware': run.info.get('measured_on', ''),
        'versions': run.info.get('versions', {}),
        'unseen': len(graphs),
        'top_5_error': figures[1],
        'opa': figures[2],
        'first': figures[5],
        'ten': figures[6],
        # A test makes these scores again.
        'scores': {
            graph.name: np.round(row, 6).tolist()
            for graph, row in zip(graphs[:3], scores[:3])
        },
    }


if __name__ == '__main__':
    results.run(main)
