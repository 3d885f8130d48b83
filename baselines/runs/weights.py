"""Reads a run's weights as a plain checkpoint, which is untrusted.

The stored graph is never executed, and no model is made that is much larger than
the saved one.
"""

from collections.abc import Iterator
import contextlib
import itertools
import math
import os
from typing import TYPE_CHECKING, Any

from google.protobuf import message
import numpy as np

from baselines.core import files
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.runs import run_files

if TYPE_CHECKING:
    import tensorflow as tf

_OBJECT_GRAPH = '_CHECKPOINTABLE_OBJECT_GRAPH'
# Weights and variables that a model may have beyond its checkpoint, so that small
# differences get their own error message.
_FREE_WEIGHTS = 1 << 20
_FREE_VARIABLES = 100
# Numbers in a model's options are widths, counts of layers, or settings up to this
# value; building this many layers takes seconds.
_FREE_NUMBER = 4096
_MOST_HASHED = 1 << 24  # weights that are read although they do not fit the model


def compute_size_limit(model_dir: str, options: text.JsonObject) -> registry.Size:
    """Returns the size that a model of a run may have.

    The model's options are untrusted.  Widths occur in shapes of the checkpoint, and
    each layer has variables there, so larger numbers are refused before anything is
    built; `registry.limit_size` refuses variables before memory is allocated.

    Raises:
        ValueError: the checkpoint is damaged, or no model of its size has such a
            number among its options.
    """
    with _open_checkpoint(model_dir) as reader:
        shapes = reader.get_variable_to_shape_map().values()
        numbers = [*_list_integers(options)]
    largest = max([_FREE_NUMBER, len(shapes), *itertools.chain(*shapes)])
    if max(numbers, default=0) > largest:
        raise ValueError(f'its options make a {registry.TOO_LARGE} {model_dir} holds')
    weights = 2 * sum(map(math.prod, shapes)) + _FREE_WEIGHTS
    return registry.Size(model_dir, 2 * len(shapes) + _FREE_VARIABLES, weights)


def read_weights(run: run_files.RunFile, model: 'tf.keras.Model') -> None:
    """Copies a run's weights into a built model, by position.

    Args:
        model: an instance of its architecture, called once.

    Raises:
        ValueError: their number or shapes differ, the files are damaged, or they or
            the settings are not those that were saved together.
    """
    expected = [list(v.shape) for v in model.variables]
    with _open_checkpoint(run.model_dir) as reader:
        keys = _find_variable_keys(reader)
        shapes = reader.get_variable_to_shape_map()
        stored = [list(shapes[key]) for key in keys]
        is_read = stored == expected or sum(map(math.prod, stored)) <= _MOST_HASHED
        values = [np.asarray(reader.get_tensor(key)) for key in keys if is_read]
    has_digest = bool(run.digests)
    if has_digest and is_read:
        # Before shapes are compared: a run file of another directory has others.
        run.check_digest('weights', run_files.hash_weights(values))
    if stored != expected:
        raise ValueError(_describe_difference(run, stored, expected))
    for value, variable in zip(values, model.variables):
        variable.assign(value)
    import tensorflow as tf

    versions = run.info.get('versions')
    trained_with = versions.get('tensorflow') if isinstance(versions, dict) else None
    release = tf.__version__.split('.')[:2]
    if trained_with and str(trained_with).split('.')[:2] != release:
        text.note(
            f'{run.model_dir} was trained with TensorFlow '
            f'{text.printable(trained_with)}; here is {tf.__version__}'
        )
    if not has_digest:
        text.note(
            f'{run.model_dir}: its run file has no digest (the published code '
            'and older versions write none), so whether it belongs to these '
            'weights cannot be checked'
        )


def _list_integers(value: object) -> Iterator[int]:
    """Yields the integers in a JSON value at any depth."""
    if isinstance(value, (dict, list)):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _list_integers(element)
    elif isinstance(value, int):
        yield value


@contextlib.contextmanager
def _open_checkpoint(model_dir: str) -> Iterator[Any]:
    """Opens a checkpoint; turns errors into a ValueError that names the directory."""
    starting.start_tensorflow()
    import tensorflow as tf

    try:
        # TensorFlow would expand patterns in the path.
        with files.make_plain_path(model_dir) as folder:
            yield tf.train.load_checkpoint(os.path.join(folder, run_files.WEIGHTS))
    except (
        tf.errors.OpError,
        message.DecodeError,
        RuntimeError,
        LookupError,
        TypeError,
        ValueError,
    ) as error:  # the reader's choice differs with the damage
        reason = text.printable(error)
        raise ValueError(f'{model_dir}: the weights cannot be read: {reason}') from None


def _describe_difference(
    run: run_files.RunFile, stored: list[list[int]], expected: list[list[int]]
) -> str:
    """Describes how the shapes of stored variables and of a model's differ."""
    variables = text.count(len(stored), 'variable')
    content = f'{variables} where the model has {len(expected)}'
    if len(stored) == len(expected):
        i = next(i for i, (a, b) in enumerate(zip(stored, expected)) if a != b)
        content = f'variable {i} of shape {stored[i]} where the model has {expected[i]}'
    return (
        f'{run.model_dir} holds {content}: it was trained as '
        f'{run.args["model"]} {run.args.get("model_kwargs_json", "{}")} with '
        'other code or data: pass its models.py as --models_file, or copy its run file'
    )


def _find_variable_keys(reader: Any) -> list[str]:
    """Returns the keys of a saved model's variables, in their order.

    A key is the shortest path to a variable: `variables/3/...` for that of a
    layer, but `scale/...` for one that the model itself keeps in an attribute.
    The checkpoint's table of objects says which is number 3.
    """
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    if reader.has_tensor(_OBJECT_GRAPH):
        graph.ParseFromString(reader.get_tensor(_OBJECT_GRAPH))

    def children(number: int) -> dict[str, int]:
        return {c.local_name: c.node_id for c in graph.nodes[number].children}

    variables = children(0).get('variables') if graph.nodes else None
    if variables is None:
        return []
    by_number = children(variables)
    return [
        graph.nodes[by_number[str(i)]].attributes[0].checkpoint_key
        for i in range(len(by_number))
    ]
