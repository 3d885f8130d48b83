"""The tile scripts as processes."""

import os
import re
import shlex
import signal

import pytest

from tests.faults import calls
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records
from tests.helpers import tile_runs

pytestmark = pytest.mark.slow


def test_ctrl_c_loses_an_epoch_at_most(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    flags = {**tile_runs.TINY, 'early_stop': 100_000, 'epochs': 100_000}
    for name in ('data_root', 'cache_dir', 'out_dir'):
        flags[name] = tmp_path / name.partition('_')[0]
    words = ['tiles_train.py', *(f'--{name}={value}' for name, value in flags.items())]
    training, out = calls.Call(tmp_path, words), tmp_path / 'out'
    processes.wait_for_epochs(training, out, 2)
    os.kill(training.process.pid, signal.SIGINT)
    done = training.done()
    assert done.code == 130, done
    assert [name[:11] for name in processes.list_files(out)] == ['unfinished_']
    count = len(processes.read_kept_curve(out)['epoch'])
    # An epoch is kept before its row is printed.
    assert count - 1 <= len(re.findall(r'(?m)^ *\d+/\d+ ', done.out)) <= count
    # The command that was given, and --resume.
    kept, command = done.err.splitlines()[-1].split('; go on with: ')
    assert kept == f'kept {count} epochs', done
    script = str(places.ROOT / words[0])
    assert shlex.split(command)[1:] == [script, *words[1:], '--resume']


@pytest.mark.parametrize(
    'script, flag',
    [('tiles_gen_predictions_csv.py', '--dir'), ('tiles_train.py', '--seeds=0,1')],
)
def test_a_script_refuses_flags_in_one_line(tmp_path, script, flag):
    done = calls.run(tmp_path, [script, *[flag] * ('=' in flag)])
    assert done.code == 1 and done.err.count('\n') == 1
    assert done.err.startswith(f'error: {flag.partition("=")[0]} ')
    assert processes.list_files(tmp_path) == []
