"""Learned cost models for tensor compilers, on the TpuGraphs dataset.

Every way in passes here before TensorFlow is imported, so its environment is
settled here; processes that we start inherit it.  TF-GNN needs Keras 2,
which is `tf.keras` up to TensorFlow 2.15; from 2.16 on it is the package tf_keras,
if a variable says so.  A TensorFlow that was compiled for NumPy 1 cannot be imported
next to NumPy 2, and its error does not say so.  What is missing in an environment in
which this package was not installed is named in one line, and so is an unsuitable
Python: this file, and the scripts that import it first, parse on Python 3.6.
"""

import sys

if not (3, 10) <= sys.version_info < (3, 14):
    _INSTALL = 'python3.11 -m venv .venv && . .venv/bin/activate && pip install -e .'
    _WRONG = 'error: Python 3.10 to 3.13 is needed, not {}.{}; run in the clone: {}'
    sys.exit(_WRONG.format(*sys.version_info[:2], _INSTALL))

# isort: split
from collections.abc import Sequence
import importlib.util
import os

from baselines.core import extensions

# Modules without which no script works.
_NEEDED = ('absl', 'numpy', 'scipy', 'tensorflow', 'tensorflow_gnn', 'tqdm')


def explain_environment(missing: Sequence[str], numpy: str, tensorflow: str) -> str:
    """Says how to repair an environment; '' if nothing is wrong.

    Args:
        missing: names of modules that are not installed.
        numpy: version of NumPy, '' for none.
        tensorflow: the same.
    """
    release = tuple(map(int, tensorflow.split('.')[:2])) if tensorflow else (2, 15)
    if release > (2, 15) and not importlib.util.find_spec('tf_keras'):
        missing = [*missing, 'tf_keras']
    if missing:
        verb = 'is' if len(missing) == 1 else 'are'
        names = ', '.join(missing)
        return f'{names} {verb} not installed; run in the clone: pip install -e .'
    if int(numpy.partition('.')[0]) >= 2 and release < (2, 18):
        return (
            f'TensorFlow {tensorflow} was compiled for NumPy 1, and NumPy {numpy} is '
            "installed, perhaps with another package: pip install 'numpy<2'"
        )
    return ''


version = extensions.find_version


def _require_packages() -> None:
    """Ends one of our scripts in one line if packages are missing or do not fit.

    Raises:
        ImportError: the same, in other programs.
    """
    missing = [name for name in _NEEDED if not importlib.util.find_spec(name)]
    wrong = explain_environment(missing, version('numpy'), version('tensorflow'))
    if not wrong:
        return
    script = getattr(sys.modules['__main__'], '__file__', None) or ''
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    is_ours = os.path.dirname(os.path.abspath(script)) == root
    if is_ours or os.path.basename(script) == 'tpugraphs':
        sys.exit(f'error: {wrong}')
    raise ImportError(wrong)


if importlib.util.find_spec('tf_keras'):
    os.environ['TF_USE_LEGACY_KERAS'] = '1'
# Start-up messages of TensorFlow, unless the user has asked for them.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
_require_packages()
