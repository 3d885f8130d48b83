"""Saves runs: `model_<hash>/` and `run_<hash>.jsonz`.

The directory is a Keras SavedModel, which the course's own script loads.  Trees are a
text file in the same directory, with a SavedModel or alone.  TensorFlow is imported
only for a graph model.
"""

from collections.abc import Sequence
import errno
import gzip
import json
import os
import re
from typing import TYPE_CHECKING, Optional
import warnings

from absl import logging as absl_logging

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.runs import code_files
from baselines.runs import run_files
from baselines.trees import booster as trees_lib

if TYPE_CHECKING:
    import tensorflow as tf

# Hidden names of files that are being written.
_LEFTOVERS = re.compile(
    r'\.((model_[0-9a-f]{32}|run_[0-9a-f]{32}\.jsonz|unfinished_\w+\.npz'
    r'|results_\w+\.csv)\.\w{8}|unfinished_\w+\.lock)'
)


def save_run(
    out_dir: str,
    run_hash: str,
    info: text.JsonObject,
    model: Optional['tf.keras.Model'] = None,
    trees: trees_lib.Trees | None = None,
    code: Sequence[code_files.CodeFile] = (),
) -> run_files.RunFile:
    """Writes a run atomically: both the directory and the run file appear, or neither.

    Args:
        info: the run file's content; must not hold NaN.
        model: a model that was called on a graph; None for a run without.
        code: the user's files that it was trained with, which are copied there.

    Raises:
        OSError: it cannot be written, or there is a run of that hash.
        ValueError: `info` holds a number that JSON does not know, or more than
            a run file may hold.
    """
    weights_digest = None
    if model:
        values = [variable.numpy() for variable in model.variables]
        weights_digest = run_files.hash_weights(values)
    trees_digest = trees.digest() if trees else None
    info, content = _make_content(info, weights_digest, trees_digest)
    final = os.path.join(files.expand(out_dir), f'model_{run_hash}')
    for path in (final, run_files.run_file(final)):
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, 'a run is never overwritten', path)
    # The run file appears before the directory is renamed.  Listings require both, so
    # a kill between the two leaves nothing that looks finished.
    try:
        with files.make_folder_atomically(final) as folder:
            if model:
                save_model(model, folder)
            if trees:
                trees.save(run_files.make_trees_path(folder))
            code_files.save(code, folder)
            with files.write_atomically(run_files.run_file(final), 'wb') as stream:
                with gzip.GzipFile(fileobj=stream, mode='wb') as packed:
                    packed.write(content)
    except BaseException:  # Ctrl-C, too
        if not os.path.isdir(final) and os.path.exists(run_files.run_file(final)):
            os.unlink(run_files.run_file(final))
        raise
    return run_files.RunFile(final, info)


def _make_content(
    info: text.JsonObject, weights_digest: str | None, trees_digest: str | None
) -> tuple[text.JsonObject, bytes]:
    """Returns the content of a run file, signed, and its bytes before packing.

    Leaves out test predictions that would make it too large; the CSV has them.
    """
    whole = run_files.add_digests(info, weights_digest, trees_digest)
    content = json.dumps(whole, allow_nan=False).encode()
    try:
        untrusted.check_size(content, **run_files.LIMITS)
    except ValueError as error:
        if not info.get('test_predictions'):
            raise
        print(f'note: the run file is without test_predictions: {error}')
        without = {**info, 'test_predictions': {}}
        return _make_content(without, weights_digest, trees_digest)
    return whole, content


def remove_leftovers(out_dir: str) -> None:
    """Removes the half-written files of trainings that were killed."""
    files.remove_leftovers(out_dir, _LEFTOVERS)


def save_model(model: 'tf.keras.Model', path: str) -> None:
    """Writes a Keras SavedModel; raises OSError where that fails."""
    import tensorflow as tf

    # TF-GNN logs each of its types, and Keras that the model was not compiled; both
    # are expected.
    verbosity = absl_logging.get_verbosity()
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            model.save(path, include_optimizer=False)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(f'{path}: the model cannot be saved: {error}') from None
    finally:
        absl_logging.set_verbosity(verbosity)
