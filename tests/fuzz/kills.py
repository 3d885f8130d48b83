"""Commands that are killed at random moments, and begun again until they end.

A chain of attempts has to leave what an attempt leaves that nobody interrupted:
trainings the same weights, curve and ranking; extractions the same files; what
measures or searches the same kernels and as many trials.  Nothing else may be left.
"""

import hashlib
import json
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import numpy as np

from tests.helpers import finished_runs
from tests.helpers import hlo_modules
from tests.helpers import layout_runs
from tests.helpers import places
from tests.helpers import tile_records

_MOST_KILLS = 3  # of a chain, so that it ends
_OUT = object()  # stands for the folder, in the words of a command


class Work(NamedTuple):
    """A command that goes on where an earlier attempt was killed.

    Attributes:
        words: of the command.
        result: what it has left in its folder, in a form that can be compared.
    """

    words: List[Any]
    result: Callable[[pathlib.Path], Any]


def works(root: pathlib.Path) -> Dict[str, Work]:
    """Writes small inputs; returns all work on them, by name."""
    tile_records.write_splits(root / 'tile', 12)
    layout_runs.write_splits(root / 'layout' / 'xla' / 'random')
    raw = root / 'raw'
    raw.mkdir()
    for number in range(40):
        module = hlo_modules.good_tile(f'fusion.{number}')
        (raw / f'{number}.pb').write_bytes(hlo_modules.tile_file(module))
    space = root / 'space.toml'
    space.write_text('lr = {low = 1e-4, high = 1e-2, log = true}\n')
    cache = ['--cache_dir', root / 'cache']
    tiles = ['tile', '--data_root', root / 'tile', *cache, '--model=MLP']
    layouts = ['layout', '--data_root', root / 'layout', *cache]
    train = ['--epochs=6', '--batch=2', '--configs=4', '--resume', '--out_dir', _OUT]
    program = f'{places.ROOT}/examples/my_program.py:step'
    few = ['--seed=1', f'--records={root / "records"}']
    collect = ['--kernels=3', '--configs=6', '--resume', '--passes=2', '--split=none']
    tune = [
        '--fresh',
        '--measure=3',
        '--candidates=20',
        '--output',
        _OUT,
        '--budget-minutes=1',
    ]
    sweep = ['--epochs=2', '--trials=2', '--no_pruning', '--space', space]
    return {
        'train tile': Work(['train', *tiles, *train], _trained),
        'train layout': Work(['train', *layouts, *train], _trained),
        'extract': Work(
            ['extract', raw, _OUT, '--split=80/10/10', '--by=module'], _files
        ),
        'collect': Work(['collect', program, _OUT, *collect, *few], _collected),
        'tune': Work(['tune', program, *tune, *few], _tuned),
        'sweep': Work(['sweep', *tiles, *sweep, '--out_dir', _OUT], _swept),
    }


def run(
    work: Dict[str, Work], root: pathlib.Path, kills: int, seconds: float, seed: int
) -> None:
    """Kills works in turn, and prints what became of them.

    Args:
        work: by name; each has a turn at least, if there is time.
        root: folder of their outputs.
        kills: after which no further turn begins.
        seconds: likewise.
        seed: of the moments.

    Raises:
        AssertionError: a chain ended otherwise than work without interruption.
    """
    rng = np.random.default_rng(seed)
    deadline = time.monotonic() + seconds
    whole: Dict[str, Any] = {}
    chains = done = 0
    while (chains < len(work) or done < kills) and time.monotonic() < deadline:
        name = list(work)[chains % len(work)]
        here = root / name.replace(' ', '_')
        if name not in whole:
            took = _ended(work[name], here)
            whole[name] = took, work[name].result(here)
        duration, expected = whole[name]
        folder, killed, ended = pathlib.Path(f'{here}_{chains}'), 0, None
        while ended is None:
            # Also after the end of the work, while its result is written.
            after = rng.uniform(0.05, 1.1) * duration if killed < _MOST_KILLS else None
            ended = _ended(work[name], folder, after)
            killed += ended is None
        assert work[name].result(folder) == expected, f'{folder} differs from {here}'
        chains, done = chains + 1, done + killed
        print(f'{name}: ended after {killed} kills as without, in {ended:.0f} s')


def _ended(
    work: Work, folder: pathlib.Path, after: Optional[float] = None
) -> Optional[float]:
    """Works in a process of its own, killed after so many seconds, if any.

    Returns:
        Seconds that it took; None if it was killed.

    Raises:
        AssertionError: it has failed.
    """
    words = [str(folder if word is _OUT else word) for word in work.words]
    began = time.monotonic()
    with open(f'{folder}.log', 'ab') as log:
        child = subprocess.Popen(
            [sys.executable, '-m', 'tpugraphs', *words], stdout=log, stderr=log
        )
        try:
            child.wait(after)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
    assert child.returncode in (0, -signal.SIGKILL), f'{folder}.log tells the error'
    return None if child.returncode else time.monotonic() - began


def _trained(out_dir: pathlib.Path) -> Dict[str, Any]:
    names = sorted(path.name for path in out_dir.iterdir())
    assert [name.partition('_')[0] for name in names] == ['model', 'results', 'run']
    (model_dir,) = out_dir.glob('model_*')
    info = finished_runs.info_of(model_dir)
    return {
        'weights': info['digest']['weights'],
        'curve': finished_runs.curve_of(model_dir),
        'ranking': finished_runs.csv_of(model_dir),
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
