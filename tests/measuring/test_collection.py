"""A miniature of collecting: workers, crashes, files, going on."""

import json
import os
import resource
import signal
import time

import numpy as np
import pytest

from baselines.data import collections
from baselines.data.tile import records
from baselines.measuring import collection
from baselines.measuring import programs
from baselines.measuring import session as session_lib
from baselines.measuring import timing
from tests.helpers.measured_programs import pointwise

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')

QUICK = timing.Protocol(least=2, most=2)
INPUTS = [{'type': 'float32', 'dims': [64, 64], 'high': 2}]


def deadly():
    """A module on which XLA ends its process (a failed CHECK)."""
    module = pointwise(64, 64)
    flags = module.computations[-1].instructions[0].parameter_replication
    flags.replicated_at_leaf_buffers.extend([True, False, True])
    return module


@pytest.fixture
def journal(tmp_path):
    return str(tmp_path / 'journal.jsonl')


def test_a_crash_is_blamed_on_one_configuration(journal):
    modules = [pointwise(64, 64), pointwise(64, 64), deadly(), pointwise(64, 64)]
    modules = [module.SerializeToString() for module in modules]
    with session_lib.Session(journal) as session:
        measured = session.measure('k', modules, INPUTS, 0, QUICK)
    assert measured.kept == [0, 1, 3]
    assert measured.dropped == {2: 'XLA ended the process'}
    assert measured.passes.shape == (2, 3) and (measured.passes > 0).all()
    assert measured.again.shape == (2,)
    lines = session_lib.read_journal(journal)
    assert [line['crashed'] for line in lines if 'crashed' in line] == [2]
    # A line is there before each compilation; the last default is compiled twice.
    compiled = [line['compile'] for line in lines if 'compile' in line]
    assert compiled == [0, 1, 2, 0, 1, 3, 0, None]


def test_what_is_wrong_does_not_compile_or_has_another_result(journal):
    broken = pointwise(64, 64)
    broken.computations[-1].instructions[1].opcode = 'no-such-thing'
    modules = [
        pointwise(64, 64),
        pointwise(64, 64, opcode='abs'),
        broken,
        pointwise(64, 64),
    ]
    modules = [module.SerializeToString() for module in modules]
    with session_lib.Session(journal) as session:
        measured = session.measure('k', modules, INPUTS, 0, QUICK)
        assert measured.kept == [0, 3]
        assert measured.dropped[1] == 'wrong result'
        assert measured.dropped[2].startswith('XLA: ')
        with pytest.raises(session_lib.WorkerError, match='no-such-thing'):
            session.measure('l', modules[2:], INPUTS, 0, QUICK)
        dead = [deadly().SerializeToString()] * 2
        with pytest.raises(session_lib.WorkerError, match='on the untiled kernel'):
            session.measure('m', dead, INPUTS, 0, QUICK)
        # It serves on.
        assert session.optimise(modules[0])


@pytest.mark.parametrize(
    'field, message',
    [
        ('constrained', 'ignores LayoutConstraint; run pip install'),
        ('tiled', 'computes a loop over tiles wrongly; run pip install'),
    ],
)
def test_a_worker_shows_first_what_xla_can_do(field, message, journal, monkeypatch):
    other = pointwise(8, 6, opcode='abs').SerializeToString()
    found = {**session_lib.checked(), field: other}
    monkeypatch.setattr(session_lib, 'checked', lambda: found)
    with pytest.raises(ValueError, match=f'^the XLA of this jaxlib {message}'):
        with session_lib.Session(journal):
            pass


def test_a_worker_that_takes_too_long_is_ended(journal):
    limits = session_lib.Limits(seconds=0.01)
    with pytest.raises(ValueError, match='the worker does not start'):
        with session_lib.Session(journal, limits) as session:
            session.optimise(pointwise(64, 64).SerializeToString())


SIZES = {'a': (128, 64), 'b': (64, 160), 'c': (96, 96)}


def load(name):
    return programs.Program(name, pointwise(*SIZES[name], opcode='exponential'))


def options(tmp_path, **changes):
    return collection.Options(
        **{'output': str(tmp_path / 'out'), 'configs': 4, 'passes': (2, 2), **changes}
    )


def collect(tmp_path, sources='abc', **changes):
    return collection.collect(list(sources), options(tmp_path, **changes), load)


@pytest.mark.slow
def test_three_kernels_and_four_configurations_of_each(tmp_path):
    report = collect(tmp_path)
    # On a busy machine one may seem over ten times as slow as the default.
    assert len(report.records) == 3
    assert report.configs + sum(report.dropped.values()) == 12
    out = tmp_path / 'out'
    found = sorted(out.glob('*/*.npz'))
    assert len(found) == 3
    sidecar = json.loads((out / 'measured.json').read_text())
    assert sidecar['machine']['jaxlib'] and sidecar['machine']['flags']
    for path in found:
        record = records.read_tile(str(path))
        kernel = sidecar['kernels'][path.stem]
        assert record.node_feat.shape[1] == 140
        assert record.config_feat.shape == (len(kernel['configs']), 24)
        passes = np.array(kernel['passes'])
        assert (record.config_runtime == passes.min(0)).all()
        assert (record.config_runtime_normalizers == passes[:, 0].min()).all()
        dims = kernel['configs'][0]['output']  # the untiled kernel is the first
        assert record.config_feat[0, 8:10].tolist() == dims
        assert record.config_feat[0, 15] == np.prod(dims)

    with pytest.raises(ValueError, match='holds a collection already; add --resume'):
        collect(tmp_path)
    with pytest.raises(ValueError, match='was begun with other seed'):
        collect(tmp_path, seed=1, resume=True)
    # What is there is not measured again; what is missing is.
    times = {path: path.stat().st_mtime_ns for path in found}
    found[1].unlink()
    assert len(collect(tmp_path, resume=True).records) == 3
    assert list(out.glob(f'*/{found[1].name}'))  # among the noisy ones, perhaps
    assert found[0].stat().st_mtime_ns == times[found[0]]


def test_bad_programs_and_folders_lose_nothing(tmp_path):
    with pytest.raises(ValueError, match=r'nowhere.py'):
        collection.collect([f'{tmp_path}/nowhere.py:f'], options(tmp_path))
    assert not os.listdir(tmp_path)
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'thesis.tex').touch()
    with pytest.raises(ValueError, match="holds 'thesis.tex', not a collection"):
        collect(tmp_path)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch, capsys):
    def stop(*words):
        measure(*words)
        raise KeyboardInterrupt

    measure = collection._measure
    with monkeypatch.context() as patch:
        patch.setattr(collection, '_measure', stop)
        assert collection.run(['a', 'b'], options(tmp_path), load) == 130
    assert '--resume goes on with' in capsys.readouterr().err
    sidecar = json.loads((tmp_path / 'out' / 'measured.json').read_text())
    assert len(sidecar['kernels']) == 1
    # As a full disk leaves it: the last line is cut short.
    with open(tmp_path / 'out' / 'journal.jsonl', 'a') as stream:
        stream.write('\n{"kernel": "b_1')
    assert collection.run(['a', 'b'], options(tmp_path, resume=True), load) == 0
    assert '2 kernels or programs with ' in capsys.readouterr().out
    assert len(collect(tmp_path, 'ab', resume=True).records) == 2


def test_a_worker_that_is_killed_is_replaced(journal, monkeypatch):
    """Killed while it times, after all is compiled: no configuration is blamed."""
    killed = []

    def noted(path, line):
        note(path, line)
        if line['compile'] is None and not killed:
            killed.append(session._process.pid)
            os.kill(killed[0], signal.SIGKILL)

    note = session_lib.note
    monkeypatch.setattr(session_lib, 'note', noted)
    modules = [pointwise(512, 512).SerializeToString()] * 3
    inputs = [{**INPUTS[0], 'dims': [512, 512]}]
    protocol = timing.Protocol(least=200, most=200)  # not over before it is killed
    with session_lib.Session(journal) as session:
        measured = session.measure('k', modules, inputs, 0, protocol)
        assert session._process.pid != killed[0]
    assert measured.kept == [0, 1, 2] and not measured.dropped
    assert len(measured.passes) == 200


def test_a_full_disk_is_one_line_and_loses_nothing(tmp_path):
    def grow(line):
        session_lib.note(str(tmp_path / 'journal'), line)

    grow({'done': 1})
    size = os.path.getsize(tmp_path / 'journal')
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 4, hard))
    try:
        with pytest.raises(OSError, match=r"too large: '.*journal'"):
            grow({'done': 2})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    grow({'done': 3})
    lines = session_lib.read_journal(str(tmp_path / 'journal'))
    assert lines == [{'done': 1}, {'done': 3}]


@pytest.mark.slow
def test_minutes_are_kept(tmp_path):
    began = time.monotonic()
    changes = dict(passes=(1 << 30, 1 << 30), configs=40, minutes=0.1)
    with pytest.raises(ValueError, match='too little time|spent on compiling'):
        collect(tmp_path, 'a', **changes)
    # 6 s, on a machine that others use; without the limit it would never end.
    assert 5.4 < time.monotonic() - began < 30
    with pytest.raises(ValueError, match='spent on compiling 0 of 1 programs'):
        collect(tmp_path, 'a', minutes=1e-9)


def test_splits_keep_families_together():
    items = [(f'k{i}', f'{name}_batch_{i}') for i, name in enumerate('aabbccdd')]
    found = collection.assign_splits(items, (50, 25, 25), 0)
    for i in range(0, 8, 2):
        assert found[f'k{i}'] == found[f'k{i + 1}']
    assert sorted(found.values()) == ['test'] * 2 + ['train'] * 4 + ['valid'] * 2
    # One program: its kernels are divided.
    items = [(f'k{i}', 'one') for i in range(10)]
    found = list(collection.assign_splits(items, (80, 10, 10), 0).values())
    assert [found.count(s) for s in collections.SPLITS] == [8, 1, 1]
    assert set(collection.assign_splits(items, None, 0).values()) == {''}
