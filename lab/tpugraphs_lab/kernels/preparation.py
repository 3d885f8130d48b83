"""Prepares and optimises programs for XLA; cuts out what cannot run here.

program = load('my_program.py:step')
optimised = optimise(program, measure.optimise)  # kernels are cut from it
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
import dataclasses
import re

from baselines.core import text
from baselines.hlo import protos
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import removal
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import reader


def load(source: object, *args: object, name: str = '') -> reader.Program:
    """Reads a program that can be compiled; arguments are those of `read_program`.

    Raises:
        ValueError: see `read_program` and `clean`.
        OSError: a file cannot be read.
    """
    return prepare(reader.read_program(source, *args, name=name))


def prepare(program: reader.Program) -> reader.Program:
    """Returns a copy of a program whose module is passed through `clean`.

    What cannot run here is cut out of a module that XLA is to optimise, and counted
    in any case.
    """
    module = protos.HloModuleProto()
    module.CopyFrom(program.module)
    removal.drop_placements(module)
    counts = program.cut_out
    if not counts:
        counts = removal.counts(module)
        if counts and not is_optimised(module):
            removal.cut_out(module)
    module = clean(module, program.source)
    return dataclasses.replace(program, module=module, cut_out=counts)


def clean(module: protos.HloModuleProto, where: str) -> protos.HloModuleProto:
    """Removes from a module the fields that XLA may abort on, and numbers in names.

    TensorFlow numbers its functions by their order of tracing.  XLA sorts by names,
    so kernels would depend on the functions that were traced before.

    Raises:
        ValueError: a parameter is no array of fixed size, or nothing is computed.
    """
    for place, computation in enumerate(module.computations):
        entry = computation.id == module.entry_computation_id
        # The place keeps names distinct, and does not depend on other functions.
        computation.name = f'{re.sub("[0-9.]+", "", computation.name)}.{place}'
        if entry:
            module.name = module.entry_computation_name = computation.name
        for instruction in computation.instructions:
            building.clear_fields(instruction)
            is_argument = entry and instruction.opcode == 'parameter'
            if is_argument and not building.is_array(instruction.shape):
                shown = building.shape_text(instruction.shape)
                raise ValueError(
                    f'{where}: parameter %{text.printable(instruction.name)} is '
                    f'{shown}; '
                    'kernels take arrays of numbers, of fixed size'
                )
    result = cutting.root_of(cutting.entry_of(module)).shape
    if result.element_type == building.TUPLE and not result.tuple_shapes:
        raise ValueError(f'{where}: computes nothing; return a tensor')
    fresh = building.fresh_ids(module)
    for computation in module.computations:
        _widen_products(computation, fresh)
    for field in ('input_output_alias', 'id', 'schedule', 'stack_frame_index'):
        module.ClearField(field)
    building.renumber(module)
    return module


def is_optimised(module: protos.HloModuleProto) -> bool:
    """Returns whether a module is optimised: has fusions, bitcasts or XLA's own tiles.

    XLA takes neither fusions nor bitcasts again.
    """
    return any(
        instruction.opcode in ('fusion', 'bitcast') or tpu_tiles.own_tiles(instruction)
        for computation in module.computations
        for instruction in computation.instructions
    )


def optimise(
    program: reader.Program, optimiser: Callable[[bytes], bytes]
) -> protos.HloModuleProto:
    """Returns a program's module after XLA's passes.

    An optimised module is returned unchanged: jaxlib takes no fusions, but its kernels
    can be measured.

    Args:
        optimiser: returns a serialised module after XLA's passes, or raises ValueError.

    Raises:
        ValueError: jaxlib is needed and not installed, or XLA cannot compile the
            program.
    """
    if is_optimised(program.module):
        return program.module
    purpose = f'{program.source}: cutting a program that XLA has not optimised yet'
    extras.require(purpose)
    module = prepare(program).module
    try:
        content = optimiser(module.SerializeToString())
    except ValueError as error:
        name = text.printable(program.name)
        raise ValueError(f'XLA cannot compile {name}: {error}') from error
    return protos.HloModuleProto.FromString(content)


def _widen_products(
    computation: protos.HloComputationProto, fresh: Iterator[int]
) -> None:
    """Makes products and convolutions of narrow floats accumulate in float32.

    XLA on CPUs does so with most of them, and refuses the whole module for others.

    Args:
        fresh: ids that are unique in the module, not only in the computation.
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
    float32 = building.shape_of('f32', []).element_type
    written: list[protos.HloInstructionProto] = []
    narrow_ids = {i.id for i in narrow}
    for instruction in computation.instructions:
        if instruction.id not in narrow_ids:
            written.append(instruction)
            continue
        for place, number in enumerate(instruction.operand_ids):
            written.append(_convert(by_id[number], next(fresh), float32))
            instruction.operand_ids[place] = written[-1].id
        # The convert back takes the instruction's id, so that users need no change.
        narrow_type = instruction.shape.element_type
        product = type(instruction).FromString(instruction.SerializeToString())
        product.id, product.shape.element_type = next(fresh), float32
        product.name = f'{product.opcode}.{product.id}'
        back = _convert(product, instruction.id, narrow_type)
        written += [product, back]
    building.set_repeated(computation.instructions, written)


def _convert(
    value: protos.HloInstructionProto, number: int, kind: int
) -> protos.HloInstructionProto:
    """Returns a convert of a value to an element type, with an id."""
    convert = protos.HloInstructionProto(
        id=number, name=f'convert.{number}', opcode='convert', operand_ids=[value.id]
    )
    convert.shape.CopyFrom(value.shape)
    convert.shape.element_type = kind
    return convert
