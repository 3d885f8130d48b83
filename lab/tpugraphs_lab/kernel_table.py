"""Lists the kernels of a program: shapes, arithmetic, and XLA's own tiles."""

from __future__ import annotations

import collections
from collections.abc import Iterable, Mapping
import functools
import hashlib
import math
from typing import Any

import numpy as np

from baselines.core import text
from baselines.hlo import protos
from tpugraphs_lab import measure
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import removal
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.kernels import trip_counts
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import reader

_MOST_ROWS = 20
# Of CPU time for XLA, which takes many minutes for tens of thousands of instructions.
_SECONDS = 30
_MOST_TAPS = 1 << 24  # of a dimension, which are counted one by one
_MOST_SIZE = (1 << 31) - 1  # of a dimension; 64 bits hold products of two
_WIDTH = 40  # characters of a shape
# Instructions of a computation, by id.
_Values = Mapping[int, protos.HloInstructionProto]
_HEAD = ['kernel', 'times', 'shape', 'multiply-adds', 'share', "XLA's own tiles", '']


def describe(program: reader.Program) -> text.JsonObject:
    """Describes the parameters and kernels of a program.

    An optimized module has its kernels already.  Others are compiled for the CPU; if
    jaxlib is missing or XLA cannot compile them, their instructions are listed.

    Returns:
        A dict, as `tpugraphs show --json` prints it:
          parameters, result: shapes such as 'f32[8,16]'.
          cut_out: numbers of operations that cannot run here, by name.
          custom_calls: numbers of the others, by name.
          origin: source of the kernels, or the reason why there are none.
          multiply_adds: number for all dots and convolutions; None if sizes are
            unknown.
          unknown_loops: the number of loops that are counted as one round, since the
            module does not say how many they have.
          kernels: the most multiply-adds first, equal ones together; dicts with the
            `name` of the first, how many `times` equal ones run, the `shape` of
            the result, `multiply_adds` of one, XLA's `own_tiles` or '', and the
            `reason` why they have no tiles to choose, or ''.

    Raises:
        ValueError: the instructions contradict each other.
    """
    module, origin = program.module, 'as the module has them'
    described = _facts(module)
    if _has_unknown_sizes(module):
        described.update(multiply_adds=None, unknown_loops=0, kernels=[])
        return {**described, 'origin': 'unknown: sizes are not fixed'}
    if not preparation.is_optimised(module):
        module, origin = _optimised(program)
    try:
        runs, unknown_loops = trip_counts.count_runs(module)
        kernels = _kernels(module, runs)
    except LookupError as error:
        raise ValueError(
            f'{program.source}: an instruction lacks a field of its opcode ({error})'
        ) from error
    total = sum(kernel['multiply_adds'] * kernel['times'] for kernel in kernels)
    return {
        **described,
        'origin': origin,
        'multiply_adds': total,
        'unknown_loops': unknown_loops,
        'kernels': kernels,
    }


def lines(described: text.JsonObject) -> list[str]:
    """Lays out what `describe` returned, as lines."""
    parameters = described['parameters']
    shown = [
        f'  parameters      {len(parameters):,}: {text.list_names(parameters)}',
        f'  result          {described["result"]}',
    ]
    if described['cut_out']:
        shown.append(f'  cut out         {removal.describe(described["cut_out"])}')
    if described['custom_calls']:
        calls = text.list_most_common(described['custom_calls'])
        shown.append(f'  custom calls    {calls}')
    total, kernels = described['multiply_adds'], described['kernels']
    if total is None:
        return [*shown, f'  kernels         {described["origin"]}']
    count = sum(kernel['times'] for kernel in kernels)
    shown += [
        f'  kernels         {count:,}, {described["origin"]}',
        f'                  {text.count(total, "multiply-add")} in dots and '
        'convolutions',
    ]
    if described['unknown_loops']:
        loops = text.count(described['unknown_loops'], 'loop')
        shown.append(
            f'                  {loops} of unknown length: one round is counted'
        )
    cells = [_HEAD]
    for kernel in kernels[:_MOST_ROWS]:
        all_of_them = kernel['multiply_adds'] * kernel['times']
        cells.append(
            [
                kernel['name'],
                f'{kernel["times"]:,}',
                text.shorten(kernel['shape'], _WIDTH),
                f'{kernel["multiply_adds"]:,}',
                f'{100 * all_of_them / total:.1f} %' if total else '-',
                kernel['own_tiles'],
                kernel['reason'],
            ]
        )
    for place in (6, 5):
        if not any(row[place] for row in cells[1:]):
            cells = [row[:place] + row[place + 1 :] for row in cells]
    if kernels:
        shown += text.format_table(cells, '<><>><', indent=4)
    rest = sum(kernel['times'] for kernel in kernels[_MOST_ROWS:])
    if rest:
        shown.append(f'    ... and {rest:,} more')
    return shown


def _has_unknown_sizes(module: protos.HloModuleProto) -> bool:
    """Returns whether an array of a module has a size that the module does not say."""
    return any(
        size < 0
        for computation in module.computations
        for instruction in computation.instructions
        for size in instruction.shape.dimensions
    )


def _optimised(program: reader.Program) -> tuple[protos.HloModuleProto, str]:
    """Returns the module to cut, and the origin of its kernels, as text."""
    if not extras.has_jaxlib():
        origin = f'instructions before fusion; for kernels run {extras.INSTALL}'
        return program.module, origin
    seconds = program.seconds or _SECONDS
    optimiser = functools.partial(measure.optimise, seconds=seconds)
    try:
        optimised = preparation.optimise(program, optimiser)
        return optimised, "as XLA's CPU compiler makes them"
    except ValueError as error:
        return program.module, f'instructions before fusion, since {error}'


def _facts(module: protos.HloModuleProto) -> text.JsonObject:
    """Returns the part of `describe` that is not about kernels."""
    entry = cutting.entry_of(module)
    parameters = [i for i in entry.instructions if i.opcode == 'parameter']
    parameters.sort(key=lambda i: i.parameter_number)
    cut_out = {i.id for c in module.computations for i in removal.outside(c)}
    calls = collections.Counter(
        text.printable(i.custom_call_target)
        for c in module.computations
        for i in c.instructions
        if i.opcode == 'custom-call' and i.id not in cut_out
    )
    return {
        'parameters': [_shape_text(i.shape) for i in parameters],
        'result': _shape_text(cutting.root_of(entry).shape),
        'cut_out': dict(removal.counts(module)),
        'custom_calls': dict(calls),
    }


def _kernels(
    module: protos.HloModuleProto, runs: dict[int, int]
) -> list[text.JsonObject]:
    """Describes the kernels of a module, see `describe`.

    Args:
        module: the module to cut.
        runs: number of runs of its computations, by id.
    """
    bodies = {c.id: {i.id: i for i in c.instructions} for c in module.computations}
    runs_of = {i: runs[c] for c, values in bodies.items() if c in runs for i in values}
    multiply_adds = _count_multiply_adds(bodies)
    digests: dict[int, bytes] = {}
    # Layers repeat: equal kernels are one row.
    rows: dict[tuple[bytes, str], text.JsonObject] = {}
    sizes: dict[str, int] = {}  # name -> elements of the result
    for values, pieces in cutting.pieces_of(module):
        root, own = pieces[-1], _own_tiles_text(pieces[-1])
        row = rows.setdefault(
            (_digest(pieces, values, bodies, digests), own),
            {
                'name': root.name,
                'times': 0,
                'shape': _shape_text(root.shape),
                'multiply_adds': sum(multiply_adds[piece.id] for piece in pieces),
                'own_tiles': own,
                'reason': next(filter(None, map(cutting.problem_of, pieces)), ''),
            },
        )
        row['times'] += runs_of[root.id]
        sizes[root.name] = _elements(root.shape)
    # The most multiply-adds of all places first, then the largest result.
    order = lambda row: (-row['multiply_adds'] * row['times'], -sizes[row['name']])
    return sorted(rows.values(), key=order)


def _digest(
    instructions: Iterable[protos.HloInstructionProto],
    values: _Values,
    bodies: Mapping[int, _Values],
    known: dict[int, bytes],
) -> bytes:
    """Computes a digest of instructions that is equal for equal ones.

    Args:
        instructions: some instructions of a computation.
        values: all instructions of the computation.
        bodies: instructions of all computations, by the computation's id.
        known: digests of computations, by id; those of called ones are added.
    """
    digest = hashlib.sha256()
    places: dict[int, int] = {}  # id -> the order in which it is met
    for value in instructions:
        copy = type(value).FromString(value.SerializeToString())
        building.clear_fields(copy)
        copy.name = ''
        # Numbers of the module would tell equal kernels apart.
        copy.operand_ids[:] = [
            places.setdefault(o, len(places)) for o in value.operand_ids
        ]
        copy.id = places.setdefault(value.id, len(places))
        del copy.called_computation_ids[:]
        digest.update(copy.SerializeToString(deterministic=True))
        for operand in value.operand_ids:
            digest.update(building.shape_text(values[operand].shape).encode())
        for number in value.called_computation_ids:
            if number not in known:
                called = bodies[number]
                known[number] = _digest(called.values(), called, bodies, known)
            digest.update(known[number])
    return digest.digest()


def _own_tiles_text(root: protos.HloInstructionProto) -> str:
    """Returns XLA's own tiles of a kernel as text; '' if it has none."""
    own = tpu_tiles.own_tiles(root)
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


def _elements(shape: protos.ShapeProto) -> int:
    """Returns the number of elements of an array, or of all arrays of a tuple."""
    return sum(map(_elements, shape.tuple_shapes)) or building.elements(shape)


def _shape_text(shape: protos.ShapeProto) -> str:
    """Returns the shape of an array, or of a tuple of arrays, as text."""
    if shape.element_type != building.TUPLE:
        return building.shape_text(shape)
    return f'({text.list_names([_shape_text(s) for s in shape.tuple_shapes])})'


def _count_multiply_adds(bodies: Mapping[int, _Values]) -> dict[int, int]:
    """Counts the multiply-adds of dots and convolutions, by instruction's id.

    Those of called computations count, too; the body of a loop counts once.

    Args:
        bodies: instructions of all computations, by the computation's id; callees
            before callers.
    """
    counts: dict[int, int] = {}
    sums: dict[int, int] = {}  # id of a computation -> the sum of its counts
    for number, values in bodies.items():
        for value in values.values():
            if value.opcode in ('dot', 'convolution'):
                counts[value.id] = _multiply_adds_of(value, values)
            else:
                counts[value.id] = sum(sums[c] for c in value.called_computation_ids)
        sums[number] = sum(counts[inside] for inside in values)
    return counts


def _multiply_adds_of(product: protos.HloInstructionProto, values: _Values) -> int:
    """Counts the multiply-adds of a dot or convolution, as XLA's cost analysis."""
    sizes = product.shape.dimensions
    left, right = (
        values[product.operand_ids[place]].shape.dimensions for place in (0, 1)
    )
    if product.opcode == 'dot':
        summed = product.dot_dimension_numbers.lhs_contracting_dimensions
        return math.prod(sizes) * math.prod(left[d] for d in summed)
    roles = product.convolution_dimension_numbers
    spatial = [*roles.output_spatial_dimensions]
    others = (size for d, size in enumerate(sizes) if d not in spatial)
    return math.prod(
        [
            right[roles.kernel_input_feature_dimension],
            *others,
            *map(
                _count_taps,
                product.window.dimensions,
                [left[d] for d in roles.input_spatial_dimensions],
                [sizes[d] for d in spatial],
            ),
        ]
    )


def _count_taps(window: Any, before: int, after: int) -> int:
    """Counts the multiplications along a dimension of a convolution.

    Those with padding, and with the zeros that dilation puts in, do not count.

    Args:
        window: WindowDimension of the convolution.
        before: size of the input along it.
        after: size of the output.
    """
    stride, dilation = max(1, window.stride), max(1, window.base_dilation)
    steps = stride, dilation, window.window_dilation, abs(window.padding_low)
    if not 0 <= window.size < _MOST_TAPS or max(before, after, *steps) > _MOST_SIZE:
        return after * window.size // dilation
    # [taps]: the place of the first output's tap in the dilated input.
    first = np.arange(window.size) * max(1, window.window_dilation)
    first = first - window.padding_low
    # [taps]: the outputs whose tap is inside, from `low` to `high`.
    low = np.maximum(0, -(first // stride))
    high = np.minimum(after - 1, ((before - 1) * dilation - first) // stride)
    # Of these, the tap of every `period`-th is no zero.
    common = math.gcd(stride, dilation)
    period = dilation // common
    place = -(first // common) % period * pow(stride // common, -1, period) % period
    counts = (high - place) // period - (low - 1 - place) // period
    return int(np.where(first % common == 0, np.maximum(0, counts), 0).sum())
