"""Proposes candidate configurations for the kernels of a program without any."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterator, Mapping, Sequence
import math

import numpy as np

from baselines.hlo import protos
from baselines.hlo import reading
from tpugraphs_lab.kernels import building
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.kernels import layouts
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.kernels import tile_choices
from tpugraphs_lab.kernels import tpu_tiles
from tpugraphs_lab.programs import reader

# Elements of a TPU's vector register, along the last two dimensions.
_REGISTER = (8, 128)


def tunings(
    program: reader.Program,
    kind: str,
    count: int,
    seed: int,
    skipped: collections.Counter[str],
    optimiser: Callable[[bytes], bytes],
) -> Iterator[protos.ModuleTuningData]:
    """Yields ModuleTuningData: the kernels of a program with candidates to rank.

    The default, which is XLA's own choice, is the first run and marked.  If an
    optimised module has XLA's own tiles, kernels are its fusions unchanged, and
    candidates are in the units of these tiles; else kernels and candidates are those
    of `tpugraphs lab collect`.

    Args:
        kind: 'tile', or 'layout' for layouts of the whole program.
        count: largest number of candidates of a kernel, with the default.
        skipped: counts the kernels that are left out, by reason.
        optimiser: function that optimises a module, see `preparation.optimise`.

    Raises:
        ValueError: jaxlib is needed and not installed, or XLA cannot compile it.
    """
    if kind == reading.LAYOUT:
        module = preparation.prepare(program).module
        if layouts.configurable(module):
            yield layouts.tuning_data(module, np.random.default_rng(seed), count)
        else:
            skipped['nothing to configure'] += 1
        return
    chosen = [
        (shapes, instruction, own)
        for computation in program.module.computations
        for shapes in [{i.id: i.shape for i in computation.instructions}]
        for instruction in computation.instructions
        if (own := tpu_tiles.own_tiles(instruction))
    ]
    callees = {c.id: c for c in program.module.computations}
    for shapes, instruction, own in chosen:
        rng = np.random.default_rng(seed)
        made = building.Module(f'{program.name}_{instruction.name}', callees)
        yield _tuning_of(made, shapes, instruction, own, count, rng)
    if chosen:
        return
    module = preparation.optimise(program, optimiser)
    for kernel in tile_choices.kernels_of(module, program.name, set(), skipped):
        rng = np.random.default_rng(seed)
        candidates = tile_choices.candidates_of(kernel, rng, count)
        yield tile_choices.tuning_data(kernel, candidates.configs)


def _tuning_of(
    module: building.Module,
    shapes: Mapping[int, protos.ShapeProto],
    instruction: protos.HloInstructionProto,
    own: tpu_tiles.OwnTiles,
    count: int,
    rng: np.random.Generator,
) -> protos.ModuleTuningData:
    """Returns a ModuleTuningData of an instruction, with tiles to choose from.

    Args:
        module: an empty one, which the instruction is added to.
        shapes: of all instructions of its computation, by id.
    """
    entry = module.computation('entry')
    parameters: dict[int, protos.HloInstructionProto] = {}
    for number in instruction.operand_ids:
        if number not in parameters:
            # An operand that is used twice is one parameter.
            parameters[number] = entry.parameter(shapes[number])
    operands = [parameters[number] for number in instruction.operand_ids]
    entry.add(instruction.opcode, instruction.shape, operands, like=instruction)
    tuning = protos.ModuleTuningData(module=module.finish(entry))
    # Up to the whole output, and up to XLA's own bounds of reduced dimensions.
    highest = [*_registers(instruction.shape, own.output), *own.kernel]
    bounds = [tile_choices.tile_sizes(most) for most in highest]
    for row in tile_choices.draw_rows((*own.output, *own.kernel), bounds, rng, count):
        sizes = tuning.runs.add().op_config.tile_size_config
        sizes.output_bounds.extend(row[: len(own.output)])
        sizes.kernel_bounds.extend(row[len(own.output) :])
        sizes.input_bounds.extend(own.input)
    tuning.runs[0].is_default = True
    return tuning


def _registers(shape: protos.ShapeProto, bounds: Sequence[int]) -> list[int]:
    """Returns the largest bounds of an output; of a tuple XLA's own `bounds`."""
    order = cutting.major_to_minor(shape)
    if len(order) != len(bounds):
        return list(bounds)
    sizes = [shape.dimensions[d] for d in order]
    for place, size in zip((-2, -1), _REGISTER):
        if len(sizes) >= -place:
            sizes[place] = math.ceil(sizes[place] / size)
    return [max(size, bound) for size, bound in zip(sizes, bounds)]
