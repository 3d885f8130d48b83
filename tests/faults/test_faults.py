"""Each fault, for each command that it concerns; see `table.COMMANDS`."""

import os
import re
import shutil

import pytest

from baselines.scoring import prediction
from tests.faults import calls
from tests.faults import table
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import processes
from tpugraphs import commands

_COMMANDS = table.COMMANDS
_WRITERS = [name for name in _COMMANDS if table.MADE.search(_COMMANDS[name].words)]
_QUICK = [name for name, command in _COMMANDS.items() if command.every]
_QUICK_WRITERS = [name for name in _WRITERS if name in _QUICK]
_READS = [(name, path) for name in _COMMANDS for path in _COMMANDS[name].reads.split()]
_HASH = re.compile(r'[0-9a-f]{32}|\d{13}')  # of a run, and the time in its CSV's name


def _call(world, name, *fault):
    return calls.Call(world, [name, *_COMMANDS[name].words.split()], *fault)


def _run(world, name, *fault):
    return _call(world, name, *fault).done()


def _results(world):
    """Returns the files that commands are to make and to keep: path -> content.

    A training's have other names each time, and no content here.
    """
    contents = {}
    for path in processes.list_files(world):
        name = _HASH.sub('*', path)
        if '/cache/' not in f'/{path}' and '/.' not in f'/{path}':
            is_of_training = name != path or path.startswith('out/')
            contents[name] = is_of_training or (world / path).read_bytes()
    return contents


def _remove_results(world):
    for path in (*world.glob('new*'), world / 'out'):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)


def _leftovers(world):
    """Lists hidden files and folders, which only a killed process may leave."""
    return [path for path in world.rglob('.*') if path.suffix != '.lock']


def _assert_refused(done, word=''):
    """Checks for exit code 1, and an error of one line at the end."""
    assert done.code == 1, done
    errors = re.findall(r'^error: .*', done.err, re.MULTILINE)
    assert len(errors) == 1 and done.err.endswith(f'{errors[0]}\n'), done.err
    assert word in errors[0]


@pytest.fixture(name='packed')
def _packed(world):
    """A folder whose splits are packed already."""
    assert _run(world, 'predict').code == _run(world, 'evaluate').code == 0
    _remove_results(world)
    return world


@pytest.fixture(name='unchanged')
def _unchanged(world):
    """A folder in which a test makes and leaves nothing."""
    before = _results(world)
    yield world
    assert _results(world) == before and not _leftovers(world)


def test_every_command_says_what_it_reads_and_writes():
    scripts = {path.name for path in places.ROOT.glob('*.py')} - {'setup.py'}
    assert {*_COMMANDS, *table.APART} == {*commands.list_commands(), *scripts}


@pytest.mark.parametrize('kind', ['cut', 'pipe'])
@pytest.mark.parametrize('name, path', _READS)
def test_damaged_input(world, name, path, kind):
    file = world / path
    whole = file.read_bytes()
    file.unlink()
    if kind == 'pipe':
        os.mkfifo(file)
    else:
        file.write_bytes(whole[: len(whole) // 2] + b'\x00\xff')
    before, done = _results(world), _run(world, name)
    if name != 'runs':
        _assert_refused(done, file.name)
    elif kind == 'cut':  # it lists the others
        assert done.code == 0 and file.name in done.err
    assert _results(world) == before and not _leftovers(world)


@pytest.mark.parametrize('name', _WRITERS)
def test_a_full_disk(unchanged, name):
    if 'data_root' in _COMMANDS[name].words and name != 'sweep':  # has a study first
        _assert_refused(_run(unchanged, name, calls.full_disk, 5000), 'cache')
    _assert_refused(_run(unchanged, name, calls.full_disk, 100))


@pytest.mark.parametrize('name', _WRITERS)
def test_a_folder_that_cannot_be_written(unchanged, name):
    words = table.MADE.sub(r'/sys/\1', _COMMANDS[name].words)
    _assert_refused(calls.run(unchanged, [name, *words.split()]), '/sys')


@pytest.mark.parametrize('fault', [(calls.full_disk, 10), (calls.kill,)])
@pytest.mark.parametrize('name', _QUICK_WRITERS)
def test_a_fault_at_each_stage(packed, name, fault):
    assert _run(packed, name).code == 0
    finished = _results(packed)
    for stage in range(0, 500, _COMMANDS[name].every):
        _remove_results(packed)
        done = _run(packed, name, calls.at_stage, stage, *fault)
        assert _results(packed).items() <= finished.items()
        if not done.code:
            break
        if fault == (calls.kill,):
            assert done.code == -9
        else:
            _assert_refused(done)
            assert not _leftovers(packed)
    _remove_results(packed)
    assert _run(packed, name).code == 0
    assert stage and _results(packed) == finished and not _leftovers(packed)


def test_killed_at_each_stage_of_packing(world):
    for stage in range(0, 100, 20):
        shutil.rmtree(world / 'cache', ignore_errors=True)
        done = _run(world, 'predict', calls.at_stage, stage, calls.kill)
        assert done.code in (-9, 0)
        assert _run(world, 'predict').code == 0 and not _leftovers(world)


@pytest.mark.parametrize('name', _QUICK_WRITERS)
def test_several_at_once(world, name):
    """Eight where the cache is new: one packs, the others wait."""
    count = 8 if name == 'predict' else 2
    for done in [call.done() for call in [_call(world, name) for _ in range(count)]]:
        if done.code:
            assert _COMMANDS[name].alone
            _assert_refused(done, _COMMANDS[name].alone)
    several = _results(world)
    _remove_results(world)
    assert _run(world, name).code == 0
    assert _results(world) == several and not _leftovers(world)


@pytest.mark.parametrize('fault', [calls.close, calls.fill])
@pytest.mark.parametrize('stream', ['out', 'err'])
@pytest.mark.parametrize('name', [name for name in _QUICK if name != 'train'])
def test_closed_and_full_streams(packed, name, stream, fault):
    good = _run(packed, name)
    assert good.code == 0
    _remove_results(packed)
    done = _run(packed, name, fault, f'std{stream}')
    is_lost = bool(getattr(good, stream))
    assert done.code == is_lost, done
    if stream == 'err':
        assert done.out == good.out
    elif is_lost:
        assert 'is closed' in done.err or 'No space left' in done.err


def test_a_folder_may_have_any_name(world):
    root = world.rename(world.parent / 'a?b%20 [c] \\*')
    data = [f'--data_root={root}/npz/tile/xla', f'--cache_dir={root}/cache']
    options = ['--model=Trees', '--model_kwargs_json={"trees":2}']
    train = ['train', 'tile', *options, *data, f'--out_dir={root}/out']
    assert calls.run(root, train).code == 0
    for run in ('runs/model_aaaa', 'out/latest'):
        words = f'{root}/{run}', *data, f'--output={root}/new.csv'
        assert calls.run(root, ['predict', *words]).code == 0
        assert (root / 'new.csv').read_text().count('\n') == 4
        (root / 'new.csv').unlink()
    prediction.load(made_runs.make_tile_run(root))  # reads weights
    study = pytest.importorskip('tpugraphs.sweep.trials')
    storage = study.make_default_storage(str(root))
    study.create_study(storage, 'tile', {}, 0)
    assert (root / 'sweep.db').is_file()
    assert study.load_study(storage, '').study_name == 'tile'
