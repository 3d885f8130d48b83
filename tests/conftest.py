"""What all tests share."""

import collections
import gc
import os
import signal
import sys

import pytest

import baselines  # noqa: F401  chooses Keras before a test imports TensorFlow
from baselines.core import extensions

# One worker of pytest a core, and a thread each: more would wait for each other.
# TensorFlow's cannot be set once it runs, which it does from the first test on.
for _name in ('TF_NUM_INTRAOP_THREADS', 'TF_NUM_INTEROP_THREADS'):
    os.environ.setdefault(_name, '1')
for _name in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'):  # LightGBM's and NumPy's
    os.environ.setdefault(_name, '1')
os.environ.pop('TPUGRAPHS_DEBUG', None)  # it shows tracebacks, not messages

# Where no bytecode may be kept, each worker, and each process that a test starts,
# would compile everything again.
os.environ.pop('PYTHONDONTWRITEBYTECODE', None)
sys.dont_write_bytecode = False

# A shell starts what it puts in the background with Ctrl-C ignored, and what tests
# start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_xdist_auto_num_workers(config):
    """Uses a worker a core, at most four; none where a file is named."""
    is_file = any('.py' in argument for argument in config.args)
    return 0 if is_file else min(os.cpu_count() or 1, 4)


def pytest_configure():
    """Has Hypothesis try a few examples; TPUGRAPHS_EXAMPLES asks for more."""
    import hypothesis  # with bytecode; pytest rewrites its asserts, too

    examples = int(os.environ.get('TPUGRAPHS_EXAMPLES', 20))
    # How long an example takes says more about the machine than about the code.
    hypothesis.settings.register_profile('house', deadline=None, max_examples=examples)
    hypothesis.settings.load_profile('house')


def pytest_collection_modifyitems(items):
    """Puts files of slow tests first: at the end no worker waits for a long one."""
    count = collections.Counter(item.path for item in items)
    slow = collections.Counter(
        item.path for item in items if item.get_closest_marker('slow')
    )
    items.sort(
        key=lambda item: (-slow[item.path] / count[item.path], -count[item.path])
    )


@pytest.hookimpl(hookwrapper=True)
def pytest_collection():
    """Keeps what is imported out of the garbage collector, which need not look.

    It looks more rarely, too: what TensorFlow traces is many objects that live on.
    """
    gc.disable()
    yield
    gc.freeze()
    gc.set_threshold(50_000, 10, 10)
    gc.enable()


@pytest.fixture(scope='session', autouse=True)
def _no_extensions():
    """Hides what other distributions add, such as the laboratory: tests are of this."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extensions, 'find', lambda group: {})
        yield


@pytest.fixture(scope='session', autouse=True)
def _no_power_cut():
    """What tests write need not outlive one: they do not wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, 'fsync', os.fstat)  # wants a descriptor that is open, too
        yield


@pytest.fixture(scope='module')
def weights_alone():
    """Has trainings in this process save weights alone, of models that are known to
    work; the plain way to save."""
    from baselines.runs import saved
    from baselines.training import own_code
    from tests.helpers import finished_runs

    plain = saved.save_model
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(saved, 'save_model', finished_runs.save_weights)
        patch.setattr(own_code, 'check_model', lambda *unused: None)
        yield plain
