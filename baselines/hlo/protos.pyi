"""Types of the messages in protos.py, which builds their classes at run time.

They are the fields of XLA's protobufs and of tuning_data.proto, but for maps and for
messages that this project does not look into.  tests/hlo/test_protos.py compares them
with the descriptors.
"""

import abc
from collections.abc import MutableSequence
from typing import Any, TypeVar

from google.protobuf import descriptor
from google.protobuf import descriptor_pool

_M = TypeVar('_M', bound='Message')

class Message:
    """What is used of google.protobuf.message.Message, which has no types."""

    DESCRIPTOR: descriptor.Descriptor

    def __init__(self, **fields: object) -> None: ...
    @classmethod
    def FromString(cls: type[_M], data: bytes) -> _M: ...
    def SerializeToString(self, *, deterministic: bool = ...) -> bytes: ...
    def MergeFromString(self, data: bytes) -> int: ...
    def CopyFrom(self: _M, other: _M) -> None: ...
    def ByteSize(self) -> int: ...
    def Clear(self) -> None: ...
    def ClearField(self, name: str) -> None: ...
    def DiscardUnknownFields(self) -> None: ...
    def HasField(self, name: str) -> bool: ...
    def ListFields(self) -> list[tuple[Any, Any]]: ...

class Repeated(MutableSequence[_M], metaclass=abc.ABCMeta):
    """A repeated field of messages."""

    def add(self, **fields: object) -> _M: ...

def outlines() -> Any: ...
def outline_pool() -> descriptor_pool.DescriptorPool: ...

class TuningData(Message):
    modules: Repeated[ModuleTuningData]

class ModuleTuningData(Message):
    module: HloModuleProto
    fingerprint: int
    runs: Repeated[ConfigProfile]
    config_index_to_node: MutableSequence[int]

class ConfigProfile(Message):
    op_config: HloOpConfig
    module_config: HloModuleConfig
    error: bool
    profile: ExecutionProfile
    is_default: bool

class HloOpConfig(Message):
    tile_size_config: TileSizeConfig

class TileSizeConfig(Message):
    kernel_bounds: MutableSequence[int]
    output_bounds: MutableSequence[int]
    input_bounds: MutableSequence[int]
    iteration_bounds: MutableSequence[int]

class HloModuleConfig(Message):
    layout_config: LayoutConfig

class LayoutConfig(Message):
    nodes: Repeated[NodeLayoutConfig]

class NodeLayoutConfig(Message):
    tensors: Repeated[TensorLayoutConfig]

class TensorLayoutConfig(Message):
    dims: MutableSequence[int]

class ExecutionProfile(Message):
    compilation_cache_hit: bool
    compile_time_ms: int
    compute_cycle_count: int
    compute_time_ns: int
    compute_and_transfer_time_ns: int
    executable_size_in_bytes: int
    profile_cache_hit: bool

class HloProto(Message):
    hlo_module: HloModuleProto

class HloSnapshot(Message):
    hlo: HloProto
    arguments: Repeated[LiteralProto]
    result: LiteralProto
    execution_platform: str

class HloModuleProto(Message):
    name: str
    entry_computation_name: str
    entry_computation_id: int
    computations: Repeated[HloComputationProto]
    host_program_shape: ProgramShapeProto
    id: int
    is_dynamic: bool
    use_auto_spmd_partitioning: bool

class HloComputationProto(Message):
    name: str
    instructions: Repeated[HloInstructionProto]
    program_shape: ProgramShapeProto
    id: int
    root_id: int
    is_fusion_computation: bool
    execution_thread: str

class HloInstructionProto(Message):
    name: str
    opcode: str
    shape: ShapeProto
    literal: LiteralProto
    parameter_number: int
    fusion_kind: str
    tuple_index: int
    dimensions: MutableSequence[int]
    window: Window
    convolution_dimension_numbers: ConvolutionDimensionNumbers
    feature_group_count: int
    batch_group_count: int
    slice_dimensions: Repeated[SliceDimensions]
    exponent_bits: int
    mantissa_bits: int
    dynamic_slice_sizes: MutableSequence[int]
    padding_config: PaddingConfig
    outfeed_config: bytes
    distribution: int
    epsilon: float
    feature_index: int
    channel_id: int
    infeed_config: bytes
    custom_call_target: str
    outfeed_shape: ShapeProto
    dot_dimension_numbers: DotDimensionNumbers
    fft_type: int
    fft_length: MutableSequence[int]
    comparison_direction: str
    gather_dimension_numbers: GatherDimensionNumbers
    gather_slice_sizes: MutableSequence[int]
    id: int
    operand_ids: MutableSequence[int]
    control_predecessor_ids: MutableSequence[int]
    called_computation_ids: MutableSequence[int]
    backend_config: bytes
    all_reduce_id: int
    use_global_device_ids: bool
    is_host_transfer: bool
    is_stable: bool
    scatter_dimension_numbers: ScatterDimensionNumbers
    constrain_layout: bool
    operand_shapes_with_layout: Repeated[ShapeProto]
    custom_call_has_side_effect: bool
    custom_call_schedule: int
    delta: int
    indices_are_sorted: bool
    unique_indices: bool
    rng_algorithm: int
    comparison_type: str
    is_cross_program_prefetch: bool
    cross_program_prefetch_index: int
    padding_type: int
    custom_call_api_version: int
    async_group_id: int
    async_execution_thread: str
    k: int

class ProgramShapeProto(Message):
    parameters: Repeated[ShapeProto]
    result: ShapeProto
    parameter_names: MutableSequence[str]

class ShapeProto(Message):
    element_type: int
    dimensions: MutableSequence[int]
    tuple_shapes: Repeated[ShapeProto]
    layout: LayoutProto
    is_dynamic_dimension: MutableSequence[bool]

class LayoutProto(Message):
    dim_level_types: MutableSequence[int]
    dim_unique: MutableSequence[bool]
    dim_ordered: MutableSequence[bool]
    minor_to_major: MutableSequence[int]
    tiles: Repeated[TileProto]
    element_size_in_bits: int
    memory_space: int
    index_primitive_type: int
    pointer_primitive_type: int
    physical_shape: ShapeProto
    dynamic_shape_metadata_prefix_bytes: int

class TileProto(Message):
    dimensions: MutableSequence[int]

class LiteralProto(Message):
    shape: ShapeProto
    preds: MutableSequence[bool]
    s4s: bytes
    u4s: bytes
    s8s: bytes
    u8s: bytes
    s32s: MutableSequence[int]
    s64s: MutableSequence[int]
    u32s: MutableSequence[int]
    u64s: MutableSequence[int]
    f32s: MutableSequence[float]
    f64s: MutableSequence[float]
    c64s: MutableSequence[float]
    c128s: MutableSequence[float]
    tuple_literals: Repeated[LiteralProto]
    f16s: bytes
    bf16s: bytes
    u16s: bytes
    s16s: bytes
    f8e5m2s: bytes
    f8e4m3fns: bytes
    f8e4m3b11fnuzs: bytes
    f8e5m2fnuzs: bytes
    f8e4m3fnuzs: bytes
    sparse_indices: MutableSequence[int]

class Window(Message):
    dimensions: Repeated[WindowDimension]

class WindowDimension(Message):
    size: int
    stride: int
    padding_low: int
    padding_high: int
    window_dilation: int
    base_dilation: int
    window_reversal: bool

class PaddingConfig(Message):
    dimensions: Repeated[PaddingConfigDimension]

class PaddingConfigDimension(Message):
    edge_padding_low: int
    edge_padding_high: int
    interior_padding: int

class DotDimensionNumbers(Message):
    lhs_contracting_dimensions: MutableSequence[int]
    rhs_contracting_dimensions: MutableSequence[int]
    lhs_batch_dimensions: MutableSequence[int]
    rhs_batch_dimensions: MutableSequence[int]

class ConvolutionDimensionNumbers(Message):
    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: MutableSequence[int]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: MutableSequence[int]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: MutableSequence[int]

class GatherDimensionNumbers(Message):
    offset_dims: MutableSequence[int]
    collapsed_slice_dims: MutableSequence[int]
    start_index_map: MutableSequence[int]
    index_vector_dim: int

class ScatterDimensionNumbers(Message):
    update_window_dims: MutableSequence[int]
    inserted_window_dims: MutableSequence[int]
    scatter_dims_to_operand_dims: MutableSequence[int]
    index_vector_dim: int

class SliceDimensions(Message):
    start: int
    limit: int
    stride: int
