"""How many files a training step, a training, a prediction and `rank` pass.

Counted by profiling: every file of the two packages whose code runs, once the same
work has been done before, so that imports are no part of it.  The ceilings keep the
ways through the code short enough to be read; docs/architecture.md describes them.
"""

import collections
import itertools
import sys

import pytest
import tensorflow as tf

from baselines import config
from baselines.core import registry
from baselines.scoring import scorer
from baselines.tasks import lookup
from baselines.training import loop
from baselines.training import losses
from baselines.training import run_training
from baselines.training import task_data
from tests.helpers import finished_runs
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records
from tpugraphs import commands

_PACKAGES = tuple(f'{places.ROOT}/{name}/' for name in ('baselines', 'tpugraphs'))
_KERNELS = str(places.ROOT / 'examples/kernels.pb')


class _Walk:
    """The files that a call passes.

    Attributes:
        files: the files in the order in which they are entered first, relative to
            their package.
        packages: number of different packages of these files.
        returns: number of first entrances into a package that was left before.
        entrances: by file, how often its code is called after that of another file.
    """

    def __init__(self, call):
        self.entrances = collections.Counter()
        self._last = ''
        sys.setprofile(self._enter)
        try:
            call()
        finally:
            sys.setprofile(None)
        self.files = list(self.entrances)
        visited = [
            package
            for package, _ in itertools.groupby(
                file.partition('/')[0] for file in self.files
            )
        ]
        self.packages = len(set(visited))
        self.returns = len(visited) - self.packages

    def _enter(self, frame, event, unused_argument):
        # Bodies of modules run when they are imported, which is no part of a walk.
        path = frame.f_code.co_filename
        if event != 'call' or frame.f_code.co_name == '<module>':
            return
        for package in _PACKAGES:
            if path.startswith(package):
                file = path.removeprefix(package)
                self.entrances[file] += file != self._last
                self._last = file

    def assert_at_most(self, files, packages, returns):
        found = len(self.files), self.packages, self.returns
        within = all(n <= most for n, most in zip(found, (files, packages, returns)))
        assert within, f'{found}: {" ".join(self.files)}'


@pytest.fixture(name='train', scope='module')
def _train(tmp_path_factory):
    """Trains MLP for an epoch on the first measured kernels; returns the run."""
    home = tmp_path_factory.mktemp('home')
    settings = config.TileConfig(
        model='MLP',
        sample_data=True,
        toy_data=True,
        epochs=1,
        cache_dir=str(home / 'cache'),
        out_dir=str(home / 'out'),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv('HOME', str(home))  # where the archive is unpacked
        yield lambda: finished_runs.run_quietly(run_training.train, settings)[0]


@pytest.fixture(name='run', scope='module')
def _run(train):
    return str(train())


@pytest.mark.slow
def test_a_training_step_of_tiles(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    settings = config.TileConfig(
        data_root=str(tmp_path / 'data'),
        cache_dir=str(tmp_path / 'cache'),
        epochs=1,
        validate_batches=0,
    )
    data, task = task_data.open_data(settings), lookup.TASKS['tile']
    model_class = registry.find_model_class('MLP', 'tile')
    model = scorer.make_model(task, model_class, {}, 10, data.num_ops, data.normalizer)
    loss = losses.CombinedLoss(settings.losses, task.temperature)

    class Unused:
        def chosen(self, graphs, configs):
            return None

    trainer = loop.Trainer(model, loss, settings, Unused())
    tf.config.run_functions_eagerly(True)  # a compiled step hides what it is made of
    try:
        trainer.fit(data)
        walk = _Walk(lambda: trainer.fit(data))
    finally:
        tf.config.run_functions_eagerly(False)
    walk.assert_at_most(files=15, packages=5, returns=5)


@pytest.mark.slow
def test_a_training(train, run):
    walk = _Walk(train)
    walk.assert_at_most(files=44, packages=9, returns=16)
    assert walk.entrances['training/run_training.py'] <= 8


@pytest.mark.slow
def test_a_prediction(run, tmp_path, capsys):
    def predict(name):
        # Nothing is packed yet.
        places = [f'--cache_dir={tmp_path / name}', f'--output={tmp_path / name}.csv']
        assert commands.run('predict', ['--dir', run, *places]) == 0

    predict('first')  # imports what is imported late
    walk = _Walk(lambda: predict('second'))
    walk.assert_at_most(files=32, packages=8, returns=7)
    assert walk.entrances['runs/run_files.py'] <= 4
    assert walk.entrances['runs/weights.py'] <= 4


@pytest.mark.slow
def test_rank(run, capsys):
    def rank():
        assert commands.run('rank', [_KERNELS, '--dir', run]) == 0

    rank()  # imports what is imported late
    walk = _Walk(rank)
    walk.assert_at_most(files=40, packages=10, returns=9)


@pytest.mark.slow
@pytest.mark.parametrize('trained, most', [(True, 95), (False, 90)])
def test_rank_imports_what_it_needs(run, trained, most):
    script = (
        'import sys; from tpugraphs import commands; '
        'commands.run("rank", sys.argv[1:]); names = list(sys.modules); '
        'ours = [n for n in names if n.split(".")[0] in ("baselines", "tpugraphs")]; '
        'print(*ours, file=sys.stderr)'
    )
    run = run if trained else 'estimate'
    done = processes.python('-c', script, _KERNELS, '--dir', run)
    imported = done.stderr.splitlines()[-1].split()
    assert len(imported) <= most, imported
