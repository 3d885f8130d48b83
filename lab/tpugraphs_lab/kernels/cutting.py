"""Cuts an optimised module into kernels.

A kernel is a piece that XLA runs at once: a fusion, or an operation on its own.
Layouts become operations: every array of a kernel is row-major, and a copy between
layouts is a transpose, so that a kernel's module defines its result completely.
"""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence
import dataclasses
import hashlib
from typing import Any

from baselines.hlo import protos
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import removal

# An element of their results depends on the operands' elements at its place alone.
ELEMENTWISE = frozenset(
    'select clamp compare convert add subtract multiply divide maximum minimum '
    'power remainder and or not xor negate abs sign exponential '
    'exponential-minus-one log log-plus-one logistic tanh sqrt rsqrt cbrt '
    'cosine sine tan atan2 floor ceil round-nearest-afz round-nearest-even '
    'is-finite real imag complex popcnt clz shift-left shift-right-arithmetic '
    'shift-right-logical erf bitcast-convert reduce-precision copy'.split()
)
# Operations that run as a kernel of their own, outside of fusions.
_ALONE = ELEMENTWISE - {'bitcast-convert', 'reduce-precision'} | set(
    'dot convolution reduce reduce-window transpose broadcast concatenate pad '
    'slice gather reverse iota dynamic-slice reshape'.split()
)
# Operations that compute nothing.
_FREE = frozenset(
    'parameter constant get-tuple-element tuple bitcast after-all '
    'partition-id replica-id opt-barrier infeed outfeed'.split()
)
# Operations that call computations with kernels of their own.
_CALLERS = frozenset('while conditional call'.split())

_NO_KERNELS = _FREE | _CALLERS

# Operations that a kernel cannot have inside of a fusion.
_NOT_INSIDE = _CALLERS | {'fusion', 'custom-call', 'sort', 'scatter', 'map'}

# Constants of up to so many elements stay constants; larger ones become parameters.
_MOST_CONSTANT = 64


@dataclasses.dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel of a program, as a module of its own."""

    name: str  # graph id: `<program>_<hash>`
    program: str  # name of the program
    module: protos.HloModuleProto  # one entry computation, all row-major
    origin: str  # name of its last instruction in the optimised module


class Unsupported(Exception):
    """An instruction that kernels cannot contain; the text says why."""


def cut(
    module: protos.HloModuleProto, program: str, least_elements: int = 1
) -> tuple[list[Kernel], collections.Counter[str]]:
    """Cuts an optimised module into its distinct kernels, in the module's order.

    Args:
        module: an HloModuleProto after XLA's passes.
        program: the name that the kernels' names begin with.
        least_elements: kernels whose largest array is smaller are left out.

    Returns:
        The kernels, and the number of kernels left out, by reason.
    """
    by_name: dict[str, Kernel] = {}
    skipped: collections.Counter[str] = collections.Counter()
    bodies = {c.id: c for c in module.computations}
    for values, pieces in pieces_of(module):
        try:
            proto = _RowMajor(bodies).write_kernel(values, pieces)
        except Unsupported as reason:
            skipped[str(reason)] += 1
            continue
        entry = proto.computations[-1]
        largest = max(building.elements(i.shape) for i in entry.instructions)
        if largest < least_elements:
            skipped['too small to time'] += 1
            continue
        # Hashed without a name: equal kernels of two programs have one hash.
        content = proto.SerializeToString(deterministic=True)
        digest = hashlib.sha256(content).hexdigest()[:16]
        proto.name = program
        name = f'{program}_{digest}'
        # Equal kernels have one name.
        by_name.setdefault(name, Kernel(name, program, proto, pieces[-1].name))
    return list(by_name.values()), skipped


def pieces_of(
    module: protos.HloModuleProto,
) -> Iterator[
    tuple[dict[int, protos.HloInstructionProto], list[protos.HloInstructionProto]]
]:
    """Yields the instructions of the pieces that XLA runs at once, in order.

    Yields:
        All instructions of the computation, by id; and those of the piece, the last
        one its root.  Not every piece can become a kernel.
    """
    bodies = {c.id: c for c in module.computations}
    # Ids of the computations to go through; calls add theirs.
    numbers = [module.entry_computation_id]
    known = {*numbers}
    for number in numbers:
        values = {i.id: i for i in bodies[number].instructions}
        cut_out = {i.id for i in removal.outside(bodies[number])}
        for pieces in _group(bodies, values, bodies[number].root_id):
            if pieces[-1].id not in cut_out:
                yield values, pieces
        for value in values.values():
            if value.opcode in _CALLERS:
                called = dict.fromkeys(value.called_computation_ids)
                numbers += [callee for callee in called if callee not in known]
                known.update(called)


def entry_of(module: protos.HloModuleProto) -> protos.HloComputationProto:
    """Returns a module's entry computation."""
    return next(c for c in module.computations if c.id == module.entry_computation_id)


def inputs_of(module: protos.HloModuleProto) -> list[dict[str, Any]]:
    """Returns the arguments of `values.draw_array` for a module's parameters."""
    entry = entry_of(module)
    parameters = [i for i in entry.instructions if i.opcode == 'parameter']
    parameters.sort(key=lambda i: i.parameter_number)
    # Integers may index rows of another parameter.
    firsts = [n for p in parameters for n in p.shape.dimensions[:1]]
    return [
        {
            'type': building.NUMPY_TYPES[p.shape.element_type],
            'dims': list(p.shape.dimensions),
            'high': max([2, *firsts]),
        }
        for p in parameters
    ]


def root_of(computation: protos.HloComputationProto) -> protos.HloInstructionProto:
    """Returns a computation's root instruction."""
    return next(i for i in computation.instructions if i.id == computation.root_id)


def _group(
    bodies: dict[int, protos.HloComputationProto],
    values: dict[int, protos.HloInstructionProto],
    root_id: int,
) -> list[list[protos.HloInstructionProto]]:
    """Groups the instructions of a computation into kernels, roots last.

    A reduction joins the elementwise operation before it, and an elementwise
    operation the dot or convolution before it, if nothing else uses the value
    between them: XLA on CPUs runs them one by one, but tiles can pass from one to
    the other.
    """
    users: dict[int, list[protos.HloInstructionProto]] = collections.defaultdict(list)
    for instruction in values.values():
        for operand in set(instruction.operand_ids):
            users[operand].append(instruction)
    group: dict[int, list[protos.HloInstructionProto]] = {}
    for instruction in values.values():
        if instruction.opcode in _NO_KERNELS:
            continue
        group[instruction.id] = [instruction]
        if not instruction.operand_ids:
            continue
        # Only one other operation can join: the one that makes the first operand.
        first = values[instruction.operand_ids[0]]
        if len(group.get(first.id, ())) != 1:
            continue
        if first.id == root_id or len(users[first.id]) > 1:
            continue
        is_sum = instruction.opcode == 'reduce' and _is_pointwise(first, bodies)
        # What broadcasts a product would compute it once for each copy.
        same = list(first.shape.dimensions) == list(instruction.shape.dimensions)
        after_product = first.opcode in ('dot', 'convolution') and same
        if is_sum or after_product and _is_pointwise(instruction, bodies):
            group[instruction.id] = [*group.pop(first.id), instruction]
    return list(group.values())


def _is_pointwise(
    instruction: protos.HloInstructionProto,
    bodies: dict[int, protos.HloComputationProto],
) -> bool:
    """Returns whether an instruction, or all of a fusion, is elementwise."""
    if instruction.opcode != 'fusion':
        return instruction.opcode in ELEMENTWISE
    [number] = instruction.called_computation_ids
    free = {'parameter', 'constant', 'broadcast', 'bitcast'}
    return {i.opcode for i in bodies[number].instructions} <= ELEMENTWISE | free


def problem_of(piece: protos.HloInstructionProto) -> str:
    """Returns why an instruction cannot become a kernel, as far as it shows, or ''."""
    try:
        _check_supported(piece, inside=False)
    except Unsupported as reason:
        return str(reason)
    if piece.opcode == 'fusion' or piece.opcode in _ALONE:
        return ''
    return f'{piece.custom_call_target or piece.opcode} has no tiles'


def _check_supported(value: protos.HloInstructionProto, inside: bool) -> None:
    """Raises Unsupported for an instruction that kernels, or fusions, cannot have."""
    if value.shape.element_type == building.TUPLE:
        raise Unsupported('kernel of several arrays')
    if not building.is_array(value.shape):
        raise Unsupported(f'{value.opcode} of {building.shape_text(value.shape)}')
    if inside and value.opcode in _NOT_INSIDE:
        raise Unsupported(f'{value.opcode} inside a fusion')


def major_to_minor(shape: protos.ShapeProto) -> list[int]:
    """Returns the numbers of an array's dimensions, slowest in memory first."""
    order = list(reversed(shape.layout.minor_to_major))
    return order or list(range(len(shape.dimensions)))


def _inverse(order: Sequence[int]) -> list[int]:
    """Returns the order that undoes an order of dimensions."""
    return [order.index(d) for d in range(len(order))]


class _RowMajor:
    """Writes a kernel's module, in which every array is row-major.

    An array keeps its bytes, and has its dimensions in the order of its layout.

    Args:
        bodies: the computations of the optimised module, by id.
    """

    def __init__(self, bodies: dict[int, protos.HloComputationProto]):
        self._bodies = bodies
        self._module = building.Module('', bodies)
        self._entry = self._module.computation('entry')
        # id in `bodies` -> the new instruction, and the shape as XLA wrote it
        self._values: dict[
            int, tuple[protos.HloInstructionProto, protos.ShapeProto]
        ] = {}

    def write_kernel(
        self,
        values: dict[int, protos.HloInstructionProto],
        pieces: list[protos.HloInstructionProto],
    ) -> protos.HloModuleProto:
        """Returns the HloModuleProto of a kernel, without a name; raises Unsupported.

        Args:
            values: the instructions of the kernel's computation, by id.
            pieces: the kernel's instructions, the last one its root.
        """
        for piece in pieces:
            if reason := problem_of(piece):
                raise Unsupported(reason)
            for number in dict.fromkeys(piece.operand_ids):
                if number not in self._values:
                    _check_supported(values[number], inside=False)
                    self._write(values[number], outside=True)
            if piece.opcode == 'fusion':
                [number] = piece.called_computation_ids
                self._inline(piece, self._bodies[number])
            else:
                self._write(piece)
        root, _ = self._values[pieces[-1].id]
        if root.opcode == 'parameter':
            raise Unsupported('nothing to compute')
        return self._module.finish(self._entry, root)

    def _inline(
        self, fusion: protos.HloInstructionProto, body: protos.HloComputationProto
    ) -> None:
        """Adds the instructions inside of a fusion."""
        for value in body.instructions:
            _check_supported(value, inside=True)
            if value.opcode == 'parameter':
                outer = fusion.operand_ids[value.parameter_number]
                self._values[value.id] = self._values[outer][0], value.shape
            else:
                self._write(value)
        self._values[fusion.id] = self._values[body.root_id][0], fusion.shape

    def _write(self, value: protos.HloInstructionProto, outside: bool = False) -> None:
        """Adds an instruction.

        One from outside of the kernel becomes a parameter, and so does a constant of
        more than `_MOST_CONSTANT` elements.
        """
        # The row-major shape with the dimensions in the order of the layout.
        dims = [value.shape.dimensions[d] for d in major_to_minor(value.shape)]
        shape = building.shape_of(value.shape.element_type, dims)
        small = building.elements(value.shape) <= _MOST_CONSTANT
        if value.opcode == 'constant' and small:
            if not _is_row_major(value.shape):
                raise Unsupported('constant with a layout')
            written = self._entry.add('constant', shape, like=value)
            written.literal.shape.CopyFrom(shape)
        elif outside or value.opcode == 'constant':
            written = self._entry.parameter(shape)
        else:
            written = self._rewrite(value, shape)
        self._values[value.id] = written, value.shape

    def _rewrite(
        self, value: protos.HloInstructionProto, shape: protos.ShapeProto
    ) -> protos.HloInstructionProto:
        """Adds an instruction, no parameter or constant, with a row-major shape."""
        operands = [self._values[o][0] for o in value.operand_ids]
        sources = [self._values[o][1] for o in value.operand_ids]
        opcode = value.opcode
        plain = opcode == 'reshape' and all(map(_is_row_major, (value.shape, *sources)))
        if plain or opcode == 'bitcast':
            if operands[0].shape.element_type != shape.element_type:
                raise Unsupported('bitcast of types')
            if list(operands[0].shape.dimensions) == list(shape.dimensions):
                return operands[0]
            return self._entry.add('reshape', shape, operands)
        if opcode in ('copy', 'transpose'):
            # A copy between layouts has no `dimensions`, which then are all in their
            # order.
            moved = list(value.dimensions) or list(range(len(shape.dimensions)))
            place = _inverse(major_to_minor(sources[0]))
            order = [place[moved[d]] for d in major_to_minor(value.shape)]
            return self._entry.transposed(operands[0], order)
        if opcode == 'broadcast':
            place = _inverse(major_to_minor(value.shape))
            order = major_to_minor(sources[0])
            dims = [place[value.dimensions[d]] for d in order]
            return self._entry.add(opcode, shape, operands, value, dimensions=dims)
        if opcode == 'reduce' and len(operands) == 2:
            return self._add_reduction(value, shape, operands, sources[0])
        return self._add_between_transposes(value, shape, operands, sources)

    def _add_reduction(
        self,
        value: protos.HloInstructionProto,
        shape: protos.ShapeProto,
        operands: Sequence[protos.HloInstructionProto],
        source: protos.ShapeProto,
    ) -> protos.HloInstructionProto:
        """Adds a reduction; `source` is the operand's shape in the program."""
        order = major_to_minor(source)
        place = _inverse(order)
        # The reduced dimensions, by their places in memory.
        dims = sorted(place[d] for d in value.dimensions)
        kept = [d for d in range(len(order)) if d not in value.dimensions]
        result = [kept.index(d) for d in order if d in kept]
        sizes = [source.dimensions[kept[d]] for d in result]
        reduced = self._entry.add(
            'reduce',
            building.shape_of(shape.element_type, sizes),
            operands,
            like=value,
            dimensions=dims,
        )
        order = [result.index(d) for d in major_to_minor(value.shape)]
        return self._entry.transposed(reduced, order)

    def _add_between_transposes(
        self,
        value: protos.HloInstructionProto,
        shape: protos.ShapeProto,
        operands: Sequence[protos.HloInstructionProto],
        sources: Sequence[protos.ShapeProto],
    ) -> protos.HloInstructionProto:
        """Adds an operation, between transposes from and to layouts if necessary."""
        # Scalars have no order, and fit any.
        orders = [major_to_minor(s) for s in (value.shape, *sources) if s.dimensions]
        same = all(order == orders[0] for order in orders[1:])
        if same and value.opcode in ELEMENTWISE:
            return self._entry.add(value.opcode, shape, operands, like=value)
        logical = [
            self._entry.transposed(operand, _inverse(major_to_minor(source)))
            for operand, source in zip(operands, sources)
        ]
        result = building.shape_of(shape.element_type, value.shape.dimensions)
        written = self._entry.add(value.opcode, result, logical, like=value)
        return self._entry.transposed(written, major_to_minor(value.shape))


def _is_row_major(shape: protos.ShapeProto) -> bool:
    """Returns whether the dimensions of an array lie in memory in their order."""
    order = major_to_minor(shape)
    return order == sorted(order)
