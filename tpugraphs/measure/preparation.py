"""Prepares and optimises programs for XLA; refuses those that call native code.

program = load('my_program.py:step')
optimised = optimise(program)  # kernels are cut from it
"""

import collections
import dataclasses
import re
from typing import Any, Dict, List, Optional

from baselines import text
from baselines.hlo import protos
from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import own_tiles
from tpugraphs.measure import session as session_lib
from tpugraphs.programs import extras
from tpugraphs.programs import reader

# Custom calls that XLA itself uses as annotations.
CUSTOM_CALLS = frozenset(
    ('LayoutConstraint', 'Sharding', 'SPMDFullToShardShape', 'SPMDShardToFullShape')
)
# Operations that exchange arrays with other devices.
COLLECTIVES = frozenset(
    'all-gather all-gather-start all-gather-done all-reduce all-reduce-start '
    'all-reduce-done all-to-all collective-broadcast collective-permute '
    'collective-permute-start collective-permute-done reduce-scatter send send-done '
    'recv recv-done'.split()
)


def load(source: Any, *args: Any, name: str = '') -> reader.Program:
    """Reads a program that can be compiled; arguments are as of `read_program`.

    Raises:
        ValueError: as of `read_program` and `clean`.
        OSError: a file cannot be read.
    """
    return prepare(reader.read_program(source, *args, name=name))


def prepare(program: reader.Program) -> reader.Program:
    """Returns a copy of a program whose module is passed through `clean`."""
    module = protos.protos().HloModuleProto()
    module.CopyFrom(program.module)
    return dataclasses.replace(program, module=clean(module, program.source))


def clean(module: Any, where: str) -> Any:
    """Removes from a module the fields that XLA may abort on, and numbers in names.

    TensorFlow numbers its functions by their order of tracing.  XLA sorts by names,
    so kernels would depend on the functions that were traced before.

    Raises:
        ValueError: a parameter is no array of fixed size and of one of
            `building.NUMPY_TYPES`, or a custom call is none of CUSTOM_CALLS.
    """
    for place, computation in enumerate(module.computations):
        entry = computation.id == module.entry_computation_id
        computation.name = f'{re.sub("[0-9.]+", "", computation.name)}.{place}'
        if entry:
            module.name = module.entry_computation_name = computation.name
        for instruction in computation.instructions:
            _check_custom_call(instruction, where)
            building.clear_fields(instruction)
            is_argument = entry and instruction.opcode == 'parameter'
            if is_argument and not building.is_array(instruction.shape):
                shown = building.shape_text(instruction.shape)
                raise ValueError(
                    f'{where}: parameter %{instruction.name} is {shown}; '
                    'programs to measure take arrays of fixed size'
                )
    result = kernels.root_of(kernels.entry_of(module)).shape
    if result.element_type == building.TUPLE and not result.tuple_shapes:
        raise ValueError(f'{where}: computes nothing; return a tensor')
    for computation in module.computations:
        _widen_products(module, computation)
    for field in ('input_output_alias', 'id', 'schedule', 'stack_frame_index'):
        module.ClearField(field)
    return module


def collectives(module: Any) -> Dict[str, int]:
    """Counts the collectives of a module by opcode."""
    return collections.Counter(
        instruction.opcode
        for computation in module.computations
        for instruction in computation.instructions
        if instruction.opcode in COLLECTIVES
    )


def is_optimised(module: Any) -> bool:
    """Tells whether a module is optimised: it has fusions or XLA's own tiles."""
    return any(
        instruction.opcode == 'fusion' or own_tiles.of(instruction)
        for computation in module.computations
        for instruction in computation.instructions
    )


def optimise(
    program: reader.Program, session: Optional[session_lib.Session] = None
) -> Any:
    """Returns a program's module after XLA's passes.

    An optimised module is returned as it is: jaxlib takes no fusions, but its kernels
    can be measured.

    Args:
        program: the program.
        session: compiles it as it is, from `prepare`; without one, a program of any
            origin is prepared and compiled in a session of its own.

    Raises:
        ValueError: jaxlib is needed and not installed; XLA cannot compile the program;
            or it has collectives, which need several devices.
    """
    if is_optimised(program.module):
        return program.module
    exchanged = collectives(program.module)
    if exchanged:
        raise ValueError(
            f'{program.name}: {text.most_common(exchanged)}: collectives need several '
            'devices; dump the program where it has them, after optimisations'
        )
    if session is None:
        purpose = f'{program.source}: cutting a program that XLA has not optimised yet'
        extras.require(purpose)
        with session_lib.Session() as session:
            return optimise(prepare(program), session)
    try:
        content = session.optimise(program.module.SerializeToString())
    except session_lib.WorkerError as error:
        raise ValueError(f'XLA cannot compile {program.name}: {error}') from error
    return protos.protos().HloModuleProto.FromString(content)


def _check_custom_call(instruction: Any, where: str) -> None:
    """Raises ValueError for a custom call that is none of CUSTOM_CALLS."""
    target = instruction.custom_call_target
    if instruction.opcode == 'custom-call' and target not in CUSTOM_CALLS:
        advice = f'allowed are {", ".join(sorted(CUSTOM_CALLS))}'
        if target.startswith('__'):  # one that XLA's passes put there
            advice = (
                "give the program as it was before XLA's passes: with XLA_FLAGS="
                "'--xla_dump_to=FOLDER --xla_dump_hlo_as_proto' XLA writes "
                '*.before_optimizations.hlo.pb'
            )
        raise ValueError(
            f'{where}: %{instruction.name} is a custom call of {target!r}, which runs '
            f'native code; {advice}'
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
    narrow_ids = {i.id for i in narrow}
    for instruction in computation.instructions:
        if instruction.id not in narrow_ids:
            written.append(instruction)
            continue
        for place, number in enumerate(instruction.operand_ids):
            written.append(_convert(by_id[number], fresh, float32))
            instruction.operand_ids[place] = fresh
            fresh += 1
        # The convert back takes the instruction's id, so that users need no change.
        narrow_type = instruction.shape.element_type
        product = type(instruction).FromString(instruction.SerializeToString())
        product.id, product.shape.element_type = fresh, float32
        product.name = f'{product.opcode}.{fresh}'
        fresh += 1
        back = _convert(product, instruction.id, narrow_type)
        written += [product, back]
    written = [type(i).FromString(i.SerializeToString()) for i in written]
    del computation.instructions[:]
    computation.instructions.extend(written)


def _convert(value: Any, number: int, kind: int) -> Any:
    """Returns a convert of a value to an element type, with an id."""
    convert = protos.protos().HloInstructionProto(
        id=number, name=f'convert.{number}', opcode='convert', operand_ids=[value.id]
    )
    convert.shape.CopyFrom(value.shape)
    convert.shape.element_type = kind
    return convert
