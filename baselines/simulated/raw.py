"""Simulated modules as protobufs, from which `baselines.hlo` extracts their arrays."""

from typing import Any, Dict, Sequence

import numpy as np

from baselines.data.tile import records
from baselines.hlo import graph
from baselines.hlo import protos
from baselines.hlo import schema
from baselines.hlo import words
from baselines.simulated.hlo import Computation, Instruction

_TYPES = {kind.name: kind.number for kind in schema.ELEMENT_TYPES}


def graph_arrays(computations: Sequence[Computation]) -> Dict[str, np.ndarray]:
    """Returns node_feat, node_opcode and edge_index of a module, as records do."""
    found = graph.extract_graph(module_of(computations, 'simulated'))
    return {
        'node_feat': found.node_feat,
        'node_opcode': found.node_opcode.astype(np.int32),
        'edge_index': found.edge_index.astype(np.int32),
    }


def tuning_of(
    record: records.TileRecord, computations: Sequence[Computation], default: int
) -> Any:
    """Returns a ModuleTuningData of a kernel, its runs in the order of the record.

    Args:
        record: the kernel.
        computations: its HLO, callees before callers.
        default: the configuration that the compiler's heuristic would take.
    """
    name, _, fingerprint = record.graph_id.rpartition('_')
    found = protos.protos().ModuleTuningData(
        module=module_of(computations, name), fingerprint=int(fingerprint, 16)
    )
    for number, row in enumerate(record.config_feat):
        run = found.runs.add(is_default=number == default)
        run.op_config.tile_size_config.SetInParent()
        for bounds, sizes in words.tile_row_json(row).items():
            getattr(run.op_config.tile_size_config, bounds).extend(sizes)
        run.profile.compute_time_ns = int(record.config_runtime[number])
    return found


def module_of(computations: Sequence[Computation], name: str) -> Any:
    """Returns an HloModuleProto.

    Args:
        computations: callees before callers; the last one is the entry.
        name: of the module.
    """
    module = protos.protos().HloModuleProto(name=name)
    ids: Dict[int, int] = {}
    for number, computation in enumerate(computations, start=1):
        added = module.computations.add(name=f'computation.{number}', id=number)
        ids[id(computation)] = number
        for instruction in computation.instructions:
            ids[id(instruction)] = len(ids) + 1
            added.instructions.add(**_fields(instruction, ids))
        added.root_id = ids[id(computation.root)]
    module.entry_computation_id = len(computations)
    module.entry_computation_name = module.computations[-1].name
    return module


def _fields(instruction: Instruction, ids: Dict[int, int]) -> Dict[str, Any]:
    """Returns the fields of an HloInstructionProto."""
    shape, number = instruction.shape, ids[id(instruction)]
    numbers, groups = instruction.convolution, 1 if instruction.convolution else None
    dilation = {'window_dilation': 1, 'base_dilation': 1}
    windows = [{**one._asdict(), **dilation} for one in instruction.window]
    padding = [
        {'edge_padding_low': low, 'edge_padding_high': high}
        for low, high in instruction.padding
    ]
    return {
        'id': number,
        'name': f'{instruction.opcode}.{number}',
        'opcode': instruction.opcode,
        'shape': {
            'element_type': _TYPES[shape.dtype],
            'dimensions': shape.dims,
            'layout': {'minor_to_major': shape.layout},
            'tuple_shapes': [{}] * instruction.tuple_size,
        },
        'operand_ids': [ids[id(operand)] for operand in instruction.operands],
        'called_computation_ids': [ids[id(call)] for call in instruction.calls],
        'dimensions': instruction.dimensions,
        'parameter_number': instruction.parameter_number,
        'window': {'dimensions': windows} if windows else None,
        'slice_dimensions': [
            {'start': start, 'limit': limit, 'stride': stride}
            for start, limit, stride in instruction.slices
        ],
        'padding_config': {'dimensions': padding} if padding else None,
        'feature_group_count': groups,
        'batch_group_count': groups,
        'convolution_dimension_numbers': numbers._asdict() if numbers else None,
    }
