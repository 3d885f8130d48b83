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
            _fill(added.instructions.add(), instruction, ids)
        added.root_id = ids[id(computation.root)]
    module.entry_computation_id = len(computations)
    module.entry_computation_name = module.computations[-1].name
    return module


def _fill(proto: Any, instruction: Instruction, ids: Dict[int, int]) -> None:
    proto.id = ids[id(instruction)]
    proto.name = f'{instruction.opcode}.{proto.id}'
    proto.opcode = instruction.opcode
    shape = instruction.shape
    proto.shape.element_type = _TYPES[shape.dtype]
    proto.shape.dimensions.extend(shape.dims)
    proto.shape.layout.minor_to_major.extend(shape.layout)
    for _ in range(instruction.tuple_size):
        proto.shape.tuple_shapes.add()
    proto.operand_ids.extend(ids[id(operand)] for operand in instruction.operands)
    proto.called_computation_ids.extend(ids[id(call)] for call in instruction.calls)
    proto.dimensions.extend(instruction.dimensions)
    proto.parameter_number = instruction.parameter_number
    for one in instruction.window:
        proto.window.dimensions.add(
            size=one.size,
            stride=one.stride,
            padding_low=one.low,
            padding_high=one.high,
            window_dilation=1,
            base_dilation=1,
        )
    for start, limit, stride in instruction.slices:
        proto.slice_dimensions.add(start=start, limit=limit, stride=stride)
    for low, high in instruction.padding:
        added = proto.padding_config.dimensions.add()
        added.edge_padding_low, added.edge_padding_high = low, high
    numbers = instruction.convolution
    if numbers:
        proto.feature_group_count = proto.batch_group_count = 1
        dims = proto.convolution_dimension_numbers
        dims.input_batch_dimension = numbers.input_batch
        dims.input_feature_dimension = numbers.input_feature
        dims.input_spatial_dimensions.extend(numbers.input_spatial)
        dims.kernel_input_feature_dimension = numbers.kernel_input
        dims.kernel_output_feature_dimension = numbers.kernel_output
        dims.kernel_spatial_dimensions.extend(numbers.kernel_spatial)
        dims.output_batch_dimension = numbers.output_batch
        dims.output_feature_dimension = numbers.output_feature
