"""Learned cost models for tensor compilers, on the TpuGraphs dataset.

Every way in passes here before TensorFlow is imported, so its environment is
settled here; processes that we start inherit it.  TF-GNN needs Keras 2,
which is `tf.keras` up to TensorFlow 2.15; from 2.16 on it is the package tf_keras,
if a variable says so.  A TensorFlow that was compiled for NumPy 1 cannot be imported
next to NumPy 2, and its error does not say so.
"""

import importlib.metadata
import importlib.util
import os


def check_numpy(numpy: str, tensorflow: str) -> None:
    """Raises ImportError for versions of both that do not work together."""
    major, minor = map(int, tensorflow.split('.')[:2])
    if int(numpy.partition('.')[0]) >= 2 and (major, minor) < (2, 18):
        raise ImportError(
            f'TensorFlow {tensorflow} was compiled for NumPy 1, and NumPy {numpy} is '
            "installed, perhaps with another package: pip install 'numpy<2'"
        )


def version(package: str) -> str:
    """Returns the version of an installed package; '' if it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ''  # TensorFlow goes by other names, too


if importlib.util.find_spec('tf_keras'):
    os.environ['TF_USE_LEGACY_KERAS'] = '1'
# Start-up messages of TensorFlow, unless the user has asked for them.
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
if (_numpy := version('numpy')) and (_tensorflow := version('tensorflow')):
    check_numpy(_numpy, _tensorflow)
