"""Assembles an optimised module from its kernels, some of them tiled.

    optimised = HloModuleProto.FromString(session.optimise(original))
    [kernel], _ = cutting.cut(optimised, 'program')
    plan, tiles = rewriting.Plan(kernel.module), rewriting.Tiles((32, 64), ())
    module = assemble(optimised, [(kernel, rewriting.tile(plan, tiles).module)])

XLA compiles the result as any other module: it fuses operations and chooses layouts
again.  A kernel takes arrays with dimensions in the order of their layouts, so it is
called between transposes where a layout is not row-major.
"""

from __future__ import annotations

from collections.abc import Sequence

from baselines.hlo import protos
from tpugraphs.kernels import building
from tpugraphs.kernels import cutting
from tpugraphs.kernels import removal


def assemble(
    optimised: protos.HloModuleProto,
    replaced: Sequence[tuple[cutting.Kernel, protos.HloModuleProto]],
) -> protos.HloModuleProto:
    """Replaces kernels of an optimised module by others that compute the same.

    Args:
        optimised: the HloModuleProto that the kernels were cut from.
        replaced: pairs of a kernel and an HloModuleProto with equal parameters and
            result, which replaces the kernel at all of its places.

    Returns:
        An HloModuleProto with row-major arrays and calls instead of fusions.

    Raises:
        cutting.Unsupported: it has an operation that depends on layouts.
    """
    module = _Assembly(optimised)
    for kernel, other in replaced:
        module.replace(kernel, other)
    entry, root = module.rewrite(cutting.entry_of(optimised))
    return module.finish(entry, root)


class _Assembly(building.Module):
    """Rewrites the computations of a module so that all arrays are row-major."""

    def __init__(self, optimised: protos.HloModuleProto):
        super().__init__(optimised.name, optimised)
        # id of an instruction that a call replaces -> operands of the call, and id of
        # the computation that it calls
        self._calls: dict[int, tuple[Sequence[protos.HloInstructionProto], int]] = {}
        self._removed: set[int] = set()  # ids of other instructions of replaced kernels

    def replace(self, kernel: cutting.Kernel, other: protos.HloModuleProto) -> None:
        """Puts calls of a module in the places of a kernel."""
        entry = self.copy_entry(other)
        for place in kernel.places:
            # The last piece becomes the call; the others are not needed any more.
            self._calls[place.pieces[-1].id] = place.operands, entry
            self._removed.update(piece.id for piece in place.pieces[:-1])

    def copy_called(self, number: int) -> int:
        """Rewrites a computation of the source, by its id, once; returns the new id."""
        if number not in self._copied:
            computation, root = self.rewrite(self._callees[number])
            self._copied[number] = computation.finish(root)
        return self._copied[number]

    def rewrite(
        self, source: protos.HloComputationProto
    ) -> tuple[building.Computation, protos.HloInstructionProto]:
        """Rewrites a computation; returns the unfinished result and its root."""
        computation = self.computation(source.name)
        values: dict[int, protos.HloInstructionProto] = {}
        parameters = [i for i in source.instructions if i.opcode == 'parameter']
        for value in sorted(parameters, key=lambda i: i.parameter_number):
            values[value.id] = computation.parameter(_row_major(value.shape))
        shapes = {i.id: i.shape for i in source.instructions}
        for value in source.instructions:
            if value.id not in values and value.id not in self._removed:
                values[value.id] = self._write(computation, value, values, shapes)
        return computation, values[source.root_id]

    def _write(
        self,
        computation: building.Computation,
        value: protos.HloInstructionProto,
        values: dict[int, protos.HloInstructionProto],
        shapes: dict[int, protos.ShapeProto],
    ) -> protos.HloInstructionProto:
        """Rewrites an instruction; `values` are the rewritten ones, by the old ids."""
        if value.id in self._calls:
            sources, entry = self._calls[value.id]
            operands = []
            for source in sources:
                if source.id not in values:  # a large constant inside of the fusion
                    values[source.id] = _add_constant(computation, source)
                operands.append(
                    cutting.to_physical(computation, values[source.id], source.shape)
                )
            shape = cutting.physical_shape(value.shape)
            result = computation.add('call', shape, operands, calls=[entry])
            return cutting.to_logical(computation, result, value.shape)
        if value.opcode == 'constant':
            return _add_constant(computation, value)
        operands = [values[number] for number in value.operand_ids]
        if value.opcode == 'bitcast':
            # A bitcast keeps bytes: in the physical order it is a reshape.
            before = shapes[value.operand_ids[0]]
            if before.element_type != value.shape.element_type:
                raise cutting.Unsupported('bitcast of types')
            source = cutting.to_physical(computation, operands[0], before)
            result = computation.add(
                'reshape', cutting.physical_shape(value.shape), [source]
            )
            return cutting.to_logical(computation, result, value.shape)
        target = value.custom_call_target
        if value.opcode == 'custom-call' and target != removal.LAYOUT:
            # Its operands may depend on layouts, or on its backend_config.
            raise cutting.Unsupported(f'XLA puts a call of {target} into it')
        opcode = 'call' if value.opcode == 'fusion' else value.opcode
        result = computation.add(opcode, _row_major(value.shape), operands, like=value)
        result.ClearField('fusion_kind')
        return result


def _add_constant(
    computation: building.Computation, value: protos.HloInstructionProto
) -> protos.HloInstructionProto:
    """Adds a constant, whose literal has its bytes in the order of its own layout."""
    if not building.is_array(value.shape):
        return computation.add('constant', value.shape, like=value)
    shape = cutting.physical_shape(value.literal.shape)
    constant = computation.add('constant', shape, like=value)
    constant.literal.shape.CopyFrom(shape)
    return cutting.to_logical(computation, constant, value.literal.shape)


def _row_major(shape: protos.ShapeProto) -> protos.ShapeProto:
    """Returns a copy of a shape in which all arrays are row-major."""
    copy = type(shape).FromString(shape.SerializeToString())
    del copy.tuple_shapes[:]
    copy.tuple_shapes.extend(map(_row_major, shape.tuple_shapes))
    if copy.HasField('layout'):
        copy.layout.Clear()
        copy.layout.minor_to_major.extend(reversed(range(len(copy.dimensions))))
    return copy
