"""What a training leaves behind: `model_<hash>/` and `run_<hash>.jsonz`.

The directory is a Keras SavedModel, which the course's own script loads; the
run file is gzipped JSON with everything else that prediction needs.  We read
the weights back as a plain checkpoint: the stored graph is never executed.
Trees are a text file in the same directory, beside the SavedModel or alone.
"""

import contextlib
import errno
import gzip
import hashlib
import io
import json
import logging
import os
import re
import sys
import tempfile
from typing import Any, Dict, List, Optional
import uuid
import warnings

from absl import logging as absl_logging
import numpy as np
import tensorflow as tf

from baselines import files
from baselines import text
from baselines.data import npz
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import trees as trees_lib
from baselines.runs import weights

_MAX_STATE_BYTES = 1 << 40
# Hidden names of what is being written.
_LEFTOVERS = re.compile(
    r'\.((model_[0-9a-f]{32}|run_[0-9a-f]{32}\.jsonz|unfinished_\w+\.npz'
    r'|results_\w+\.csv)\.\w{8}|unfinished_\w+\.lock)'
)
# A run as it is read from disk knows no TensorFlow; here they are one thing.
Run = run_files.Run
run_file = run_files.run_file
# Of a run file, what says where it was, or what came out; all else is settings.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'models_file')


def new_hash() -> str:
    """Returns a fresh name for a run; no two runs share one."""
    return uuid.uuid4().hex[:32]


def check_writable(out_dir: str, flag: str = 'out_dir') -> None:
    """Makes `out_dir` and tries to write there, before hours are spent.

    Args:
        out_dir: a folder.
        flag: which flag names it, for the message.

    Raises:
        ValueError: that fails; says why.
    """
    try:
        os.makedirs(files.expand(out_dir), exist_ok=True)
        with tempfile.TemporaryFile(dir=files.expand(out_dir)) as probe:
            probe.write(b'x' * 4096)
            probe.flush()
    except OSError as error:
        raise ValueError(
            f'--{flag} {out_dir} cannot be written: {error.strerror or error}'
        ) from None


def check_file_writable(path: str, flag: str) -> None:
    """The same for the file that a flag names.

    Raises:
        ValueError: it is a folder, or its folder cannot be written.
    """
    path = files.expand(path)
    if os.path.isdir(path):
        raise ValueError(f'--{flag} {path} is a folder: name a file in it')
    if not os.path.exists(path) or os.path.isfile(path):
        check_writable(os.path.dirname(path), flag)


def save(
    out_dir: str,
    run_hash: str,
    model: Optional[tf.keras.Model],
    info: Dict,
    trees: Optional[trees_lib.Trees] = None,
) -> str:
    """Writes a run; both directory and run file appear, or neither.

    Args:
        out_dir: where to.
        run_hash: from `new_hash`.
        model: a model that was called on a graph; None for a run without.
        info: the run file's content; must not hold NaN.
        trees: what else goes into the directory.

    Returns:
        The model directory.

    Raises:
        OSError: it cannot be written, or there is a run of that hash.
        ValueError: `info` holds a number that JSON does not know.
    """
    of_model = weights.digest(model) if model else None
    info = signed(info, of_model, trees.digest() if trees else None)
    content = json.dumps(info, allow_nan=False)
    final = os.path.join(files.expand(out_dir), f'model_{run_hash}')
    for path in (final, run_file(final)):
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, 'a run is never overwritten', path)
    try:
        with files.folder_atomically(final) as folder:
            if model:
                _save_model(model, folder)
            if trees:
                trees.save(folder)
            with files.write_atomically(run_file(final), 'wb') as stream:
                with gzip.GzipFile(fileobj=stream, mode='wb') as packed:
                    packed.write(content.encode())
    except BaseException:
        if not os.path.isdir(final) and os.path.exists(run_file(final)):
            os.unlink(run_file(final))
        raise
    return final


def signed(
    info: Dict[str, Any],
    weights_digest: Optional[str],
    trees_digest: Optional[str] = None,
) -> Dict[str, Any]:
    """Returns a run file's content with its digests."""
    digests = {
        'trees': trees_digest,
        'weights': weights_digest,
        'settings': _settings_digest(info),
    }
    return {**info, 'digest': {kind: found for kind, found in digests.items() if found}}


def remove_leftovers(out_dir: str) -> None:
    """Removes what trainings that were killed while they wrote have left."""
    files.remove_leftovers(out_dir, _LEFTOVERS)


def finished(out_dir: str, run_hash: str) -> Optional[Run]:
    """Returns the run of that hash; half a one, of a killed training, is removed."""
    model_dir = os.path.join(files.expand(out_dir), f'model_{run_hash}')
    if os.path.isdir(model_dir):
        return load(model_dir)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(run_file(model_dir))  # `save` writes it first
    return None


def find(out_dir: str, training_key: str) -> Optional[Run]:
    """Returns a run of that training in a folder, or None."""
    for model_dir in run_files.list_dirs(files.expand(out_dir)):
        with contextlib.suppress(ValueError, OSError):
            run = load(model_dir)
            if run.info.get('training_key') == training_key:
                return run
    return None


def _save_model(model: tf.keras.Model, path: str) -> None:
    # TF-GNN's types are announced one by one, and Keras says that the model
    # was not compiled; both are as they should be.
    logger, verbosity = tf.get_logger(), absl_logging.get_verbosity()
    level = logger.level
    logger.setLevel(logging.ERROR)
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            model.save(path, include_optimizer=False)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(f'{path}: the model cannot be saved: {error}') from None
    finally:
        logger.setLevel(level)
        absl_logging.set_verbosity(verbosity)


def load(name: str) -> Run:
    """Reads a run, and makes sure that its weights are there.

    Args:
        name: its model directory, or what else `finding.find` takes.

    Raises:
        ValueError: there is no such run, or its run file is missing or damaged.
    """
    model_dir = finding.find_one(name)
    has_trees = os.path.lexists(os.path.join(model_dir, trees_lib.FILE))
    if not has_trees or weights.is_there(model_dir):
        weights.check_files(model_dir)
    return run_files.read(model_dir)


def read_weights(run: Run, model: tf.keras.Model) -> None:
    """Copies a run's weights into a built model, by position.

    Args:
        run: the run.
        model: an instance of the run's architecture, called once.

    Raises:
        ValueError: their number or shapes differ, the files are damaged, or
            they or the settings are not those that were saved together.
    """
    stored = weights.read(run.model_dir, model)
    wanted = [list(v.shape) for v in model.variables]
    if stored != wanted:
        raise ValueError(_difference(run, stored, wanted))
    _note_version(run)
    if _digests(run):
        return _check_digest(run, 'weights', weights.digest(model))
    print(
        f'note: {run.model_dir}: its run file has no digest (the published code '
        'and older versions write none), so whether it belongs to these '
        'weights cannot be checked',
        file=sys.stderr,
    )


def has_model(run: Run) -> bool:
    """Returns whether a graph model scores in a run: all but those of trees alone."""
    if run.args['model'] == trees_lib.NAME:
        return False
    digest = _digests(run)
    return 'weights' in digest or 'trees' not in digest


def has_trees(run: Run) -> bool:
    """Returns whether trees score in a run, alone or beside its graph model.

    Earlier versions grew trees for the training programs of a layout run alone; these
    are no longer used, and a note says so.
    """
    if run.args['model'] == trees_lib.NAME:
        return True
    if 'trees' not in _digests(run):
        return False
    if run.info.get('programs'):
        print(
            f'note: {run.model_dir}: its trees are of its training programs alone and '
            'no longer used; its graph model scores',
            file=sys.stderr,
        )
        return False
    return True


def read_trees(run: Run) -> trees_lib.Trees:
    """Reads the trees of a run.

    Raises:
        ValueError: they are missing or damaged, or they and the settings are not
            those that were saved together.
    """
    trees = trees_lib.Trees()
    trees.read(run.model_dir)
    _check_digest(run, 'trees', trees.digest())
    return trees


def _check_digest(run: Run, kind: str, digest: str) -> None:
    """Makes sure that a model directory and a run file were saved together."""
    stored = _digests(run)
    if stored.get(kind) != digest:
        raise ValueError(
            f'{run.model_dir} does not hold the {kind} that {run_file(run.model_dir)} '
            'was saved with; copy both again'
        )
    if stored.get('settings') != _settings_digest(run.info):
        raise ValueError(
            f'{run_file(run.model_dir)} was changed since it was saved; copy it again'
        )


def _digests(run: Run) -> Dict[str, Any]:
    """Returns the digests in a run file by kind; of old runs none."""
    digests = run.info.get('digest')
    return digests if isinstance(digests, dict) else {}


def _settings_digest(info: Dict[str, Any]) -> str:
    """A digest of all that a run file says but places and itself."""
    args = {k: v for k, v in info.get('args', {}).items() if k not in _PLACES}
    settings = {**info, 'args': args, 'digest': None}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _note_version(run: Run) -> None:
    """Says where a run was trained with another version of TensorFlow."""
    versions = run.info.get('versions')
    trained_with = versions.get('tensorflow') if isinstance(versions, dict) else None
    if (
        trained_with
        and str(trained_with).split('.')[:2] != tf.__version__.split('.')[:2]
    ):
        print(
            f'note: {run.model_dir} was trained with TensorFlow '
            f'{text.printable(str(trained_with))}; here '
            f'is {tf.__version__}',
            file=sys.stderr,
        )


def _difference(run: Run, stored: List[List[int]], wanted: List[List[int]]) -> str:
    what = f'{len(stored)} variables where the model has {len(wanted)}'
    if len(stored) == len(wanted):
        i = next(i for i, (a, b) in enumerate(zip(stored, wanted)) if a != b)
        what = f'variable {i} of shape {stored[i]} where the model has {wanted[i]}'
    return (
        f'{run.model_dir} holds {what}: it was trained as '
        f'{run.args["model"]} {run.args.get("model_kwargs_json", "{}")} with '
        'other code or data; pass its models.py as --models_file'
    )


class Checkpoint:
    """The state of an unfinished training, in one file, replaced atomically."""

    def __init__(self, path: str):
        self.path = files.expand(path)

    def write(self, arrays: Dict[str, np.ndarray], described: Dict) -> None:
        """Replaces the file: named arrays, and JSON."""
        described_json = np.frombuffer(json.dumps(described).encode(), np.uint8)
        # In memory first: on a full disk a zip file complains once more, on
        # stderr, when it is collected.
        content = io.BytesIO()
        np.savez(content, json=described_json, **arrays)
        with files.write_atomically(self.path, 'wb') as stream:
            stream.write(content.getbuffer())

    def read(self):
        """Returns what `write` was given, or None where there is no file.

        Raises:
            ValueError: the file is damaged.
        """
        if not os.path.exists(self.path):
            return None
        try:
            with npz.open_archive(self.path, _MAX_STATE_BYTES) as archive:
                arrays = {}
                for name in archive.namelist():
                    with archive.open(name) as member:
                        arrays[name[: -len('.npy')]] = np.lib.format.read_array(
                            member, allow_pickle=False
                        )
            described = json.loads(arrays.pop('json').tobytes())
        except Exception as error:  # zip, zlib, header, JSON: all the same
            raise ValueError(
                f'{self.path} is damaged ({error}); delete it to start anew'
            ) from None
        return arrays, described

    def remove(self) -> None:
        """Deletes the file, if it is there."""
        if os.path.exists(self.path):
            os.unlink(self.path)
