"""Programs to measure: TensorFlow functions, HLO files, the built-in set."""

import dataclasses
import importlib.util
import os
import re
import sys
from typing import Any, List

from google.protobuf import message

from baselines import files
from baselines.hlo import protos
from baselines.hlo import tensorflow_functions
from tpugraphs.measure import building

_SIGNATURE = 'input_signature'
# Custom calls that XLA itself takes for annotations.
CUSTOM_CALLS = frozenset(
    ('LayoutConstraint', 'Sharding', 'SPMDFullToShardShape', 'SPMDShardToFullShape')
)


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
    try:
        # Of the arguments nothing but shapes: none is allocated.
        module = tensorflow_functions.module_from_tf(python, *signature)
    except (Exception, SystemExit) as error:
        raise ValueError(f'{where}: {cause_of(error)}') from error
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
            _check_custom_call(instruction, where)
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
        if entry and _computes_nothing(computation):
            raise ValueError(f'{where}: computes nothing; return a tensor')
    for computation in module.computations:
        _widen_products(module, computation)
    module.ClearField('input_output_alias')
    module.ClearField('id')
    return module


def _computes_nothing(computation: Any) -> bool:
    """Whether a computation's result is a tuple of no arrays."""
    roots = [i.shape for i in computation.instructions if i.id == computation.root_id]
    return any(s.element_type == building.TUPLE and not s.tuple_shapes for s in roots)


def _check_custom_call(instruction: Any, where: str) -> None:
    """Raises ValueError for a custom call that would run code by its name."""
    target = instruction.custom_call_target
    if instruction.opcode == 'custom-call' and target not in CUSTOM_CALLS:
        raise ValueError(
            f'{where}: %{instruction.name} is a custom call of {target!r}, which runs '
            f'native code; allowed are {", ".join(sorted(CUSTOM_CALLS))}'
        )


def _widen_products(module: Any, computation: Any) -> None:
    """Lets products and convolutions of narrow floats add up in float32.

    XLA on CPUs does so with most of them, and refuses the whole module for others.
    """
    narrow = [
        i
        for i in computation.instructions
        if i.opcode in ('dot', 'convolution')
        and building.NUMPY_TYPES.get(i.shape.element_type) in ('bfloat16', 'float16')
    ]
    if not narrow:
        return
    by_id = {i.id: i for i in computation.instructions}
    fresh = 1 + max(i.id for c in module.computations for i in c.instructions)
    fresh = max(fresh, 1 + max(c.id for c in module.computations))
    float32 = building.shape_of('f32', []).element_type
    written: List[Any] = []
    kept = {i.id for i in narrow}
    for instruction in computation.instructions:
        if instruction.id not in kept:
            written.append(instruction)
            continue
        for place, number in enumerate(instruction.operand_ids):
            written.append(_converted(by_id[number], fresh, float32))
            instruction.operand_ids[place] = fresh
            fresh += 1
        # The instruction keeps its number for what it is converted back to.
        narrow_type = instruction.shape.element_type
        product = type(instruction).FromString(instruction.SerializeToString())
        product.id, product.shape.element_type = fresh, float32
        product.name = f'{product.opcode}.{fresh}'
        fresh += 1
        back = _converted(product, instruction.id, narrow_type)
        written += [product, back]
    written = [type(i).FromString(i.SerializeToString()) for i in written]
    del computation.instructions[:]
    computation.instructions.extend(written)


def _converted(value: Any, number: int, kind: int) -> Any:
    """Returns a convert of a value to an element type, with an id."""
    made = protos.protos().HloInstructionProto(
        id=number, name=f'convert.{number}', opcode='convert', operand_ids=[value.id]
    )
    made.shape.CopyFrom(value.shape)
    made.shape.element_type = kind
    return made


def _from_python(path: str, function: str) -> Program:
    stem = os.path.splitext(os.path.basename(path))[0]
    files.open_regular(path).close()
    spec = importlib.util.spec_from_file_location(f'tpugraphs_user_{stem}', path)
    found = importlib.util.module_from_spec(spec)
    folder = os.path.dirname(path)
    sys.path.insert(0, folder)  # the file may import its neighbours
    try:
        spec.loader.exec_module(found)
    except (Exception, SystemExit) as error:
        raise ValueError(f'{path}: {cause_of(error)}') from error
    finally:
        sys.path.remove(folder)
    if not hasattr(found, function):
        there = sorted(n for n, v in vars(found).items() if hasattr(v, _SIGNATURE))
        raise ValueError(
            f'{path}:{function}: no such function; there: {", ".join(there) or "none"}'
        )
    name = f'{stem}_{function}'
    return from_function(name, getattr(found, function), f'{path}:{function}')


def cause_of(error: BaseException) -> str:
    """Returns the last line of an error, with its type; TensorFlow adds many."""
    lines = str(error).strip().splitlines() or ['']
    if isinstance(error, ValueError) and len(lines) == 1:
        return lines[0]
    last = lines[-1].strip()
    name = type(error).__name__
    return last if re.match(r'\w+(Error|Exit): ', last) else f'{name}: {last}'


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
