"""A miniature of collecting: workers, crashes, files, going on."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from baselines.core import files
from baselines.core import text
from baselines.data import collections
from baselines.data import hardware
from baselines.data.tile import records
from lab.tests.helpers import measurements
from lab.tests.helpers.measured_programs import pointwise
from tests.helpers import places
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.measure import collection
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.programs import reader

QUICK = timing.Protocol(least=2, most=2)


def deadly():
    """A module on which XLA ends its process (a failed CHECK)."""
    module = pointwise(64, 64)
    flags = module.computations[-1].instructions[0].parameter_replication
    flags.replicated_at_leaf_buffers.extend([True, False, True])
    return module


# Of `pointwise(64, 64)`.
INPUTS = [{'type': 'float32', 'dims': [64, 64]}]


@pytest.fixture(name='session', scope='module')
def _session():
    with session_lib.Session() as session:
        yield session


def serialized(*modules):
    return [module.SerializeToString() for module in modules]


def test_a_configuration_that_cannot_be_timed_has_its_reason(session):
    broken = pointwise(64, 64)
    broken.computations[-1].instructions[1].opcode = 'no-such-thing'
    good, wrong = pointwise(64, 64), pointwise(64, 64, opcode='abs')
    modules = serialized(good, wrong, broken, deadly(), good)
    measured = session.measure(modules, INPUTS, 0, QUICK)
    assert measured.kept == [0, 4]
    assert measured.dropped.pop(2).startswith('XLA: ')
    assert measured.dropped == {1: 'wrong result', 3: 'XLA ended the process'}
    assert measured.passes.shape == (2, 2) and (measured.passes > 0).all()
    assert measured.again.shape == (2,)
    with pytest.raises(session_lib.WorkerError, match='no-such-thing'):
        session.measure(modules[2:], INPUTS, 0, QUICK)
    with pytest.raises(session_lib.WorkerError, match='on the untiled kernel'):
        session.measure(modules[3:], INPUTS, 0, QUICK)
    with pytest.raises(session_lib.WorkerError, match='XLA ended the process'):
        session.optimise(modules[3])
    # It serves on.
    assert session.optimise(modules[0])


def test_a_result_in_bfloat16_is_compared(session):
    modules = [pointwise(64, 64), pointwise(64, 64), pointwise(64, 64, opcode='abs')]
    for module in modules:
        for instruction in module.computations[-1].instructions:
            instruction.shape.element_type = 16
    inputs = [{'type': 'bfloat16', 'dims': [64, 64]}]
    measured = session.measure(serialized(*modules), inputs, 0, QUICK)
    assert measured.kept == [0, 1] and measured.dropped == {2: 'wrong result'}


def test_arrays_that_do_not_fit_are_refused_before_a_worker_allocates_them():
    session = session_lib.Session()  # no worker
    module = pointwise(1 << 31).SerializeToString()
    drawn = {'type': 'float32', 'dims': [1 << 31]}
    for inputs in ([drawn], []):  # the result alone, too
        with pytest.raises(session_lib.WorkerError, match=r'arrays of (32|16) GiB wh'):
            session.measure([module], inputs, 0, QUICK)


def test_a_worker_that_takes_too_long_is_ended(monkeypatch):
    monkeypatch.setattr(session_lib, '_SECONDS', 0.01)
    with pytest.raises(ValueError, match='the worker does not start'):
        with session_lib.Session():
            pass


def test_a_worker_may_take_seconds_to_start_after_the_deadline():
    with session_lib.Session(ends=0):
        pass


SIZES = {'a': (128, 64), 'b': (64, 160), 'c': (96, 96)}


def load(name):
    return reader.Program(name, pointwise(*SIZES[name], opcode='exponential'))


def options(tmp_path, **changes):
    return collection_folder.CollectionOptions(
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
    paths = sorted(out.glob('*/*.npz'))
    assert len(paths) == 3
    sidecar = collection_folder.read_sidecar(str(out))
    assert sidecar['machine']['jaxlib'] and sidecar['machine']['flags']
    for path in paths:
        record = records.TileRecord.read(str(path))
        kernel = sidecar['kernels'][path.stem]
        assert record.node_feat.shape[1] == 140
        assert record.node_feat_extra is not None
        assert record.xla_release == hardware.find_release() > 0
        assert record.config_feat.shape == (len(kernel['configs']), 24)
        assert kernel['passes'] == 2
        halves = np.array(kernel['halves'])
        assert (record.config_runtime == halves.min(0)).all()
        place = kernel['default']
        assert (record.config_runtime_normalizers == halves[:, place].min()).all()
        dims = kernel['configs'][place]['output']  # the untiled kernel
        assert record.config_feat[place, 8:10].tolist() == dims
        assert record.config_feat[place, 15] == np.prod(dims)

    with pytest.raises(ValueError, match='holds a collection already; add --resume'):
        collect(tmp_path)
    with pytest.raises(ValueError, match='was begun with other seed'):
        collect(tmp_path, seed=1, resume=True)
    # What is there is not measured again; what is missing is.
    before = paths[0].stat().st_mtime_ns
    paths[1].unlink()
    assert len(collect(tmp_path, resume=True).records) == 3
    assert list(out.glob(f'*/{paths[1].name}'))  # among the noisy ones, perhaps
    assert paths[0].stat().st_mtime_ns == before


def test_bad_programs_and_folders_lose_nothing(tmp_path):
    with pytest.raises(ValueError, match=r'nowhere.py'):
        collection.collect([f'{tmp_path}/nowhere.py:f'], options(tmp_path))
    assert not os.listdir(tmp_path)
    (tmp_path / 'out').mkdir()
    (tmp_path / 'out' / 'thesis.tex').touch()
    with pytest.raises(ValueError, match="holds 'thesis.tex', not a collection"):
        collect(tmp_path)


def test_what_cannot_be_measured_names_its_program(tmp_path, monkeypatch):
    def refuse(*_, **unused_options):
        raise session_lib.WorkerError('arrays of 149 GiB')

    monkeypatch.setattr(session_lib.Session, 'measure', refuse)
    with pytest.raises(ValueError, match='measured: a: arrays of 149 GiB'):
        collect(tmp_path, 'a')


def test_no_more_configurations_are_made_than_there_is_time_for(tmp_path, monkeypatch):
    def refuse(self, modules, *_):
        raise session_lib.WorkerError(f'{len(modules)} modules')

    monkeypatch.setattr(session_lib.Session, 'measure', refuse)
    with pytest.raises(ValueError, match='measured: a: 50 modules'):
        collect(tmp_path, 'a', configs=100_000, seconds=0.5)


def test_time_spent_on_compiling_is_why_nothing_was_measured(tmp_path, monkeypatch):
    left = property(lambda self, seconds=iter([1.0, -1.0]): next(seconds))
    monkeypatch.setattr(collection_folder.CollectionOptions, 'seconds_left', left)

    def kernels_of(module, program, digests, skipped):
        skipped['too small to time'] += 1
        return [cutting.Kernel(f'a_{0:016x}', 'a', pointwise(8, 8), 'root')]

    monkeypatch.setattr(tile_choices, 'kernels_of', kernels_of)
    with pytest.raises(ValueError, match='measured: too little time; too small to ti'):
        collect(tmp_path, 'a')


def test_of_a_large_program_some_kernels_are_drawn(tmp_path):
    modules = [pointwise(8, 8)] * 9 + [pointwise(800, 800)]
    cut = [cutting.Kernel(f'a_{i}', 'a', m, 'root') for i, m in enumerate(modules)]
    draw = lambda kernels, seed: collection.draw_kernels(
        cut, options(tmp_path, kernels=kernels, seed=seed)
    )
    first, same, other = (draw(3, seed) for seed in (0, 0, 1))
    assert len(first) == 3 and first == same != other
    assert first == [kernel for kernel in cut if kernel in first]
    # Large ones more often: with chances of about 100 to 9 * 1.
    assert [draw(1, seed)[0].name for seed in range(20)].count('a_9') >= 15


def test_two_processes_do_not_measure_into_one_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(files.time, 'sleep', lambda seconds: None)
    out = tmp_path / 'out'
    out.mkdir()
    with files.hold_lock(str(out / '.lock'), 'held'):
        with pytest.raises(ValueError, match='another collect measures into it.*proc'):
            collect(tmp_path)
    assert not os.listdir(tmp_path / 'out')


def test_after_the_deadline_no_pass_is_made():
    modules = serialized(*[pointwise(64, 64)] * 2)
    endless = timing.Protocol(least=1 << 40, most=1 << 40)
    with session_lib.Session(ends=time.monotonic()) as session:
        measured = session.measure(modules, INPUTS, 0, endless)
    assert not len(measured.passes)


def test_a_worker_ends_with_the_process_that_started_it():
    code = (
        'import os, sys, time\n'
        'from tpugraphs_lab.measure.clock import session\n'
        'held = session.Session().__enter__()\n'
        'print(held._process.pid, flush=True)\n'
        'time.sleep(60)\n'
    )
    parent = subprocess.Popen(
        [sys.executable, '-c', code], stdout=subprocess.PIPE, cwd=places.ROOT
    )
    worker = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    for _ in range(100):
        try:
            state = open(f'/proc/{worker}/stat').read().rpartition(')')[2].split()[0]
        except FileNotFoundError:
            break
        if state == 'Z':
            break
        time.sleep(0.1)
    else:
        pytest.fail('the worker goes on')


@pytest.mark.parametrize(
    'before, after, message',
    [
        ('}}}', '', 'damaged (Expecting'),
        ('"tau": 1', '"tau": NaN', 'damaged (NaN is no number); collect again'),
        ('"tau": 1', '"tau": true', 'damaged (k: tau is not a number)'),
        ('"kernels"', '"kernel"', 'damaged (kernels is not an object)'),
        ('"k.npz"', 'null', 'damaged (k: file is not inside the folder)'),
        ('k.npz', '../k.npz', 'damaged (k: file is not inside the folder)'),
        ('{"k"', '{"../k"', 'damaged (../k: name is not a name of letters'),
        ('"p"', '"p/"', 'damaged (k: program is not a name of letters'),
        ('"fusion"', 'null', 'damaged (k: origin is not text)'),
        ('"split": ""', '"split": "tests"', 'damaged (k: split is not a split)'),
        ('[{}, {}]', '[{}]', 'damaged (k: configs is not a list of 2, as the times'),
        ('"passes": 4', '"passes": 4.5', 'damaged (k: passes is not a count)'),
        ('false', '0', 'damaged (k: noisy is not true or false)'),
        ('[5, 6]', '[0, 6]', 'damaged (k: halves is not two rows of nanoseconds)'),
        ('[5, 6]', '[5, 6, 7]', 'damaged (k: halves is not two rows'),
        ('"dropped": {}', '"dropped": 1', 'damaged (k: dropped is not an object)'),
    ],
)
def test_a_sidecar_that_was_cut_or_edited_is_one_line(before, after, message, tmp_path):
    with pytest.raises(ValueError, match='has no measured.json'):
        collection_folder.read_sidecar(str(tmp_path))
    text = json.dumps({'kernels': {'k': measurements.SIDECAR_KERNEL}})
    (tmp_path / 'measured.json').write_text(text)
    assert collection_folder.read_sidecar(str(tmp_path)) == json.loads(text)
    assert before in text
    (tmp_path / 'measured.json').write_text(text.replace(before, after))
    with pytest.raises(ValueError, match=r'measured.json: damaged') as caught:
        collection_folder.read_sidecar(str(tmp_path))
    assert message in str(caught.value) and '\n' not in str(caught.value)


def test_a_collection_can_go_on_from_its_start(tmp_path):
    with collection_folder.open_folder(['a'], options(tmp_path)):
        shutil.copytree(tmp_path / 'out', tmp_path / 'killed')
        (tmp_path / 'killed' / '.measured.json.0123abcd').touch()
    left = tmp_path / 'killed' / 'valid' / '.a_0123.npz.0123abcd'
    left.parent.mkdir()
    left.touch()
    assert not (tmp_path / 'out').exists()
    again = options(tmp_path, output=str(tmp_path / 'killed'), resume=True)
    with collection_folder.open_folder(['a'], again):
        there = ['.lock', 'measured.json', 'valid']
        assert sorted(os.listdir(tmp_path / 'killed')) == there
        assert not left.exists()


def test_a_collection_goes_on_with_what_its_sidecar_says(tmp_path):
    os.mkdir(tmp_path / 'out')
    settings = options(tmp_path, resume=True)
    folder = collection_folder.CollectionFolder(['a'], settings)
    (tmp_path / 'out' / 'k.npz').touch()
    kernel = measurements.SIDECAR_KERNEL
    folder.records.update(k=kernel, gone={**kernel, 'file': 'gone.npz'})
    folder.write_sidecar()
    folder = collection_folder.CollectionFolder(['a'], settings)
    assert folder.records == {'k': kernel}
    path = tmp_path / 'out' / 'measured.json'
    content = json.loads(path.read_text())
    for edit in ({'collection': []}, {'minutes': 'x'}):
        path.write_text(json.dumps({**content, **edit}))
        with pytest.raises(ValueError, match=f'^{path}: {[*edit][0]} is not a'):
            collection_folder.CollectionFolder(['a'], settings)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_done(tmp_path, monkeypatch, capsys):
    def stop(*args, **options):
        names.append(args[1])
        if len(names) == 2:
            raise KeyboardInterrupt
        return measure(*args, **options)

    measure, names = session_lib.Session.measure, []
    with monkeypatch.context() as patch:
        patch.setattr(session_lib.Session, 'measure', stop)
        with pytest.raises(text.Interrupted) as caught:
            collect(tmp_path, 'ab')
    assert str(caught.value) == f'kept what was measured in {tmp_path}/out'
    assert caught.value.flags == ('--resume',)
    sidecar = json.loads((tmp_path / 'out' / 'measured.json').read_text())
    assert len(sidecar['kernels']) == 1
    lines = collect(tmp_path, 'ab', resume=True).lines()
    assert next(lines).startswith('2 kernels with ')


def test_a_worker_that_is_killed_is_replaced():
    """Killed while it times, after all is compiled: no configuration is blamed."""
    killed = []

    class Killing(session_lib.Session):
        @property
        def _compiling(self):
            return self._number

        @_compiling.setter
        def _compiling(self, number):
            if number is None and getattr(self, '_number', None) == 0 and not killed:
                killed.append(self._process.pid)
                os.kill(killed[0], signal.SIGKILL)
            self._number = number

    modules = serialized(*[pointwise(512, 512)] * 3)
    protocol = timing.Protocol(least=60, most=60)  # not over before it is killed
    with Killing() as session:
        measured = session.measure(
            modules, [{'type': 'float32', 'dims': [512, 512]}], 0, protocol
        )
        assert session._process.pid != killed[0]
    assert measured.kept == [0, 1, 2] and not measured.dropped
    assert len(measured.passes) == 60


@pytest.mark.slow
def test_minutes_are_kept(tmp_path):
    began = time.monotonic()
    changes = dict(passes=(1 << 30, 1 << 30), configs=40, minutes=0.02)
    with pytest.raises(ValueError, match='too little time|spent on compiling'):
        collect(tmp_path, 'a', **changes)
    # 1.2 s, on a machine that others use; without the limit it would never end.
    assert 1.0 < time.monotonic() - began < 30
    with pytest.raises(ValueError, match='spent on compiling 0 of 1 programs'):
        collect(tmp_path, 'a', minutes=1e-9)


def test_splits_keep_families_together():
    items = [(f'k{i}', f'{name}_batch_{i}') for i, name in enumerate('aabbccdd')]
    splits = collection.assign_splits(items, (50, 25, 25))
    for i in range(0, 8, 2):
        assert splits[f'k{i}'] == splits[f'k{i + 1}']
    assert sorted(splits.values()) == ['test'] * 2 + ['train'] * 4 + ['valid'] * 2
    # One program: its kernels are divided; two kernels of three splits are not.
    items = [(f'k{i}', 'one') for i in range(10)]
    splits = list(collection.assign_splits(items, (80, 10, 10)).values())
    assert [splits.count(name) for name in collections.SPLITS] == [8, 1, 1]
    assert set(collection.assign_splits(items, None).values()) == {''}
    assert set(collection.assign_splits(items[:2], (8, 1, 1)).values()) == {'train'}
