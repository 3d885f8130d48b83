"""Work that is killed at random moments, and begun again until it ends.

A chain of attempts has to leave what an attempt leaves that nobody interrupted:
trainings the same weights, curve and ranking; extractions the same files; what
measures or searches the same kernels and as many trials.  Nothing else may be left.
"""

import hashlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, NamedTuple

import numpy as np

from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tile_runs

_MOST_KILLS = 3  # of a chain, so that it ends


class Work(NamedTuple):
    """Work that goes on where an earlier attempt was killed.

    Attributes:
        start: begins it in a folder, in a process of its own; its id.
        result: what it has left in the folder, in a form that can be compared.
    """

    start: Callable[[pathlib.Path], int]
    result: Callable[[pathlib.Path], Any]


class Outcome(NamedTuple):
    """What chains did.

    Attributes:
        chains: how many ended, each as one without interruption.
        kills: how many processes were killed on the way.
        slowest: seconds of the longest attempt that ended.
    """

    chains: int = 0
    kills: int = 0
    slowest: float = 0.0


def works(root: pathlib.Path) -> Dict[str, Work]:
    """Writes small inputs; returns all work on them, by name."""
    return {**trainings(root), **commands(root)}


def trainings(root: pathlib.Path) -> Dict[str, Work]:
    """Trainings of both tasks."""
    tile_records.write_splits(root / 'tile' / 'data', 6)
    layout_runs.write_splits(root / 'layout' / 'data' / 'xla' / 'random')

    def start(train: Callable[..., Any], folder: pathlib.Path) -> int:
        settings = dict(epochs=6, batch=2, out_dir=str(folder), resume=True)
        return _forked(lambda: train(settings))

    def tile(settings: Dict[str, Any]) -> Any:
        return tile_runs.train(root / 'tile', **{**tile_runs.TINY, **settings})

    def layout(settings: Dict[str, Any]) -> Any:
        return layout_runs.train(root / 'layout', **{**layout_runs.TINY, **settings})

    return {
        'train tile': Work(lambda folder: start(tile, folder), _trained),
        'train layout': Work(lambda folder: start(layout, folder), _trained),
    }


def commands(root: pathlib.Path) -> Dict[str, Work]:
    """The commands that go on where they were broken off."""
    raw = root / 'raw'
    raw.mkdir()
    for number in range(40):
        module = hlo_modules.good_tile(f'fusion.{number}')
        (raw / f'{number}.pb').write_bytes(hlo_modules.tile_file(module))
    program = f'{places.ROOT}/examples/my_program.py:step'
    few = ['--seed=1', f'--records={root / "records"}']
    tile_records.write_splits(root / 'data', 12)
    space = root / 'space.toml'
    space.write_text('lr = {low = 1e-4, high = 1e-2, log = true}\n')
    data = ['--data_root', root / 'data', '--cache_dir', root / 'cache']

    def command(*words: Any) -> Callable[[pathlib.Path], int]:
        def start(folder: pathlib.Path) -> int:
            given = [folder if word is OUT else word for word in words]
            line = [sys.executable, '-m', 'tpugraphs', *map(str, given)]
            with open(f'{folder}.log', 'ab') as log:
                return subprocess.Popen(line, stdout=log, stderr=log).pid

        return start

    return {
        'extract': Work(
            command('extract', raw, OUT, '--split=80/10/10', '--by=module'), _files
        ),
        'collect': Work(
            command(
                *('collect', program, OUT, '--kernels=3', '--configs=6', '--resume'),
                *('--passes=2', '--split=none', *few),
            ),
            _collected,
        ),
        'tune': Work(
            command(
                *('tune', program, '--measure=3', '--candidates=20', '--fresh', *few),
                *('--output', OUT, '--budget-minutes=1'),
            ),
            _tuned,
        ),
        'sweep': Work(
            command(
                *('sweep', 'tile', *data, '--model=MLP', '--epochs=2', '--trials=2'),
                *('--out_dir', OUT, '--no_pruning', '--space', space),
            ),
            _swept,
        ),
    }


OUT = object()  # stands for the folder, in the words of a command


def run(
    work: Dict[str, Work],
    root: pathlib.Path,
    kills: int,
    seconds: float,
    seed: int,
    say: Callable[[str], None] = lambda line: None,
) -> Outcome:
    """Kills works in turn, so often or so long.

    Raises:
        AssertionError: a chain ended otherwise than work without interruption.
    """
    rng = np.random.default_rng(seed)
    deadline = time.monotonic() + seconds
    whole: Dict[str, Any] = {}
    done = Outcome()
    while done.kills < kills and time.monotonic() < deadline:
        name = list(work)[done.chains % len(work)]
        here = root / name.replace(' ', '_')
        if name not in whole:
            duration = _ended(work[name], here, None)
            whole[name] = duration, work[name].result(here)
        duration, expected = whole[name]
        folder, killed = pathlib.Path(f'{here}_{done.chains}'), 0
        while True:
            # Also after the end of the work, while its result is written.
            after = rng.uniform(0.05, 1.1) * duration if killed < _MOST_KILLS else None
            ended = _ended(work[name], folder, after)
            if ended:
                break
            killed += 1
        assert work[name].result(folder) == expected, f'{folder} differs from {here}'
        slowest = max(done.slowest, ended)
        done = Outcome(done.chains + 1, done.kills + killed, slowest)
        say(f'{name}: ended after {killed} kills as without')
    return done


def _ended(work: Work, folder: pathlib.Path, after: Any) -> float:
    """Works in a process of its own; kills it after so many seconds, if any.

    Returns:
        Seconds that it took; 0 if it was killed.

    Raises:
        AssertionError: it has failed.
    """
    began = time.monotonic()
    pid = work.start(folder)
    if after is not None:
        while time.monotonic() < began + after:
            time.sleep(0.02)
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                break
        else:
            os.kill(pid, signal.SIGKILL)
            ended, status = os.waitpid(pid, 0)
    else:
        ended, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, -signal.SIGKILL), f'{folder}: ended with {code}'
    return 0.0 if code else time.monotonic() - began


def _forked(work: Callable[[], Any]) -> int:
    pid = os.fork()  # TensorFlow is imported, but has started no thread
    if not pid:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    return pid


def _trained(out_dir: pathlib.Path) -> Dict[str, Any]:
    names = sorted(path.name for path in out_dir.iterdir())
    kinds_left = sorted({name.partition('_')[0] for name in names})
    assert kinds_left == ['model', 'results', 'run'] and len(names) == 3, names
    (model_dir,) = out_dir.glob('model_*')
    info = finished_runs.info_of(model_dir)
    text = finished_runs.csv_of(model_dir)
    return {
        'weights': info['digest']['weights'],
        'curve': finished_runs.curve_of(model_dir),
        'ranking': hashlib.sha256(text.encode()).hexdigest(),
        'predictions': info['test_predictions'],
    }


def _files(folder: pathlib.Path) -> Dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob('*'))
        if path.is_file()
    }


def _collected(folder: pathlib.Path) -> List[str]:
    """The kernels; which of them are quiet is up to the machine."""
    from tpugraphs.measure import collection_folder

    kernels = collection_folder.read_sidecar(str(folder))['kernels']
    written = {path.stem for path in folder.rglob('*.npz')}
    assert set(kernels) == written, set(kernels) ^ written
    assert not [path for path in folder.rglob('.*') if path.is_file()]
    return sorted(kernels)


def _tuned(folder: pathlib.Path) -> List[str]:
    """That there is a program; which kernels are faster is up to the machine."""
    assert not list(folder.rglob('.*'))
    return sorted(path.name for path in folder.glob('program*'))


def _swept(folder: pathlib.Path) -> int:
    """How many trials are complete."""
    from tpugraphs.sweep import study as study_lib

    study = study_lib.load(study_lib.default_storage(str(folder)), '')
    assert json.loads((folder / 'best.json').read_text())['settings']
    return len(study_lib.trials_of(study, 'COMPLETE'))
