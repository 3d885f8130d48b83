"""Each fault, for each command that it concerns; see `table.COMMANDS`."""

import os
import re
import shutil

import pytest

from tests.faults import calls
from tests.faults import table
from tests.helpers import places
from tests.helpers import processes
from tpugraphs import commands

_COMMANDS = table.COMMANDS
_WRITERS = [name for name, command in _COMMANDS.items() if command.writes]
_QUICK = [name for name, command in _COMMANDS.items() if command.every]
_QUICK_WRITERS = [name for name in _WRITERS if name in _QUICK]
_READS = [
    (name, path)
    for name, command in _COMMANDS.items()
    for path in command.reads.split()
]
_HASH = re.compile(r'[0-9a-f]{32}|\d{13}')  # of a run, and the time in its CSV's name


def _words(name):
    return [name, *_COMMANDS[name].words.split()]


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
    hidden = (path for path in world.rglob('.*') if path.suffix != '.lock')
    return [str(path.relative_to(world)) for path in hidden]


def _assert_refused(done, *words):
    """Checks for exit code 1, and an error of one line at the end."""
    assert done.code == 1, done
    errors = re.findall(r'^error: .*', done.err, re.MULTILINE)
    assert len(errors) == 1 and done.err.endswith(f'{errors[0]}\n'), done.err
    for word in words:
        assert word in errors[0]


@pytest.fixture(name='packed')
def _packed(world):
    """A folder whose splits are packed already."""
    assert calls.run(world, _words('predict')).code == 0
    assert calls.run(world, _words('evaluate')).code == 0
    _remove_results(world)
    return world


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
    before = _results(world)
    done = calls.run(world, _words(name))
    if name != 'runs':
        _assert_refused(done, file.name)
    elif kind == 'cut':  # it lists the others
        assert done.code == 0 and file.name in done.err
    assert _results(world) == before and not _leftovers(world)


@pytest.mark.parametrize('name', _WRITERS)
def test_a_full_disk(world, name):
    before = _results(world)
    for size, place in ((5000, 'cache'), (100, '')):
        if _COMMANDS[name].caches or not place:
            done = calls.run(world, _words(name), calls.full_disk, size)
            _assert_refused(done, place)
    assert _results(world) == before and not _leftovers(world)


@pytest.mark.parametrize('name', _WRITERS)
def test_a_folder_that_cannot_be_written(world, name):
    place = _COMMANDS[name].writes.rstrip('/')
    words = [re.sub(rf'(^|=){place}$', rf'\1/sys/{place}', w) for w in _words(name)]
    before = _results(world)
    _assert_refused(calls.run(world, words), '/sys')
    assert _results(world) == before and not _leftovers(world)


@pytest.mark.parametrize('fault', [(calls.full_disk, 10), (calls.kill,)])
@pytest.mark.parametrize('name', _QUICK_WRITERS)
def test_a_fault_at_each_stage(packed, name, fault):
    assert calls.run(packed, _words(name)).code == 0
    finished = _results(packed)
    for stage in range(0, 500, _COMMANDS[name].every):
        _remove_results(packed)
        done = calls.run(packed, _words(name), calls.at_stage, stage, *fault)
        assert _results(packed).items() <= finished.items()
        if not done.code:
            break
        if fault == (calls.kill,):
            assert done.code == -9
        else:
            _assert_refused(done)
            assert not _leftovers(packed)
    _remove_results(packed)
    assert calls.run(packed, _words(name)).code == 0
    assert stage and _results(packed) == finished and not _leftovers(packed)


def test_killed_at_each_stage_of_packing(world):
    for stage in range(0, 100, 20):
        shutil.rmtree(world / 'cache', ignore_errors=True)
        assert calls.run(
            world, _words('predict'), calls.at_stage, stage, calls.kill
        ).code in (-9, 0)
        assert calls.run(world, _words('predict')).code == 0
        assert not _leftovers(world)


@pytest.mark.parametrize('name', _QUICK_WRITERS)
def test_several_at_once(world, name):
    """Eight where the cache is new: one packs, the others wait."""
    count = 8 if name == 'predict' else 2
    started = [calls.Call(world, _words(name)) for _ in range(count)]
    for done in [call.done() for call in started]:
        if done.code:
            assert _COMMANDS[name].alone
            _assert_refused(done, _COMMANDS[name].alone)
    several = _results(world)
    _remove_results(world)
    assert calls.run(world, _words(name)).code == 0
    assert _results(world) == several and not _leftovers(world)


@pytest.mark.parametrize('name', [name for name in _QUICK if name != 'train'])
def test_closed_and_full_streams(packed, name):
    good = calls.run(packed, _words(name))
    assert good.code == 0
    for name_of_stream in ('stdout', 'stderr'):
        for fault in (calls.close, calls.fill):
            _remove_results(packed)
            done = calls.run(packed, _words(name), fault, name_of_stream)
            is_lost = bool(good.out if name_of_stream == 'stdout' else good.err)
            assert done.code == is_lost, done
            if name_of_stream == 'stderr':
                assert done.out == good.out
            elif is_lost:
                assert 'is closed' in done.err or 'No space left' in done.err
