"""A run's weights: read as a plain checkpoint, which may come from a stranger.

The stored graph is never executed, and no model is made that is much larger than
the saved one.
"""

import contextlib
import hashlib
import itertools
import math
from typing import Any, Callable, Dict, Iterator, List, Mapping

from google.protobuf import message
import numpy as np
import tensorflow as tf
from tensorflow.core.protobuf import trackable_object_graph_pb2

from baselines.runs import run_files

_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
# Weights and variables that a model may have beyond its checkpoint, so
# that small differences are told as such.
_FREE_WEIGHTS = 1 << 20
_FREE_VARIABLES = 100
# A number among a model's options is a width, a count of layers, or a setting that
# is no larger than this; as many layers are begun in seconds.
_FREE_NUMBER = 4096


@contextlib.contextmanager
def limited(model_dir: str, options: Mapping[str, Any]) -> Iterator[None]:
    """Stops the making of a model that is far larger than a checkpoint.

    The model's options may come from a stranger.  A width stands in a shape of the
    checkpoint and each layer has a variable there, so a larger number is refused
    before anything is made; then each variable by its shape, before it takes memory.

    Args:
        model_dir: the directory of the checkpoint.
        options: of the model.

    Raises:
        ValueError: now, the checkpoint is damaged, or no model of its size
            has such a number among its options; or later, the model has many
            more variables or weights than were saved.
    """
    with _explained(model_dir):
        shapes = _open(model_dir).get_variable_to_shape_map().values()
    left = {
        'weights': 2 * sum(math.prod(shape) for shape in shapes) + _FREE_WEIGHTS,
        'variables': 2 * len(shapes) + _FREE_VARIABLES,
    }
    too_large = f'its options make a model far larger than what {model_dir} holds'
    largest = max([_FREE_NUMBER, len(shapes), *itertools.chain(*shapes)])
    if any(number > largest for number in _integers(options)):
        raise ValueError(too_large)

    def take(kind: str, number: int = 1) -> None:
        left[kind] -= number
        if left[kind] < 0:
            raise ValueError(too_large)

    def create(next_creator: Callable[..., tf.Variable], **kwargs: Any) -> tf.Variable:
        take('variables')
        take('weights', tf.TensorShape(kwargs.get('shape')).num_elements() or 0)
        return next_creator(**kwargs)

    with tf.variable_creator_scope(create):
        yield


def read(model_dir: str, model: tf.keras.Model) -> List[List[int]]:
    """Copies weights into a built model, by position, if all shapes agree.

    Returns:
        The shapes of the stored variables.

    Raises:
        ValueError: the files are damaged.
    """
    with _explained(model_dir):
        reader = _open(model_dir)
        keys = _variable_keys(reader)
        shapes = reader.get_variable_to_shape_map()
        stored = [list(shapes[key]) for key in keys]
        if stored == [list(v.shape) for v in model.variables]:
            for key, variable in zip(keys, model.variables):
                variable.assign(reader.get_tensor(key))
    return stored


def digest(model: tf.keras.Model) -> str:
    """Returns a hash of all variables, their types and shapes."""
    hashed = hashlib.sha256()
    for variable in model.variables:
        array = np.ascontiguousarray(variable)
        hashed.update(f'{array.dtype.str}{list(variable.shape)}'.encode())
        hashed.update(array.data)
    return hashed.hexdigest()


def _integers(value: Any) -> Iterator[int]:
    if isinstance(value, (dict, list)):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _integers(one)
    elif isinstance(value, int):
        yield value


def _open(model_dir: str) -> Any:
    return tf.train.load_checkpoint(run_files.weights_path(model_dir))


@contextlib.contextmanager
def _explained(model_dir: str) -> Iterator[None]:
    """Makes errors of reading weights say whose."""
    try:
        yield
    except (
        tf.errors.OpError,
        message.DecodeError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # the reader's choice differs with the damage
        raise ValueError(f'{model_dir}: the weights cannot be read: {error}') from None


def _variable_keys(reader: Any) -> List[str]:
    """Returns the keys of a saved model's variables, in their order.

    A key is the shortest path to a variable: `variables/3/...` for that of a
    layer, but `scale/...` for one that the model itself keeps in an attribute.
    The checkpoint's table of objects says which is number 3.
    """
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    if reader.has_tensor(_OBJECT_GRAPH):
        graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))

    def children(number: int) -> Dict[str, int]:
        return {c.local_name: c.node_id for c in graph.nodes[number].children}

    variables = children(0).get('variables') if graph.nodes else None
    if variables is None:
        return []
    by_number = children(variables)
    return [
        graph.nodes[by_number[str(i)]].attributes[0].checkpoint_key
        for i in range(len(by_number))
    ]
