"""What every command does around its work: exit codes, one line, quick help."""

import argparse
import errno
import importlib.metadata
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading

import pytest

from baselines.core import exits
from baselines.core import text
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import settings_flags
from tests.helpers import tile_records
from tpugraphs import commands
from tpugraphs.commands import __main__ as main
from tpugraphs.commands import _options

_ROOT = places.ROOT
_NO_FLAGS = ('setup.py', 'echo_download_commands.py')
_SCRIPTS = sorted(p.name for p in _ROOT.glob('*.py') if p.name not in _NO_FLAGS)
_COMMANDS = commands.list_commands()


def _raise(error):
    raise error


@pytest.mark.parametrize(
    'error, words',
    [
        (ValueError('two\n  lines'), ['two lines']),
        (ValueError(), ['ValueError']),
        (FileNotFoundError(errno.ENOENT, 'No such file', 'a.pb'), ['a.pb']),
        (NotADirectoryError(errno.ENOTDIR, 'No folder', 'file/out'), ['file/out']),
        (OSError(errno.EIO, 'Wrong', 'a.pb'), ['Wrong', 'a.pb']),
    ],
)
def test_user_errors_are_one_line(capsys, error, words):
    assert exits.run_guarded(lambda: _raise(error)) == 1
    printed, line = capsys.readouterr()
    assert printed == '' and line.startswith('error: ') and line.count('\n') == 1
    assert all(word in line for word in words)


def test_untrusted_text_does_not_reach_the_terminal_raw(capsys):
    stored = 'a\x1b[2Jb\rc\u202ed\x9b'
    assert exits.run_guarded(lambda: print(stored, 'two\n\tlines \u00e9')) == 0
    shown = capsys.readouterr().out
    assert shown == 'a\\x1b[2Jb\\rc\\u202ed\\x9b two\n\tlines \u00e9\n'


def test_our_own_defects_keep_their_traceback(monkeypatch):
    assert exits.run_guarded(lambda: None) == 0
    assert exits.run_guarded(lambda: 3) == 3
    with pytest.raises(TypeError):
        exits.run_guarded(lambda: _raise(TypeError('ours')))
    monkeypatch.setenv('TPUGRAPHS_DEBUG', '1')
    with pytest.raises(ValueError, match='^bad$'):
        exits.run_guarded(lambda: _raise(ValueError('bad')))


def test_ctrl_c_and_a_library_that_fails_as_it_cleans_up(capsys):
    def work():
        try:
            signal.raise_signal(signal.SIGINT)
        finally:
            threading.Lock().release()

    assert exits.run_guarded(work) == 130
    assert capsys.readouterr() == ('', '\ninterrupted\n')


@pytest.mark.parametrize(
    'started, wanted',
    [
        ("python tiles_train.py '--run_id=a b'", None),
        ('python3 -X utf8 tiles_train.py', None),
        ('/bin/python /bin/tpugraphs train tile', 'tpugraphs train tile'),
        ('python /elsewhere/tpugraphs train tile', None),
    ],
)
def test_ctrl_c_says_how_to_go_on(started, wanted, monkeypatch, capsys):
    words = shlex.split(started)
    at = next(n for n, word in enumerate(words) if 't' in word.rpartition('/')[2][:1])
    monkeypatch.setattr(sys, 'argv', words[at:])
    monkeypatch.setattr(sys, 'orig_argv', words, raising=False)
    found = {'tpugraphs': '/bin/tpugraphs'}
    monkeypatch.setattr(exits.shutil, 'which', found.get)
    stop = text.Interrupted('kept 6 epochs', '--resume')
    assert exits.run_guarded(lambda: _raise(stop)) == 130
    assert capsys.readouterr().err.endswith(f': {wanted or started} --resume\n')


_PRINTS = (
    'import sys; from baselines.core import exits; '
    'sys.exit(exits.run_guarded(lambda: print("x" * int(sys.argv[1]))))'
)


@pytest.mark.slow
@pytest.mark.parametrize('size', [10, 1_000_000])
def test_a_reader_that_has_left_is_no_error(size):
    # Little is written only when the process ends, much at once.
    read, write = os.pipe()
    os.close(read)
    done = processes.python('-c', _PRINTS, str(size), stdout=write)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, '')


_AS_A_LIBRARY = """
import os, sys
from baselines.core import exits
def work():
    print('output')
    with open(sys.argv[1], 'wb'):
        os.write(1, b'output')
        os.write(2, b'log')
sys.exit(exits.run_guarded(work))
"""


def test_streams_closed_at_the_start_get_nothing(tmp_path):
    """A file that is opened next is not taken for them; the code says what is lost."""
    path = tmp_path / 'file'
    command = [sys.executable, '-c', _AS_A_LIBRARY, str(path)]
    closed = ['sh', '-c', 'exec "$@" <&- >&- 2>&-', 'sh', *command]
    assert subprocess.run(closed, cwd=_ROOT, check=False).returncode == 1
    assert path.read_bytes() == b''


def test_runs_are_plain_arguments_or_of_dir():
    for words, names in (
        ('--dir a b', ['a', 'b']),
        ('--dir=a --dirs b c/d --out_dir out', ['out/a', 'out/b', 'c/d']),
    ):
        args = commands.make_parser('predict').parse_args(words.split())
        assert _options.get_run_names(args) == names


def test_one_run_beside_files():
    args = commands.make_parser('rank').parse_args(['--dir', 'a', 'x.pb', 'y.pb'])
    assert (_options.get_run_name(args), args.modules) == ('a', ['x.pb', 'y.pb'])
    args = commands.make_parser('export').parse_args(['a', 'out'])
    assert (_options.get_run_name(args), args.output) == ('a', 'out')
    for words, message in ((['a', 'b'], '2: a b'), ([], '--dir latest')):
        args = commands.make_parser('settings').parse_args(words)
        with pytest.raises(ValueError, match=message):
            _options.get_run_name(args)


@pytest.mark.parametrize('name', _COMMANDS)
def test_options_have_texts_of_one_form_and_upper_bounds(name, capsys):
    parser = commands.make_parser(name)
    for action in parser._actions:
        if action.option_strings and action.help != argparse.SUPPRESS:
            assert settings_flags.is_option_text(action.help), action.option_strings
    settings_flags.check_upper_bounds(parser, capsys)


@pytest.fixture(name='tpugraphs')
def _tpugraphs(monkeypatch, capsys):
    """Runs the console script; returns its exit code and what it printed."""

    def tpugraphs(*words):
        monkeypatch.setattr(sys, 'argv', ['tpugraphs', *words])
        return (main.main(), *capsys.readouterr())

    return tpugraphs


def test_the_commands_are_listed(tpugraphs, monkeypatch):
    code, listing, errors = tpugraphs()
    assert (code, errors) == (0, '')
    assert listing.startswith('usage: tpugraphs COMMAND')
    found = re.findall(r'^  (\w+) +\S', listing, re.MULTILINE)
    assert found == _COMMANDS
    assert {'predict', 'evaluate', 'extract', 'download', 'show'} <= set(found)
    for word in ('--help', '-h', 'help'):
        assert tpugraphs(word) == (0, listing, '')
    monkeypatch.setattr(importlib.metadata, 'version', {'tpugraphs': '1.2'}.get)
    assert tpugraphs('--version') == (0, 'tpugraphs 1.2\n', '')
    code, printed, errors = tpugraphs('evalute')
    assert (code, printed) == (2, listing)
    assert "'evalute'" in errors and "'evaluate'?" in errors


def test_the_console_script_passes_arguments_on(tpugraphs, capsys):
    with pytest.raises(SystemExit) as caught:
        tpugraphs('predict', '--split', 'best')
    assert caught.value.code == 2
    errors = capsys.readouterr().err
    assert errors.startswith('usage: tpugraphs predict ')
    assert "--split: invalid choice: 'best'" in errors


_HELP = """
import runpy, sys
for name in sys.argv[1:]:
    try:
        if name.endswith('.py'):
            sys.argv = [name, '--help']
            runpy.run_path(name, run_name='__main__')
        else:
            sys.argv = ['tpugraphs', name, '--help']
            runpy.run_module('tpugraphs', run_name='__main__')
    except SystemExit as end:
        assert not end.code, (name, end.code)
slow = {'tensorflow', 'apache_beam', 'matplotlib', 'scipy.stats'}
slow |= {'baselines.scoring.prediction', 'tpugraphs_lab.kernels.cutting'}
slow = sorted(slow & set(sys.modules))
print('imported', slow)
"""


@pytest.mark.slow
@pytest.mark.parametrize('names', [_COMMANDS, *([name] for name in _SCRIPTS)])
def test_help_teaches_and_waits_for_nothing(names):
    done = processes.python('-c', _HELP, *names)
    assert done.stdout.splitlines()[-1] == 'imported []' and done.stderr == ''
    for name in names:
        start = 'python' if name.endswith('.py') else 'tpugraphs'
        example = rf'^ +{start} {re.escape(name)}( \S|$)'
        assert re.search(example, done.stdout, re.MULTILINE), f'{name} has no example'


_REFUSED = """
import json, runpy, sys
import baselines
from tpugraphs import commands
sys.modules['tensorflow'] = None  # an import of it raises ImportError
for words in json.loads(sys.argv.pop()):
    try:
        if words[0].endswith('.py'):
            sys.argv = words
            runpy.run_path(words[0], run_name='__main__')
        print(commands.run(words[0], words[1:]))
    except SystemExit as end:
        print(end.code)
"""


@pytest.mark.slow
def test_what_needs_no_model_is_refused_before_tensorflow_is_imported(tmp_path):
    tile_records.write_splits(tmp_path / 'data', 12)
    made = [str(made_runs.make_tile_run(tmp_path, seed=seed)) for seed in (0, 1)]
    runs, data = f'--dir {" ".join(made)} --data_root', f'{tmp_path}/data'
    train, folder = f'train tile --data_root={data}', f'{tmp_path}/data/train'
    refused = {
        'tiles_train.py --data_root=/none': '/none/train: there is no such folder',
        f'{train} --configs=99999': '--configs=99999',
        f'{train} --fold=1/999': '--fold: ',
        f'{train} --test_mode=metrics --model=MPL': "did you mean 'MLP'",
        f'{train} --models_file=/none.py': '--models_file: there is no file /none.py',
        f'{train} --init_from=/none': '--init_from: there is no directory /none',
        f'{train} --out_dir={__file__}/x': '--out_dir',
        f'{train} --out_dir={tmp_path}/o --results_csv={folder}': '--results_csv',
        f'predict {runs} /none': '/none/test: there is no such folder',
        f'predict {runs} {data} --models_file=/none.py': '--models_file',
        f'predict {runs} {data} --output={__file__}/x': '--output',
        f'evaluate {runs} /none': '/none/valid: there is no such folder',
        f'evaluate {runs} {data} --split=test': 'all runtimes are 0',
        f'evaluate {runs} {data} --output=a.xls': '--output a.xls',
        f'evaluate --compare {" ".join(made)} --data_root /none': '/none/valid',
        f'ensemble {runs} /none': '/none/test: there is no such folder',
        f'report {runs} /none': '/none/valid: there is no such folder',
        f'export {made[0]} {folder}': f'{folder} is there already',
    }
    words = json.dumps([line.split() for line in refused])
    done = processes.python('-c', _REFUSED, words)
    assert done.stdout.split() == ['1'] * len(refused), done.stdout + done.stderr
    errors = re.findall('^error: .*', done.stderr, re.MULTILINE)
    for message, expected in zip(errors, refused.values(), strict=True):
        assert expected in message
