"""Counts the arithmetic of a program's kernels in multiply-adds."""

import math
from typing import Any, Dict, Iterable

from tpugraphs.measure import building


class Work:
    """Counts the multiply-adds of a module's dots and convolutions.

    Those of called computations count, too; the body of a loop counts once, since the
    module does not say how often it runs.

    Args:
        module: the HloModuleProto.
    """

    def __init__(self, module: Any):
        self._bodies = {c.id: c for c in module.computations}
        self._counted: Dict[int, int] = {}

    def count(self, values: Dict[int, Any], instructions: Iterable[Any]) -> int:
        """Returns the multiply-adds of instructions of one computation.

        Args:
            values: all instructions of the computation, by id.
            instructions: those to count.
        """
        return sum(
            self._of_instruction(instruction, values) for instruction in instructions
        )

    def _of_instruction(self, instruction: Any, values: Dict[int, Any]) -> int:
        """Returns the multiply-adds of an instruction and the computations it calls."""
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
        """Returns the multiply-adds of a computation, by its id."""
        if number not in self._counted:
            values = {i.id: i for i in self._bodies[number].instructions}
            self._counted[number] = self.count(values, values.values())
        return self._counted[number]
