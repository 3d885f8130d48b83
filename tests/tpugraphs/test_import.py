"""What `import tpugraphs` does, and does not."""

import builtins

import pytest

from tests.helpers import processes
import tpugraphs

_IMPORT = """
import sys, threading
import tpugraphs
heavy = {'tensorflow', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)
assert not heavy, heavy
assert threading.active_count() == 1
print(tpugraphs.__version__)
"""


def test_the_import_is_quiet_and_waits_for_nothing():
    done = processes.python('-c', _IMPORT)
    version = f'{tpugraphs.__version__}\n'
    assert (done.returncode, done.stdout, done.stderr) == (0, version, '')


_ESTIMATE = """
import sys
from tpugraphs import commands
code = commands.run('rank', ['examples/kernels.pb', '--dir', 'estimate', '--top', '0'])
heavy = {'tensorflow', 'scipy.stats', 'matplotlib', 'pandas', 'lightgbm'}
heavy &= set(sys.modules)
assert not heavy, heavy
sys.exit(code)
"""


def test_ranking_by_the_estimate_does_not_wait_for_tensorflow():
    done = processes.python('-c', _ESTIMATE)
    assert (done.returncode, done.stderr) == (0, '')
    assert done.stdout.startswith('4 modules with ')


_RANKING = """
import os, sys
del os.environ['TF_CPP_MIN_LOG_LEVEL']  # a user's is not set
from baselines.core import starting
starting.start_tensorflow()
import baselines.scoring.prediction, tpugraphs.ranking.ranking
print({'scipy.stats', 'lightgbm', 'apache_beam', 'matplotlib'} & set(sys.modules))
import tensorflow as tf
identity = tf.function(lambda x: x)
for number in range(12):
    identity(number)  # TensorFlow warns its author of so many traces
"""


@pytest.mark.slow  # imports TensorFlow
def test_ranking_waits_for_nothing_and_users_get_no_advice_about_our_code():
    done = processes.python('-c', _RANKING, TF_CPP_MIN_LOG_LEVEL='')
    assert (done.returncode, done.stdout, done.stderr) == (0, 'set()\n', '')


def test_import_star_leaves_python_its_own_open():
    names = {}
    exec('from tpugraphs import *', names)
    assert not set(names) - {'__builtins__'} & set(dir(builtins))
    assert names['open_records'] is tpugraphs.open
