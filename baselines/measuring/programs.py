"""Programs to measure: TensorFlow functions, HLO files, the built-in set."""

import dataclasses
import importlib.util
import os
import re
import sys
from typing import Any

from google.protobuf import message

from baselines import files
from baselines.hlo import protos
from baselines.hlo import tensorflow_functions
from baselines.measuring import building

_SIGNATURE = 'input_signature'


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """A program before XLA's passes."""

    name: str  # letters, digits and `_`; the names of its kernels begin with it
    module: Any  # its HloModuleProto


def load(source: str) -> Program:
    """Returns the program that `FILE.py:FUNCTION` or `FILE.pb` names.

    Raises:
        ValueError: there is no such function, it has no input signature, or
            XLA cannot compile it; the file holds no HloModuleProto.
        OSError: the file cannot be read.
    """
    path, _, function = source.rpartition(':')
    if path.endswith('.py'):
        return _from_python(files.expand(path), function)
    if source.endswith('.py'):
        raise ValueError(f'{source}: which function? say {source}:FUNCTION')
    return _from_proto(files.expand(source))


def from_function(name: str, function: Any, where: str) -> Program:
    """Returns a tf.function as a program; errors as of `load`, about `where`."""
    import tensorflow as tf

    signature = getattr(function, _SIGNATURE, None)
    if signature is None:
        raise ValueError(
            f'{where} has no input signature; write '
            '@tf.function(input_signature=[tf.TensorSpec(...), ...])'
        )
    for spec in tf.nest.flatten(signature):
        if spec.shape.rank is None or None in spec.shape.as_list():
            raise ValueError(
                f'{where} has the dynamic shape {spec.shape}; XLA wants every '
                'size, so put numbers into the signature'
            )
    python = getattr(function, 'python_function', function)
    arguments = tf.nest.map_structure(
        lambda spec: tf.zeros(spec.shape, spec.dtype), list(signature)
    )
    try:
        module = tensorflow_functions.module_from_tf(python, *arguments)
    except ValueError as error:
        raise ValueError(f'{where}: {error}') from error
    return Program(_clean(name), cleaned(module, where))


def cleaned(module: Any, where: str) -> Any:
    """Returns a module without what XLA may abort on, and without counters.

    TensorFlow numbers what it traces; XLA sorts by names, so that the kernels
    would depend on what was traced before.

    Raises:
        ValueError: a parameter is no array of fixed size and known type; an operand
            is not there.
    """
    for place, computation in enumerate(module.computations):
        there = {instruction.id for instruction in computation.instructions}
        entry = computation.id == module.entry_computation_id
        computation.name = f'{re.sub("[0-9.]+", "", computation.name)}.{place}'
        if entry:
            module.name = module.entry_computation_name = computation.name
        for instruction in computation.instructions:
            building.plain(instruction)
            if not there.issuperset(instruction.operand_ids):
                raise ValueError(
                    f'{where}: an operand of %{instruction.name} is not there'
                )
            given = entry and instruction.opcode == 'parameter'
            if given and not building.is_array(instruction.shape):
                shown = building.words_of(instruction.shape)
                raise ValueError(
                    f'{where}: parameter %{instruction.name} is {shown}; '
                    'what can be measured takes arrays of fixed size'
                )
    module.ClearField('input_output_alias')
    module.ClearField('id')
    return module


def _from_python(path: str, function: str) -> Program:
    stem = os.path.splitext(os.path.basename(path))[0]
    files.open_regular(path).close()
    spec = importlib.util.spec_from_file_location(f'tpugraphs_user_{stem}', path)
    found = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)  # the file may import its neighbours
    try:
        spec.loader.exec_module(found)
    except Exception as error:
        raise ValueError(f'{path}: {type(error).__name__}: {error}') from error
    finally:
        sys.path.remove(folder)
    if not hasattr(found, function):
        there = sorted(n for n, v in vars(found).items() if hasattr(v, _SIGNATURE))
        raise ValueError(
            f'{path}:{function}: no such function; there: {", ".join(there) or "none"}'
        )
    name = f'{stem}_{function}'
    return from_function(name, getattr(found, function), f'{path}:{function}')


def _from_proto(path: str) -> Program:
    with files.open_regular(path) as stream:
        content = stream.read()
    try:
        module = protos.protos().HloModuleProto.FromString(content)
    except message.DecodeError:
        module = None
    numbers = [c.id for c in module.computations] if module is not None else []
    if not numbers or module.entry_computation_id not in numbers:
        raise ValueError(f'{path}: not an HloModuleProto')
    stem = os.path.splitext(os.path.basename(path))[0]
    return Program(_clean(stem), cleaned(module, path))


def _clean(name: str) -> str:
    return re.sub(r'[^A-Za-z0-9_]', '_', name)
