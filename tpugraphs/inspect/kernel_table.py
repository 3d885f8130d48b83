"""Lists the kernels of a program: shapes, arithmetic, and XLA's own tiles."""

import collections
from typing import Any, Dict, List, Tuple

from baselines import text
from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import optimising
from tpugraphs.measure import own_tiles
from tpugraphs.measure import programs as programs_lib
from tpugraphs.measure import work as work_lib
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
    if not optimising.is_optimised(module):
        module, origin = _optimised(program)
    try:
        return [*_facts(program.module), *_table(module, origin)]
    except LookupError as error:
        raise ValueError(
            f'{program.source}: an instruction lacks a field of its opcode ({error})'
        ) from error


def _optimised(program: reader.Program) -> Tuple[Any, str]:
    """Returns the module to cut, and the origin of its kernels, for people."""
    if not extras.has_jaxlib():
        origin = f'instructions before fusion; for kernels run {extras.INSTALL}'
        return program.module, origin
    try:
        return optimising.optimise(program), "as XLA's CPU compiler makes them"
    except ValueError as error:
        return program.module, f'instructions before fusion, for {error}'


def _facts(module: Any) -> List[str]:
    """Returns lines on parameters, collectives and custom calls."""
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
    exchanged = programs_lib.collectives(module)
    if exchanged:
        shown.append(f'  collectives     {text.most_common(exchanged)}; not tuned')
    calls = collections.Counter(
        i.custom_call_target for i in instructions if i.opcode == 'custom-call'
    )
    if calls:
        shown.append(f'  custom calls    {text.most_common(calls)}')
    return shown


def _table(module: Any, origin: str) -> List[str]:
    """Returns lines on the kernels, those with most arithmetic first.

    Args:
        module: the HloModuleProto.
        origin: of its kernels, for people.
    """
    work = work_lib.Work(module)
    # Layers repeat: kernels that look the same are one row.
    alike: Dict[Tuple[Any, ...], List[str]] = {}
    for values, pieces in kernels.pieces_of(module):
        root, count = pieces[-1], work.count(values, pieces)
        key = count, _elements(root.shape), root.opcode, _shape_text(root.shape)
        alike.setdefault((*key, _own_tiles_text(root)), []).append(root.name)
    total = sum(key[0] * len(names) for key, names in alike.items())
    shown = [
        f'  kernels         {sum(map(len, alike.values())):,}, {origin}',
        f'                  {total:,} multiply-adds in dots and convolutions',
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
        bounds.append(f'{own.cycles:,} cycles')
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
