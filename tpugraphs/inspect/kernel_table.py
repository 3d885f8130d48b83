"""Lists the kernels of a program: shapes, arithmetic, and XLA's own tiles."""

import collections
import math
from typing import Any, Dict, Iterable, List, Tuple

from baselines import text
from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import own_tiles
from tpugraphs.measure import preparation
from tpugraphs.programs import extras
from tpugraphs.programs import reader

_MOST_ROWS = 20
_WIDTH = 40  # letters of a shape
_HEAD = ['kernel', 'times', 'shape', 'multiply-adds', 'share', "XLA's own tiles"]


def lines(program: reader.Program) -> List[str]:
    """Describes the parameters and kernels of a program.

    An optimised module has its kernels already.  Others are compiled for the CPU; if
    jaxlib is missing or XLA cannot compile them, their instructions are listed.

    Raises:
        ValueError: the instructions contradict each other.
    """
    module, origin = program.module, 'as the module has them'
    if _has_unknown_sizes(module):
        return [*_facts(module), '  kernels         unknown: sizes are not fixed']
    if not preparation.is_optimised(module):
        module, origin = _optimised(program)
    try:
        return [*_facts(program.module), *_table(module, origin)]
    except LookupError as error:
        raise ValueError(
            f'{program.source}: an instruction lacks a field of its opcode ({error})'
        ) from error


def _has_unknown_sizes(module: Any) -> bool:
    """Tells whether an array of a module has a size that the module does not say."""
    return any(
        size < 0
        for computation in module.computations
        for instruction in computation.instructions
        for size in instruction.shape.dimensions
    )


def _optimised(program: reader.Program) -> Tuple[Any, str]:
    """Returns the module to cut, and the origin of its kernels, for people."""
    if not extras.has_jaxlib():
        origin = f'instructions before fusion; for kernels run {extras.INSTALL}'
        return program.module, origin
    try:
        return preparation.optimise(program), "as XLA's CPU compiler makes them"
    except ValueError as error:
        return program.module, f'instructions before fusion, for {error}'


def _facts(module: Any) -> List[str]:
    """Lists parameters, result, collectives and custom calls of a module, in lines."""
    entry = kernels.entry_of(module)
    parameters = [i for i in entry.instructions if i.opcode == 'parameter']
    parameters.sort(key=lambda i: i.parameter_number)
    shapes = [_shape_text(i.shape) for i in parameters]
    result = _shape_text(kernels.root_of(entry).shape)
    shown = [
        f'  parameters      {len(parameters):,}: {text.listed(shapes)}',
        f'  result          {result}',
    ]
    instructions = [i for c in module.computations for i in c.instructions]
    exchanged = preparation.collectives(module)
    if exchanged:
        shown.append(f'  collectives     {text.most_common(exchanged)}; not tuned')
    calls = collections.Counter(
        i.custom_call_target for i in instructions if i.opcode == 'custom-call'
    )
    if calls:
        shown.append(f'  custom calls    {text.most_common(calls)}')
    return shown


def _table(module: Any, origin: str) -> List[str]:
    """Lists the kernels of a module, the most multiply-adds first, in lines.

    `origin` ends the line with their number.
    """
    multiply_adds = _MultiplyAdds(module)
    # Layers repeat: kernels that look the same are one row.
    alike: Dict[Tuple[Any, ...], List[str]] = {}
    for values, pieces in kernels.pieces_of(module):
        root, count = pieces[-1], multiply_adds.of_all(pieces, values)
        key = count, _elements(root.shape), root.opcode, _shape_text(root.shape)
        alike.setdefault((*key, _own_tiles_text(root)), []).append(root.name)
    total = sum(key[0] * len(names) for key, names in alike.items())
    shown = [
        f'  kernels         {sum(map(len, alike.values())):,}, {origin}',
        f'                  {text.count(total, "multiply-add")} in dots and '
        'convolutions',
    ]
    rows = sorted(alike.items(), key=lambda row: (-row[0][0] * len(row[1]), -row[0][1]))
    cells = [_HEAD]
    for (count, _, _, shape, own), names in rows[:_MOST_ROWS]:
        share = f'{100 * count * len(names) / total:.1f} %' if total else '-'
        shape = text.shortened(shape, _WIDTH)
        cells.append([names[0], f'{len(names):,}', shape, f'{count:,}', share, own])
    if not any(row[-1] for row in cells[1:]):
        cells = [row[:-1] for row in cells]
    if rows:
        shown += text.table(cells, '<><>><', indent=4)
    rest = sum(len(names) for _, names in rows[_MOST_ROWS:])
    if rest:
        shown.append(f'    ... and {rest:,} more')
    return shown


def _own_tiles_text(root: Any) -> str:
    """Returns XLA's own tiles of a kernel as text; '' if it has none."""
    own = own_tiles.of(root)
    if own is None:
        return ''
    bounds = [
        f'{name} {"x".join(map(str, sizes))}'
        for name, sizes in (('output', own.output), ('kernel', own.kernel))
        if sizes
    ]
    if own.cycles is not None:
        bounds.append(text.count(own.cycles, 'cycle'))
    if own.microseconds is not None:
        bounds.append(f'{own.microseconds:g} us')
    return ', '.join(bounds)


def _elements(shape: Any) -> int:
    """Returns the number of elements of an array, or of all arrays of a tuple."""
    return sum(map(_elements, shape.tuple_shapes)) or building.elements(shape)


def _shape_text(shape: Any) -> str:
    """Returns the shape of an array, or of a tuple of arrays, as text."""
    if shape.element_type != building.TUPLE:
        return building.shape_text(shape)
    return f'({text.listed([_shape_text(s) for s in shape.tuple_shapes])})'


class _MultiplyAdds:
    """Counts the multiply-adds of a module's dots and convolutions.

    Called computations count, too; the body of a loop counts once, since the module
    does not say how often it runs.
    """

    def __init__(self, module: Any):
        self._bodies = {c.id: c for c in module.computations}
        self._counted: Dict[int, int] = {}

    def of_all(self, instructions: Iterable[Any], values: Dict[int, Any]) -> int:
        """Counts the multiply-adds of instructions of one computation.

        `values` are all instructions of the computation, by id.
        """
        return sum(self._of_one(i, values) for i in instructions)

    def _of_one(self, instruction: Any, values: Dict[int, Any]) -> int:
        """Counts the multiply-adds of an instruction and of computations it calls."""
        if instruction.opcode not in ('dot', 'convolution'):
            return sum(map(self._of_computation, instruction.called_computation_ids))
        if instruction.opcode == 'dot':
            left = values[instruction.operand_ids[0]].shape.dimensions
            numbers = instruction.dot_dimension_numbers
            terms = math.prod(left[d] for d in numbers.lhs_contracting_dimensions)
        else:
            kernel = values[instruction.operand_ids[1]].shape.dimensions
            numbers = instruction.convolution_dimension_numbers
            terms = kernel[numbers.kernel_input_feature_dimension]
            terms *= math.prod(kernel[d] for d in numbers.kernel_spatial_dimensions)
        return terms * building.elements(instruction.shape)

    def _of_computation(self, number: int) -> int:
        """Counts the multiply-adds of the computation with id `number`."""
        if number not in self._counted:
            values = {i.id: i for i in self._bodies[number].instructions}
            self._counted[number] = self.of_all(values.values(), values)
        return self._counted[number]
