"""An optimised module put together again, with other kernels in their places.

    optimised = HloModuleProto.FromString(session.optimise(original))
    [kernel], _ = kernels.cut(optimised, 'program')
    tiled = tiling.tile(tiling.Plan(kernel.module), tiling.Tiles((32, 64), ()))
    module = assemble(optimised, [(kernel, tiled.module)])

The result is a module that XLA compiles as any other: it fuses again what was fused,
and gives arrays their layouts again.  A kernel works on arrays as their bytes lie, so
it is called between transposes where a layout is not row-major.
"""

from typing import Any, Dict, Sequence, Set, Tuple

from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import programs


def assemble(optimised: Any, replaced: Sequence[Tuple[kernels.Kernel, Any]]) -> Any:
    """Returns a module that computes what an optimised one does, with other kernels.

    Args:
        optimised: the HloModuleProto that the kernels were cut from.
        replaced: kernels, and an HloModuleProto for each with the same parameters and
            result; a kernel is replaced at all of its places.

    Returns:
        An HloModuleProto with row-major arrays and calls in place of fusions.

    Raises:
        kernels.Unsupported: XLA made something of it that depends on layouts.
    """
    module = _Assembly(optimised)
    for kernel, other in replaced:
        module.replace(kernel, other)
    entry, root = module.rewritten(kernels.entry_of(optimised))
    return module.finish(entry, root)


class _Assembly(building.Module):
    """Writes the computations of a module anew, all arrays row-major."""

    def __init__(self, optimised: Any):
        super().__init__(optimised.name, optimised)
        # Of an instruction that a call takes the place of: what goes into the call,
        # and the id of the computation that it calls.
        self._calls: Dict[int, Tuple[Sequence[Any], int]] = {}
        self._gone: Set[int] = set()

    def replace(self, kernel: kernels.Kernel, other: Any) -> None:
        """Puts calls of a module in the places of a kernel."""
        entry = self.imported(other)
        for place in kernel.places:
            self._calls[place.pieces[-1].id] = place.operands, entry
            self._gone.update(piece.id for piece in place.pieces[:-1])

    def called(self, number: int) -> int:
        """Rewrites a computation of the source once; returns its id here."""
        if number not in self._copied:
            computation, root = self.rewritten(self._callees[number])
            self._copied[number] = computation.finish(root)
        return self._copied[number]

    def rewritten(self, source: Any) -> Tuple[building.Computation, Any]:
        """Returns a computation and its root, to be finished."""
        computation = self.computation(source.name)
        values: Dict[int, Any] = {}
        parameters = [i for i in source.instructions if i.opcode == 'parameter']
        for value in sorted(parameters, key=lambda i: i.parameter_number):
            values[value.id] = computation.parameter(_row_major(value.shape))
        shapes = {i.id: i.shape for i in source.instructions}
        for value in source.instructions:
            if value.id not in values and value.id not in self._gone:
                values[value.id] = self._write(computation, value, values, shapes)
        return computation, values[source.root_id]

    def _write(
        self,
        computation: building.Computation,
        value: Any,
        values: Dict[int, Any],
        shapes: Dict[int, Any],
    ) -> Any:
        """Adds an instruction.

        Args:
            computation: where it goes.
            value: the instruction as XLA wrote it.
            values: those that were added before it, by the ids that XLA gave them.
            shapes: of all instructions as XLA wrote them.
        """
        if value.id in self._calls:
            sources, entry = self._calls[value.id]
            operands = []
            for source in sources:
                if source.id not in values:  # a large constant inside of the fusion
                    values[source.id] = _constant(computation, source)
                operands.append(_physical(computation, values[source.id], source.shape))
            shape = _physical_shape(value.shape)
            made = computation.add('call', shape, operands, calls=[entry])
            return _logical(computation, made, value.shape)
        if value.opcode == 'constant':
            return _constant(computation, value)
        operands = [values[number] for number in value.operand_ids]
        if value.opcode == 'bitcast':
            before = shapes[value.operand_ids[0]]
            if before.element_type != value.shape.element_type:
                raise kernels.Unsupported('bitcast of types')
            source = _physical(computation, operands[0], before)
            made = computation.add('reshape', _physical_shape(value.shape), [source])
            return _logical(computation, made, value.shape)
        target = value.custom_call_target
        if value.opcode == 'custom-call' and target not in programs.CUSTOM_CALLS:
            # What it takes may hang on layouts, or on its backend_config.
            raise kernels.Unsupported(f'XLA puts a call of {target} into it')
        opcode = 'call' if value.opcode == 'fusion' else value.opcode
        made = computation.add(opcode, _row_major(value.shape), operands, like=value)
        made.ClearField('fusion_kind')
        return made


def _constant(computation: building.Computation, value: Any) -> Any:
    """Adds a constant; the bytes of its literal lie as the literal's layout says."""
    if not building.is_array(value.shape):
        return computation.add('constant', value.shape, like=value)
    shape = _physical_shape(value.literal.shape)
    made = computation.add('constant', shape, like=value)
    made.literal.shape.CopyFrom(shape)
    return _logical(computation, made, value.literal.shape)


def _physical_shape(shape: Any) -> Any:
    """Returns a row-major shape, the dimensions in the order of an array's bytes."""
    dims = [shape.dimensions[d] for d in kernels.major_to_minor(shape)]
    return building.shape_of(shape.element_type, dims)


def _physical(computation: building.Computation, value: Any, shape: Any) -> Any:
    """Adds the transpose to an array as its bytes lie in a shape."""
    return computation.transposed(value, kernels.major_to_minor(shape))


def _logical(computation: building.Computation, value: Any, shape: Any) -> Any:
    """Adds the transpose from an array as its bytes lie in a shape."""
    order = kernels.major_to_minor(shape)
    return computation.transposed(value, kernels.inverse(order))


def _row_major(shape: Any) -> Any:
    """Returns a shape whose array, or arrays of a tuple, are row-major."""
    copy = type(shape).FromString(shape.SerializeToString())
    del copy.tuple_shapes[:]
    copy.tuple_shapes.extend(map(_row_major, shape.tuple_shapes))
    if copy.HasField('layout'):
        copy.layout.Clear()
        copy.layout.minor_to_major.extend(reversed(range(len(copy.dimensions))))
    return copy
