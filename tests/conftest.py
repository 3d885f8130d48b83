"""What all tests share."""

import os
import signal

import hypothesis

import baselines  # noqa: F401  chooses Keras before a test imports TensorFlow

# TensorFlow's threads cannot be set once it runs, which in one process it does from
# the first test on: commands leave them alone if the user has set them.
os.environ.setdefault('TF_NUM_INTRAOP_THREADS', '1')
os.environ.setdefault('TF_NUM_INTEROP_THREADS', '1')
os.environ.pop('TPUGRAPHS_DEBUG', None)  # it shows tracebacks, not messages

# A shell starts what it puts in the background with Ctrl-C ignored, and what tests
# start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says more about the machine than about the code.
hypothesis.settings.register_profile('house', deadline=None)
hypothesis.settings.register_profile('fast', deadline=None, max_examples=20)


def pytest_configure(config):
    """Fewer examples where only the fast tests are asked for."""
    fast = config.getoption('markexpr') == 'not slow'
    hypothesis.settings.load_profile('fast' if fast else 'house')
