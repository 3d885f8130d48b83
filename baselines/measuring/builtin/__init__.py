"""Programs to collect from where users have none of their own yet.

program = load('convnet_batch_4')
"""

from typing import Any, Callable, Dict, Tuple

from baselines.measuring import programs as programs_lib
from baselines.measuring.builtin import dense
from baselines.measuring.builtin import images
from baselines.measuring.builtin import numeric


def table() -> Dict[str, Tuple[Callable[..., Any], Dict[str, int]]]:
    """Returns name -> (function that makes the program, its arguments).

    What it makes: a function of arrays, and the shape of each; a trailing 'int' is
    of integers.
    """
    return {**images.TABLE, **dense.TABLE, **numeric.TABLE}


def load(name: str) -> programs_lib.Program:
    """Returns a built-in program.

    Raises:
        ValueError: there is none of that name.
    """
    found = table().get(name)
    if found is None:
        raise ValueError(
            f'no built-in program {name!r}; there are {", ".join(table())}'
        )
    import tensorflow as tf

    make, arguments = found
    function, shapes = make(tf, **arguments)
    signature = []
    for shape in shapes:
        whole = shape[-1:] == ('int',)
        kind = tf.int32 if whole else tf.float32
        signature.append(tf.TensorSpec(shape[:-1] if whole else shape, kind))
    traced = tf.function(function, input_signature=signature)
    return programs_lib.from_function(name, traced, name)
