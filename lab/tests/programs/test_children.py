"""Child processes: what they import, what ends with them, and what they leave."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lab.tests.helpers import lab_commands
from lab.tests.helpers import measured_programs
from tpugraphs_lab import measure
from tpugraphs_lab.programs import causes
from tpugraphs_lab.programs import children
from tpugraphs_lab.programs import isolated
from tpugraphs_lab.programs import reader

# Of the standard library and of packages that children import, and ours.
_NAMES = (
    'resource random signal json tempfile ctypes subprocess shutil os importlib '
    'contextlib collections typing re struct socket numpy google jaxlib baselines '
    'tpugraphs tpugraphs_lab'
).split()


def _user_file(folder, content):
    path = folder / 'mine.py'
    path.write_text(f'{content}\nexample_args = ()\n')
    return f'{path}:f'


def _is_running(number):
    try:
        state = open(f'/proc/{number}/stat').read().rpartition(')')[2].split()[0]
    except FileNotFoundError:
        return False
    return state != 'Z'


def _wait_until(condition):
    for _ in range(200):
        if condition():
            return
        time.sleep(0.1)
    pytest.fail('20 s have passed')


@pytest.mark.parametrize('command', ['show', 'rank', 'collect'])
def test_files_in_the_current_folder_are_not_run(
    command, tmp_path, monkeypatch, capsys
):
    here = tmp_path / 'here'
    here.mkdir()
    for name in _NAMES:
        (here / f'{name}.py').write_text(f'open({str(tmp_path / "run")!r}, "w")')
    (here / 'm.hlo').write_text(
        'HloModule m\nENTRY e { p = f32[128,96] parameter(0)\n'
        ' ROOT t = f32[128,96] tanh(p) }'
    )
    monkeypatch.chdir(here)
    monkeypatch.setenv('PYTHONPATH', os.environ.get('PYTHONPATH', '') + os.pathsep)
    words = {
        'show': [],
        'rank': ['--dir', 'estimate'],
        'collect': ['out', '--configs', '2', '--passes', '2', '--split', 'none'],
    }
    assert lab_commands.run(command, ['m.hlo', *words[command]]) == 0
    assert not (tmp_path / 'run').exists()


_FORKS = """
import os, pathlib, time
left = os.fork()
if not left:
    time.sleep(300)
    os._exit(0)
pathlib.Path(__file__).with_name('left').write_text(str(left))
"""


def test_what_a_file_has_started_ends_with_it(tmp_path):
    began = time.monotonic()
    with pytest.raises(ValueError, match='mine.py: ValueError: so$|mine.py: so$'):
        reader.read_program(_user_file(tmp_path, _FORKS + 'raise ValueError("so")'))
    assert time.monotonic() - began < 60  # the other one has the streams still open
    _wait_until(lambda: not _is_running(int((tmp_path / 'left').read_text())))


_STARTS = """
import sys
from tpugraphs_lab.programs import reader
reader.read_program(sys.argv[1])
"""


@pytest.mark.parametrize('number', [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_children_end_with_the_command(number, tmp_path):
    source = _user_file(tmp_path, _FORKS + 'open(__file__ + "x", "w")\ntime.sleep(300)')
    (tmp_path / 'own').mkdir()
    command = subprocess.Popen(
        [sys.executable, '-c', _STARTS, source],
        env={**children.make_environment(), 'TMPDIR': str(tmp_path / 'own')},
    )
    _wait_until((tmp_path / 'mine.pyx').exists)
    command.send_signal(number)
    command.wait()
    _wait_until(lambda: not _is_running(int((tmp_path / 'left').read_text())))
    _wait_until(lambda: not list((tmp_path / 'own').glob('tpugraphs_*')))


def test_a_child_has_a_temporary_folder_of_its_own(tmp_path):
    content = (
        'import tempfile\nkept = tempfile.mkdtemp()\n'
        'raise ValueError(tempfile.gettempdir())'
    )
    with pytest.raises(ValueError, match='tpugraphs_') as caught:
        reader.read_program(_user_file(tmp_path, content))
    folder = str(caught.value).rpartition(' ')[2]
    assert os.path.isdir(os.path.dirname(folder)) and not os.path.exists(folder)


def _call(content, folder, **limits):
    path = _user_file(folder, content).partition(':')[0]
    return isolated.call('runpy.run_path', [path], b'', **limits)


@pytest.mark.parametrize(
    'content, message',
    [
        ('import os; os.kill(os.getpid(), 9)', r'ended the process \(SIGKILL; '),
        ('import os; os.kill(os.getpid(), 40)', r'ended the process \(signal 40; '),
        (
            'import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\n'
            'while True: pass',
            'took over 1 s of processor time; --seconds raises the limit$',
        ),
    ],
)
def test_the_signal_that_ended_a_child_is_named(
    content, message, tmp_path, monkeypatch
):
    monkeypatch.setattr(isolated, '_WALL', 60)  # of a busy machine
    with pytest.raises(isolated.Ended, match=message):
        _call(content, tmp_path, seconds=1)


def test_the_limit_of_wall_time_holds_and_a_wait_is_shown(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(isolated, '_PATIENCE', 1)
    monkeypatch.setattr(sys.stderr, 'isatty', lambda: True, raising=False)
    began = time.monotonic()
    with pytest.raises(isolated.Ended, match='4 s of wall .* 1 s of processor .*--sec'):
        _call('import time; time.sleep(300)', tmp_path, seconds=1, title='compiling')
    assert time.monotonic() - began < 6
    assert 'compiling (--seconds=1)' in capsys.readouterr().err


def test_the_size_of_what_is_compiled_is_shown(monkeypatch):
    titles = []
    monkeypatch.setattr(isolated, 'call', lambda *a: titles.append(a[-1]) or ([], b''))
    measure.optimise(measured_programs.pointwise(8).SerializeToString())
    assert titles == ['compiling 2 instructions']


def test_the_exit_code_of_a_child_is_its_own():
    process = children.start('time.sleep', ['no number'], {}, stderr=subprocess.DEVNULL)
    assert children.wait(process, 60) == 1


_ORDINARY = """
from __future__ import annotations
import dataclasses, enum, inspect, pickle, sys

@dataclasses.dataclass
class Options:
    size: int = 3

assert pickle.loads(pickle.dumps(Options())) == Options()
assert 'size' in inspect.getsource(Options)
if hasattr(enum, 'global_enum'):  # since Python 3.11
    @enum.global_enum
    class Color(enum.Enum):
        RED = 1
    assert RED
sys.path = []
raise ValueError('the end')
"""


def test_ordinary_files_run(tmp_path):
    with pytest.raises(ValueError, match='the end'):
        reader.read_program(_user_file(tmp_path, _ORDINARY))


@pytest.mark.slow  # TensorFlow is imported
def test_functions_without_a_result_and_without_an_end(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'import sys\nimport tensorflow as tf\nsys.setrecursionlimit(1500)\n'
        'example_args = (tf.TensorSpec([4]),)\n'
        'def none(x): tf.tanh(x)\n'
        'def numbers(x): return {"a": 3, "b": [1.5]}\n'
        'def endless(x): return endless(x) + 1\n'
    )
    for name, message in (
        ('none', 'returns no array that it computes, but None or plain numbers'),
        ('numbers', 'returns no array that it computes, but None or plain numbers'),
        ('endless', 'RecursionError: maximum recursion depth exceeded'),
    ):
        with pytest.raises(ValueError, match=message):
            reader.read_program(f'{path}:{name}')


@pytest.mark.slow  # TensorFlow is imported
def test_an_open_batch_size_is_given(tmp_path):
    path = tmp_path / 'mine.py'
    path.write_text(
        'import tensorflow as tf\n'
        '@tf.function(input_signature=[tf.TensorSpec([None, 4])])\n'
        'def f(x): return tf.tanh(x)\n'
    )
    with pytest.raises(ValueError, match=r'\(None, 4\); --batch_size gives the first'):
        reader.read_program(f'{path}:f')
    program = reader.read_program(f'{path}:f', options=reader.Options(batch_size=8))
    [parameter, *_] = program.module.computations[-1].instructions
    assert list(parameter.shape.dimensions) == [8, 4]
    with pytest.raises(ValueError, match='--seconds is 0; it is at least 1'):
        reader.read_program(f'{path}:f', options=reader.Options(seconds=0))


def test_a_cause_is_cut():
    cause = causes.name_cause(KeyError('x' * 500_000))
    assert cause.startswith("KeyError: 'x") and len(cause) == 400
