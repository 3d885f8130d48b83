"""An optimised module put together again, with other kernels in their places.

    optimised = HloModuleProto.FromString(session.optimise(original))
    found, _ = kernels.cut(optimised, 'program')
    tiled = tiling.tile(tiling.Plan(found[0].module), tiling.Tiles((32, 64), ()))
    module = assemble(optimised, [(found[0], tiled.module)])

The result is a module that XLA compiles as any other: it fuses again what was fused,
and gives arrays their layouts again.  A kernel works on arrays as their bytes lie, so
it is called between transposes where a layout is not row-major.
"""

from typing import Any, Dict, List, Sequence, Set, Tuple

from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import programs

# Fields of a module that tell of the compilation it came from.
_COMPILED = ('schedule', 'input_output_alias', 'buffer_donor', 'id', 'is_dynamic')


def assemble(optimised: Any, replaced: Sequence[Tuple[kernels.Kernel, Any]]) -> Any:
    """Returns a module that computes what an optimised one does, with other kernels.

    Args:
        optimised: the HloModuleProto that the kernels were cut from.
        replaced: kernels, and an HloModuleProto for each with the same parameters and
            result; a kernel is replaced at all of its places.

    Returns:
        An HloModuleProto with row-major arrays and calls in place of fusions.
    """
    return _Assembly(optimised, replaced).module


class _Assembly:
    """Copies a module, computation by computation."""

    def __init__(self, optimised: Any, replaced: Sequence[Tuple[kernels.Kernel, Any]]):
        self.module = type(optimised).FromString(optimised.SerializeToString())
        numbers = [c.id for c in self.module.computations]
        numbers += [i.id for c in self.module.computations for i in c.instructions]
        self._last = max(numbers)
        self._calls: Dict[int, Tuple[kernels.Place, int]] = {}
        self._gone: Set[int] = set()
        copied: List[Any] = []
        for kernel, module in replaced:
            entry = self._import(module, copied)
            for place in kernel.places:
                self._calls[place.pieces[-1].id] = place, entry
                self._gone.update(piece.id for piece in place.pieces[:-1])
        own = [self._rewritten(computation) for computation in optimised.computations]
        del self.module.computations[:]
        self.module.computations.extend([*copied, *own])  # callees before callers
        _drop_layouts_of_program(self.module.host_program_shape)
        for field in _COMPILED:
            if field in self.module.DESCRIPTOR.fields_by_name:
                self.module.ClearField(field)

    def _import(self, module: Any, copied: List[Any]) -> int:
        """Adds copies of a module's computations; returns the id of its entry's."""
        offset = self._last
        for computation in module.computations:
            copy = type(computation).FromString(computation.SerializeToString())
            copy.id += offset
            copy.root_id += offset
            copy.name = f'kernel.{copy.id}'
            for i in copy.instructions:
                i.id += offset
                i.name = f'{i.opcode}.{i.id}'
                i.operand_ids[:] = [number + offset for number in i.operand_ids]
                called = [number + offset for number in i.called_computation_ids]
                i.called_computation_ids[:] = called
                self._last = max(self._last, i.id, copy.id)
            copied.append(copy)
        return module.entry_computation_id + offset

    def _rewritten(self, computation: Any) -> Any:
        """Returns a computation with what was replaced, and without layouts."""
        copy = type(computation).FromString(computation.SerializeToString())
        del copy.instructions[:]
        values = {i.id: i for i in computation.instructions}
        for value in computation.instructions:
            if value.id in self._calls:
                place, entry = self._calls[value.id]
                self._call(copy, value, place, entry, values)
            elif value.opcode == 'bitcast':
                self._bitcast(copy, value, values[value.operand_ids[0]])
            elif value.opcode == 'constant':
                self._constant(copy, value, value.id)
            elif value.opcode == 'custom-call' and (
                value.custom_call_target not in programs.CUSTOM_CALLS
            ):
                # What it takes may hang on layouts, or on its backend_config.
                raise kernels.Unsupported(
                    f'XLA puts a call of {value.custom_call_target} into it'
                )
            elif value.id not in self._gone:
                written = copy.instructions.add()
                written.CopyFrom(value)
                building.plain(written)
                _drop_layouts(written.shape)
                if value.opcode == 'fusion':
                    written.opcode = 'call'
                    written.name = f'call.{value.id}'
                    written.ClearField('fusion_kind')
        _drop_layouts_of_program(copy.program_shape)
        return copy

    def _call(
        self,
        computation: Any,
        value: Any,
        place: kernels.Place,
        entry: int,
        values: Dict[int, Any],
    ) -> None:
        """Writes a call of a kernel in place of an instruction."""
        operands = []
        for operand in place.operands:
            number = operand.id
            if number not in values:  # a large constant inside of the fusion
                number = self._next()
                self._constant(computation, operand, number)
            operands.append(self._physical(computation, number, operand.shape))
        dims = [value.shape.dimensions[d] for d in kernels.major_to_minor(value.shape)]
        made = self._add(computation, 'call', value.shape, dims, operands)
        made.called_computation_ids.append(entry)
        self._logical(computation, made, value)

    def _bitcast(self, computation: Any, value: Any, operand: Any) -> None:
        """Writes what a bitcast does to an array: the same bytes, other dimensions.

        Raises:
            kernels.Unsupported: it changes the type.
        """
        if operand.shape.element_type != value.shape.element_type:
            raise kernels.Unsupported('bitcast of types')
        source = self._physical(computation, operand.id, operand.shape)
        dims = [value.shape.dimensions[d] for d in kernels.major_to_minor(value.shape)]
        made = self._add(computation, 'reshape', value.shape, dims, [source])
        self._logical(computation, made, value)

    def _constant(self, computation: Any, value: Any, number: int) -> None:
        """Writes a constant under an id; its literal's bytes lie as its layout says."""
        if not building.is_array(value.shape):
            computation.instructions.add().CopyFrom(value)
            return
        order = kernels.major_to_minor(value.literal.shape)
        dims = [value.shape.dimensions[d] for d in order]
        made = self._add(computation, 'constant', value.shape, dims, [])
        made.literal.CopyFrom(value.literal)
        made.literal.shape.CopyFrom(made.shape)
        self._turned(computation, made, kernels.inverse(order), number)

    def _physical(self, computation: Any, number: int, shape: Any) -> int:
        """Returns the id of an array with its dimensions in the order of its bytes."""
        order = kernels.major_to_minor(shape)
        if order == sorted(order):
            return number
        dims = [shape.dimensions[d] for d in order]
        made = self._add(computation, 'transpose', shape, dims, [number])
        made.dimensions.extend(order)
        return made.id

    def _logical(self, computation: Any, made: Any, value: Any) -> None:
        """Gives the last instruction, an array as its bytes lie, a value's id."""
        order = kernels.inverse(kernels.major_to_minor(value.shape))
        self._turned(computation, made, order, value.id)

    def _turned(
        self, computation: Any, made: Any, order: Sequence[int], number: int
    ) -> None:
        """Gives an instruction, transposed if need be, an id."""
        if order != sorted(order):
            dims = [made.shape.dimensions[d] for d in order]
            source = made.id
            made = self._add(computation, 'transpose', made.shape, dims, [source])
            made.dimensions.extend(order)
        made.id, made.name = number, f'{made.opcode}.{number}'

    def _add(
        self,
        computation: Any,
        opcode: str,
        like: Any,
        dims: Sequence[int],
        operands: Sequence[int],
    ) -> Any:
        """Adds an instruction of the element type of a shape."""
        number = self._next()
        made = computation.instructions.add(
            id=number, name=f'{opcode}.{number}', opcode=opcode, operand_ids=operands
        )
        made.shape.CopyFrom(building.shape_of(like.element_type, dims))
        return made

    def _next(self) -> int:
        self._last += 1
        return self._last


def _drop_layouts(shape: Any) -> None:
    """Makes an array, or those of a tuple, row-major."""
    for part in shape.tuple_shapes:
        _drop_layouts(part)
    if shape.HasField('layout'):
        dims = list(reversed(range(len(shape.dimensions))))
        shape.layout.Clear()
        shape.layout.minor_to_major.extend(dims)


def _drop_layouts_of_program(shape: Any) -> None:
    for part in (*shape.parameters, shape.result):
        _drop_layouts(part)
