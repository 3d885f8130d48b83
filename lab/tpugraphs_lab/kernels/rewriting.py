"""Rewrites a kernel as a loop over tiles of its output.

tiled = tile(Plan(kernel.module), Tiles(output=(32, 64), kernel=(128,)))

As on a TPU, a configuration has tile sizes for the output and for the reduced
dimensions: a `while` over output tiles slices the operands, computes, and writes
the tile; inside it, a second `while` adds up partial results of the reduction.
"""

from __future__ import annotations

from collections.abc import Sequence
import dataclasses
import functools
import math

from baselines.hlo import protos
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import extents
from tpugraphs_lab.kernels import neutral_elements
from tpugraphs_lab.kernels import propagation

_Scope = building.Computation
_Region = extents.Region
_Edge = propagation.Edge


@dataclasses.dataclass(frozen=True)
class Tiles:
    """A configuration: the sizes of a tile, in elements."""

    output: tuple[int, ...]  # along every dimension of the output
    # along every reduced or contracted dimension; empty if there is none
    kernel: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Tiled:
    """A kernel with one configuration, as a module."""

    module: protos.HloModuleProto  # the HloModuleProto
    input: tuple[int, ...]  # the tile of the largest operand
    # opcodes of operations that could not be tiled and are computed whole
    whole: tuple[str, ...] = ()


class Plan:
    """The dimensions of a kernel that tiles divide.

    Args:
        module: a kernel's HloModuleProto, all arrays row-major.

    Attributes:
        entry: its entry computation.
        values: the instructions of `entry`, by id.
        callees: the computations of the module, by id.
        root: the instruction of the output.
        output: the dimensions of the output.
        reduction: the instruction that reduces the largest operand; None if none does.
        reduced: the sizes of the dimensions that `reduction` reduces or contracts.
        largest: the id of the largest parameter; -1 if there is none.
        input: the dimensions of the largest parameter.
        untiled: the configuration of the kernel as it is.
        computed: id -> whether the instruction depends on a parameter.
    """

    def __init__(self, module: protos.HloModuleProto):
        self.module = module
        self.entry = cutting.entry_of(module)
        self.values = {i.id: i for i in self.entry.instructions}
        self.callees = {c.id: c for c in module.computations}
        self.root = cutting.root_of(self.entry)
        self.output = tuple(self.root.shape.dimensions)
        self.reduction: protos.HloInstructionProto | None = None
        self.reduced: tuple[int, ...] = ()
        # Of several reductions, tiles divide the one with the largest operand.
        most = -1
        for value in self.entry.instructions:
            shapes = self.shapes(value)
            sizes = propagation.reduced_sizes(value, shapes)
            if sizes and building.elements(shapes[0]) > most:
                most = building.elements(shapes[0])
                self.reduction, self.reduced = value, tuple(sizes)
        self.untiled = Tiles(self.output, self.reduced)
        parameters = [i for i in self.entry.instructions if i.opcode == 'parameter']
        largest = max(
            parameters, key=lambda i: building.num_bytes(i.shape), default=None
        )
        self.largest: int = largest.id if largest else -1
        self.input = tuple(largest.shape.dimensions) if largest else ()
        self.computed: dict[int, bool] = {}
        for value in self.entry.instructions:
            depends = any(self.computed[o] for o in value.operand_ids)
            self.computed[value.id] = value.opcode == 'parameter' or depends

    def shapes(self, value: protos.HloInstructionProto) -> list[protos.ShapeProto]:
        """Returns the shapes of an instruction's operands."""
        return [self.values[o].shape for o in value.operand_ids]

    def combiner(self) -> tuple[str, float] | None:
        """Returns the opcode that joins partial results, and its neutral element.

        None if partial results of the reduction cannot be joined.
        """
        if self.reduction is None or self.reduction.opcode == 'reduce-window':
            return None
        opcode = 'add'
        if self.reduction.opcode == 'reduce':
            [number] = self.reduction.called_computation_ids
            body = self.callees[number]
            root = cutting.root_of(body)
            # Two parameters and one operation on them: a plain reducer.
            is_plain = len(body.instructions) == 3 and len({*root.operand_ids}) == 2
            opcode = root.opcode if is_plain else ''
        elements = neutral_elements.TABLE[self.reduction.shape.element_type]
        return (opcode, elements[opcode]) if opcode in elements else None

    @functools.cached_property
    def tileable(self) -> tuple[list[bool], list[bool]]:
        """Whether the dimensions of `output`, and those of `reduced`, can be tiled.

        A dimension can if its tiles need no operation to be computed whole.
        """
        output = []
        for dim, size in enumerate(self.output):
            tiles = [*self.output]
            # Half of the dimension is tried, for all smaller sizes.
            tiles[dim] = max(1, size // 2)
            output.append(
                size > 1 and not tile(self, Tiles(tuple(tiles), self.reduced)).whole
            )
        reduced = [False] * len(self.reduced)
        if self.reduction is not None and self.combiner():
            for dim, size in enumerate(self.reduced):
                if size > 1 and propagation.reducible(self.reduction, dim):
                    tiles = [*self.reduced]
                    tiles[dim] = 1
                    whole = tile(self, Tiles(self.output, tuple(tiles))).whole
                    reduced[dim] = not whole
        return output, reduced


def tile(plan: Plan, tiles: Tiles) -> Tiled:
    """Rewrites a kernel as a loop over its tiles; `plan.untiled` changes nothing.

    Args:
        tiles: sizes from 1 to the whole dimension; those of `kernel` divide
            `plan.reduced`.
    """
    if tiles == plan.untiled:
        return Tiled(plan.module, plan.input)
    return _Tiler(plan, tiles).build()


class _Tiler:
    """Writes the module of a kernel with one configuration.

    Its methods take instructions of the kernel, and add instructions to a computation
    of the new module, `scope`: the entry, or the body of a loop.
    """

    def __init__(self, plan: Plan, tiles: Tiles):
        self._plan = plan
        self._tiles = tiles
        self._module = building.Module(plan.module.name, plan.callees)
        self._entry = self._module.computation('entry')
        self._parameters = {
            value.id: self._entry.parameter(value.shape)
            for value in plan.entry.instructions
            if value.opcode == 'parameter'
        }
        self._whole: list[str] = []  # opcodes computed whole
        # id of a parameter -> its largest tile
        self._tile_of: dict[int, tuple[int, ...]] = {}

    def build(self) -> Tiled:
        """Returns the module, with the tile of the largest parameter."""
        plan, tiles = self._plan, self._tiles
        trips = extents.trips(plan.output, tiles.output)
        if trips == 1:
            result = self._emit(self._entry, plan.root, extents.whole(plan.output))
        else:
            shape = plan.root.shape
            # Every element is overwritten, so any value will do.
            zero = self._entry.constant(shape.element_type, 0)
            empty = self._entry.add('broadcast', shape, [zero])

            def body(
                scope: _Scope,
                counter: protos.HloInstructionProto,
                carried: protos.HloInstructionProto,
            ) -> protos.HloInstructionProto:
                region = extents.tile_of(scope, counter, plan.output, tiles.output)
                part = self._emit(scope, plan.root, region)
                operands = [carried, part, *extents.starts(scope, region)]
                return scope.add('dynamic-update-slice', shape, operands)

            result = building.loop(self._entry, trips, empty, body)
        module = self._module.finish(self._entry, result)
        largest = self._tile_of.get(plan.largest, plan.input)
        return Tiled(module, largest, tuple(self._whole))

    def _emit(
        self, scope: _Scope, value: protos.HloInstructionProto, region: _Region
    ) -> protos.HloInstructionProto:
        """Adds the instructions that compute a region of a value, once in a scope."""
        key = (value.id, tuple(extent.key() for extent in region))
        if key not in scope.cache:
            scope.cache[key] = self._compute(scope, value, region)
        return scope.cache[key]

    def _compute(
        self, scope: _Scope, value: protos.HloInstructionProto, region: _Region
    ) -> protos.HloInstructionProto:
        """Adds the instructions that compute a region of a value."""
        dims = value.shape.dimensions
        if value.opcode == 'parameter':
            self._note_tile(value, region)
            return extents.take(scope, scope.use(self._parameters[value.id]), region)
        if value.opcode == 'constant':
            constant = scope.add('constant', value.shape, like=value)
            return extents.take(scope, constant, region)
        is_work = self._plan.computed[value.id] and value.opcode != 'broadcast'
        if scope.parent and extents.is_whole(region, dims) and is_work:
            # It is the same in every round, so it is computed once before the loop.
            return scope.use(self._emit(self._entry, value, extents.whole(dims)))
        if value.opcode == 'iota':
            return self._add_iota(scope, value, region)
        in_parts = self._tiles.kernel != self._plan.reduced
        if in_parts and value is self._plan.reduction:
            return self._add_reduction(scope, value, region)
        return self._step(scope, value, region)

    def _note_tile(self, operand: protos.HloInstructionProto, region: _Region) -> None:
        """Keeps the sizes of the largest region taken of a parameter."""
        sizes = tuple(extents.sizes_of(region))
        before = self._tile_of.get(operand.id, sizes)
        self._tile_of[operand.id] = max(before, sizes, key=math.prod)

    def _step(
        self,
        scope: _Scope,
        value: protos.HloInstructionProto,
        region: _Region,
        reduced: _Region | None = None,
        start: protos.HloInstructionProto | None = None,
    ) -> protos.HloInstructionProto:
        """Adds an operation on regions of its operands, as `propagation` finds them.

        `start` takes the place of a reduction's initial value.
        """
        plan = self._plan
        shapes = plan.shapes(value)
        try:
            step = propagation.step_of(value, shapes, region, reduced)
        except propagation.NotDivisible:
            if scope.parent or not extents.is_whole(region, value.shape.dimensions):
                return self._take_whole(scope, value, region)
            step = propagation.Step([extents.whole(s.dimensions) for s in shapes])
        operands = []
        for place, number in enumerate(value.operand_ids):
            operand, part = plan.values[number], step.regions[place]
            if place == 1 and start is not None:
                operands.append(start)
            elif place == 0 and any(map(any, step.edges)):
                padded = self._add_pad(value, operand, step.edges)
                self._note_tile(operand, part)
                operands.append(extents.take(scope, scope.use(padded), part))
            else:
                operands.append(self._emit(scope, operand, part))
        sizes = extents.sizes_of(region) if step.sizes is None else step.sizes
        shape = building.shape_of(value.shape.element_type, sizes)
        result = scope.add(value.opcode, shape, operands, like=value)
        step.edit(result)
        return extents.take(scope, result, step.rest)

    def _take_whole(
        self, scope: _Scope, value: protos.HloInstructionProto, region: _Region
    ) -> protos.HloInstructionProto:
        """Adds a value computed whole before all loops, and the slice at a region."""
        whole = extents.whole(value.shape.dimensions)
        result = self._emit(self._entry, value, whole)
        # A reshape of a parameter only gives it another shape.
        operand = self._plan.values[value.operand_ids[0]]
        is_free = value.opcode == 'reshape' and operand.opcode == 'parameter'
        if not is_free:
            self._whole.append(value.opcode)
        return extents.take(scope, scope.use(result), region)

    def _add_pad(
        self,
        value: protos.HloInstructionProto,
        operand: protos.HloInstructionProto,
        edges: Sequence[_Edge],
    ) -> protos.HloInstructionProto:
        """Adds, once, a whole operand with the padding of a window around it."""
        key = ('padded', operand.id, tuple(edges))
        entry = self._entry
        if key not in entry.cache:
            dims = operand.shape.dimensions
            source = self._parameters.get(operand.id)
            if source is None:
                self._whole.append(operand.opcode)
                source = self._emit(entry, operand, extents.whole(dims))
            kind = operand.shape.element_type
            if value.opcode == 'reduce-window':
                fill = self._emit(entry, self._plan.values[value.operand_ids[1]], ())
            else:
                fill = entry.constant(kind, 0)
            sizes = [
                low + size + (size - 1) * interior + high
                for size, (low, high, interior) in zip(dims, edges)
            ]
            shape = building.shape_of(kind, sizes)
            entry.cache[key] = entry.add('pad', shape, [source, fill])
            for low, high, interior in edges:
                entry.cache[key].padding_config.dimensions.add(
                    edge_padding_low=low,
                    edge_padding_high=high,
                    interior_padding=interior,
                )
        return entry.cache[key]

    def _add_iota(
        self, scope: _Scope, value: protos.HloInstructionProto, region: _Region
    ) -> protos.HloInstructionProto:
        """Adds an iota of the region's sizes that begins at the region's start."""
        [dim] = value.dimensions
        kind = value.shape.element_type
        shape = building.shape_of(kind, extents.sizes_of(region))
        counts = scope.add('iota', shape, like=value)
        if region[dim].base is None and not region[dim].start:
            return counts
        [start] = extents.starts(scope, (region[dim],))
        if kind != start.shape.element_type:
            start = scope.add('convert', building.shape_of(kind, []), [start])
        starts = scope.add('broadcast', shape, [start])
        return scope.add('add', shape, [counts, starts])

    def _add_reduction(
        self, scope: _Scope, value: protos.HloInstructionProto, region: _Region
    ) -> protos.HloInstructionProto:
        """Adds a loop over tiles of the dimensions that `value` reduces."""
        plan, tiles = self._plan, self._tiles.kernel
        # Reductions without a combiner are not tiled.
        opcode, neutral = plan.combiner() or ('', 0)
        kind = value.shape.element_type
        shape = building.shape_of(kind, extents.sizes_of(region))
        has_start = value.opcode == 'reduce'
        if has_start:
            first = self._emit(scope, plan.values[value.operand_ids[1]], ())
        else:
            first = scope.constant(kind, 0)
        initial = scope.add('broadcast', shape, [first])

        def body(
            inside: _Scope,
            counter: protos.HloInstructionProto,
            carried: protos.HloInstructionProto,
        ) -> protos.HloInstructionProto:
            part = extents.tile_of(inside, counter, plan.reduced, tiles)
            # `initial` has the start value: in every tile it would count again.
            start = inside.constant(kind, neutral) if has_start else None
            partial = self._step(inside, value, region, part, start)
            return inside.add(opcode, shape, [carried, partial])

        trips = extents.trips(plan.reduced, tiles)
        return building.loop(scope, trips, initial, body)
