"""What a training leaves behind: `model_<hash>/` and `run_<hash>.jsonz`.

The directory is a Keras SavedModel, which the course's own script loads; the
run file is gzipped JSON with everything else that prediction needs.  We read
the weights back as a plain checkpoint: the stored graph is never executed.
"""

import dataclasses
import errno
import gzip
import io
import json
import logging
import os
import re
import shutil
import tempfile
from typing import Any, Dict, List
import uuid
import warnings
import zlib

from absl import logging as absl_logging
from google.protobuf import message
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from baselines import files

# Run files hold curves, predictions and a normaliser: 1 to 50 MB unpacked.
_MAX_RUN_BYTES = 1 << 30
_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'


@dataclasses.dataclass(frozen=True)
class Run:
    """A finished training, as read from disk.

    Attributes:
        model_dir: the model directory, absolute.
        info: the run file's JSON object.
    """

    model_dir: str
    info: Dict[str, Any]

    @property
    def args(self) -> Dict[str, Any]:
        """The flags of the training."""
        return self.info['args']


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


def save(out_dir: str, run_hash: str, model: tf.keras.Model, info: Dict) -> str:
    """Writes a run; both parts appear, or neither.

    Args:
        out_dir: where to.
        run_hash: from `new_hash`.
        model: a model that was called on a graph.
        info: the run file's content; must not hold NaN.

    Returns:
        The model directory.

    Raises:
        OSError: it cannot be written, or there is a run of that hash.
        ValueError: `info` holds a number that JSON does not know.
    """
    out_dir = files.expand(out_dir)
    os.makedirs(out_dir, exist_ok=True)
    text = json.dumps(info, allow_nan=False)
    final = os.path.join(out_dir, f'model_{run_hash}')
    for path in (final, run_file(final)):
        if os.path.lexists(path):
            raise FileExistsError(errno.EEXIST, 'a run is never overwritten', path)
    beside = tempfile.mkdtemp(prefix='.model_', dir=out_dir)
    try:
        _save_model(model, beside)
        os.chmod(beside, 0o755)
        with files.write_atomically(run_file(final), 'wb') as stream:
            with gzip.GzipFile(fileobj=stream, mode='wb') as packed:
                packed.write(text.encode())
        os.replace(beside, final)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        if not os.path.isdir(final) and os.path.exists(run_file(final)):
            os.unlink(run_file(final))
        raise
    return final


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


def load(model_dir: str) -> Run:
    """Reads a run by its model directory.

    Args:
        model_dir: `.../model_<hash>`; relative, with `~` or a trailing slash
            as the user likes.

    Raises:
        ValueError: it is no model directory, or its run file is missing or
            damaged.
    """
    model_dir = files.expand(model_dir)
    if not os.path.isdir(model_dir):
        raise ValueError(f'--dir: there is no directory {model_dir}')
    name = os.path.basename(model_dir)
    if not re.fullmatch(r'model_\w+', name):
        raise ValueError(
            f'--dir: {model_dir} is not called model_<hash>; point --dir at the '
            'directory that a training left'
        )
    if not os.path.isfile(os.path.join(model_dir, 'variables', 'variables.index')):
        raise ValueError(f'--dir: {model_dir} holds no saved model')
    return Run(model_dir, _read_run_file(run_file(model_dir)))


def run_file(model_dir: str) -> str:
    """Where the run file of a model directory is: beside it."""
    folder, name = os.path.split(model_dir)
    return os.path.join(folder, f'run_{name[len("model_") :]}.jsonz')


def _read_run_file(path: str) -> Dict[str, Any]:
    if not os.path.isfile(path):
        raise ValueError(
            f'the run file {path} is missing; it belongs beside the model '
            'directory of the same hash'
        )
    try:
        with gzip.open(path, 'rb') as stream:
            text = stream.read(_MAX_RUN_BYTES + 1)
        if len(text) > _MAX_RUN_BYTES:
            raise ValueError(f'it unpacks to more than {_MAX_RUN_BYTES} bytes')
        info = json.loads(text)
    except (
        EOFError,
        zlib.error,
        gzip.BadGzipFile,
        RecursionError,
        ValueError,
    ) as error:
        raise ValueError(
            f'the run file {path} is damaged: {error}; copy it again'
        ) from None
    args = info.get('args') if isinstance(info, dict) else None
    if not isinstance(args, dict) or not isinstance(args.get('model'), str):
        raise ValueError(
            f'the run file {path} does not say which model it is (args.model)'
        )
    kwargs, configs = args.get('model_kwargs_json', ''), args.get('configs', 10)
    if not isinstance(kwargs, str):
        raise ValueError(
            f'the run file {path}: args.model_kwargs_json should be text, not '
            f'{kwargs!r}'
        )
    if type(configs) is not int or configs < 1:  # True is an int as well
        raise ValueError(
            f'the run file {path}: args.configs should be a positive number, '
            f'not {configs!r}'
        )
    return info


def read_weights(run: Run, model: tf.keras.Model) -> None:
    """Copies a run's weights into a built model, by position.

    Args:
        run: the run.
        model: an instance of the run's architecture, called once.

    Raises:
        ValueError: their number or shapes differ, or the files are damaged.
    """
    path = os.path.join(run.model_dir, 'variables', 'variables')
    wanted = [list(v.shape) for v in model.variables]
    try:
        reader = tf.train.load_checkpoint(path)
        keys = _variable_keys(reader)
        shapes = reader.get_variable_to_shape_map()
        stored = [list(shapes[key]) for key in keys]
        if stored == wanted:
            for key, variable in zip(keys, model.variables):
                variable.assign(reader.get_tensor(key))
    except (
        tf.errors.OpError,
        message.DecodeError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # the reader's choice differs with what is damaged
        raise ValueError(
            f'{run.model_dir}: the weights cannot be read: {error}'
        ) from None
    if stored != wanted:
        raise ValueError(_difference(run, stored, wanted))


def _variable_keys(reader: Any) -> List[str]:
    """Returns the keys of a saved model's variables, in their order.

    A key is the shortest path to a variable: `variables/3/...` for that of a
    layer, but `scale/...` for one that the model itself keeps in an attribute.
    The checkpoint's table of objects says which is number 3.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    if reader.has_tensor(_OBJECT_GRAPH):
        graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))

    def children(number):
        return {c.local_name: c.node_id for c in graph.nodes[number].children}

    variables = children(0).get('variables') if graph.nodes else None
    if variables is None:
        return []
    by_number = children(variables)
    return [
        graph.nodes[by_number[str(i)]].attributes[0].checkpoint_key
        for i in range(len(by_number))
    ]


def _difference(run, stored, wanted) -> str:
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
    """The state of an unfinished training, in one file, replaced atomically.

    Args:
        path: the file.
    """

    def __init__(self, path: str):
        self.path = files.expand(path)

    def write(self, arrays: Dict[str, np.ndarray], described: Dict) -> None:
        """Replaces the file: named arrays, and JSON."""
        text = np.frombuffer(json.dumps(described).encode(), np.uint8)
        # In memory first: on a full disk a zip file complains once more, on
        # stderr, when it is collected.
        content = io.BytesIO()
        np.savez(content, json=text, **arrays)
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
            with np.load(self.path, allow_pickle=False) as stored:
                arrays = {key: stored[key] for key in stored.files}
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
