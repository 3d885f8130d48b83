"""What is the same for two modules that differ in names and numbers alone."""

import hashlib
from typing import Any

from tpugraphs.measure import building


def fingerprint(module: Any) -> str:
    """Returns 32 hexadecimal digits that name what a module computes.

    Instructions and computations are numbered in their order; their names, ids and
    metadata do not count.

    Args:
        module: an HloModuleProto.
    """
    copy = type(module)(host_program_shape=module.host_program_shape)
    copy.computations.extend(module.computations)
    copy.host_program_shape.ClearField('parameter_names')
    places = {c.id: place for place, c in enumerate(copy.computations)}
    copy.entry_computation_id = places.get(module.entry_computation_id, -1)
    for number, computation in enumerate(copy.computations):
        inside = {i.id: place for place, i in enumerate(computation.instructions)}
        computation.root_id = inside.get(computation.root_id, -1)
        computation.id = number
        computation.ClearField('name')
        computation.program_shape.ClearField('parameter_names')
        for place, instruction in enumerate(computation.instructions):
            building.plain(instruction)
            operands = instruction.operand_ids
            operands[:] = [inside.get(o, -1) for o in operands]
            called = instruction.called_computation_ids
            called[:] = [places.get(c, -1) for c in called]
            instruction.id = place
            instruction.ClearField('name')
    content = copy.SerializeToString(deterministic=True)
    return hashlib.sha256(content).hexdigest()[:32]
