"""What the numbers of the dataset mean: columns, opcodes, element types.

These are the only such tables: others import from here by name.  Positions and
numbers are those of the published feature extractor (docs/guide/raw-files.md);
tests/hlo/test_schema.py holds them against what ours writes.
"""

from collections.abc import Iterable
import dataclasses
from typing import NamedTuple

RANK = 6  # most dimensions in a list of columns


class ElementType(NamedTuple):
    """The type of an array's elements."""

    name: str  # as XLA writes it, in lower case
    number: int  # XLA's PrimitiveType
    bytes: int  # of an element; 0 where there is none


# In the order of their columns.
ELEMENT_TYPES = (
    ElementType('invalid_type', 0, 0),
    ElementType('pred', 1, 1),
    ElementType('s8', 2, 1),
    ElementType('s16', 3, 2),
    ElementType('s32', 4, 4),
    ElementType('s64', 5, 8),
    ElementType('u8', 6, 1),
    ElementType('u16', 7, 2),
    ElementType('u32', 8, 4),
    ElementType('u64', 9, 8),
    ElementType('f16', 10, 2),
    ElementType('f32', 11, 4),
    ElementType('f64', 12, 8),
    ElementType('bf16', 16, 2),
    ElementType('c64', 15, 8),
    ElementType('c128', 18, 16),
    ElementType('tuple', 13, 0),
    ElementType('opaque_type', 14, 0),
    ElementType('token', 17, 0),
)


@dataclasses.dataclass(frozen=True, slots=True)
class Columns:
    """Columns of a matrix of features, by name."""

    names: tuple[str, ...]  # in order

    def __len__(self) -> int:
        return len(self.names)

    def at(self, name: str) -> int:
        """Returns the position of a column; raises ValueError for an unknown one."""
        return self.names.index(name)

    def block(self, name: str) -> slice:
        """Returns the positions of the entries of a list, `<name>_0`, `<name>_1`, ..

        Raises:
            ValueError: there is no such list.
        """
        first = self.at(f'{name}_0')
        size = 1
        while f'{name}_{size}' in self.names:
            size += 1
        return slice(first, first + size)


Entries = tuple[int | str, ...]


class MessageField(NamedTuple):
    """Columns that one field of a message gives.

    Attributes:
        name: the name of the column; columns with entries are called `<name>_<entry>`.
        path: the path of the field, as `gather.Fields` takes it; '': the name.
        entries: places in a list and totals over it, or types that a number stands for;
            () for a single column.
    """

    name: str
    path: str = ''
    entries: Entries = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the field's columns."""
        return tuple(f'{self.name}_{entry}' for entry in self.entries) or (self.name,)


def make_parts(
    name: str, path: str, fields: str, entries: Entries = ()
) -> tuple[MessageField, ...]:
    """Makes fields `<name>_<f>` of message `path`, for each word f of `fields`."""
    return tuple(
        MessageField(f'{name}_{f}', f'{path}.{f}', entries) for f in fields.split()
    )


def make_convolution(fields: str, entries: Entries = ()) -> tuple[MessageField, ...]:
    """Makes fields of a convolution's dim_numbers, for each word of `fields`."""
    paths = [f'convolution_dimension_numbers.{field}' for field in fields.split()]
    return tuple(
        MessageField(path.replace('.', '_').replace('dimension', 'dim'), path, entries)
        for path in paths
    )


def name_columns(fields: Iterable[MessageField]) -> tuple[str, ...]:
    """Returns the names of all columns of fields."""
    return tuple(name for field in fields for name in field.columns)


IS_TYPE = tuple(f'is_{kind.name}' for kind in ELEMENT_TYPES)
# The first entries of a list, for some with totals over all of it.
FIRST_4: Entries = tuple(range(4))
FIRST: Entries = tuple(range(RANK))
WHOLE_2: Entries = (0, 1, 'sum', 'product')
WHOLE: Entries = (*FIRST, 'sum', 'product')

NODE_FIELDS = (
    MessageField('shape_element_type', 'shape.element_type', IS_TYPE),
    MessageField('shape_dimensions', 'shape.dimensions', WHOLE),
    MessageField('shape_tuple_shapes', 'shape.tuple_shapes[].element_type', ('size',)),
    MessageField('parameter_number'),
    MessageField('dimensions', entries=FIRST),
    *make_parts('window', 'window.dimensions[]', 'size stride', WHOLE),
    *make_parts('window', 'window.dimensions[]', 'padding_low padding_high', WHOLE),
    *make_parts(
        'window', 'window.dimensions[]', 'window_dilation base_dilation', WHOLE
    ),
    MessageField(
        'window_window_reversal',
        'window.dimensions[].window_reversal',
        (*FIRST, 'true_count', 'false_count'),
    ),
    *make_convolution('input_batch_dimension input_feature_dimension'),
    *make_convolution('input_spatial_dimensions', FIRST_4),
    *make_convolution('kernel_input_feature_dimension kernel_output_feature_dimension'),
    *make_convolution('kernel_spatial_dimensions', FIRST_4),
    *make_convolution('output_batch_dimension output_feature_dimension'),
    MessageField('feature_group_count'),
    MessageField('batch_group_count'),
    *make_parts('slice_dims', 'slice_dimensions[]', 'start stride limit', WHOLE_2),
    MessageField('dynamic_slice_sizes', entries=WHOLE_2),
    *make_parts(
        'padding_config',
        'padding_config.dimensions[]',
        'edge_padding_low edge_padding_high',
        WHOLE_2,
    ),
    MessageField('is_stable'),
    MessageField('layout_minor_to_major', 'shape.layout.minor_to_major', FIRST),
)
# The first two are no fields; the second is 0 everywhere.
NODE = Columns(('is_root', 'element_size_in_bits', *name_columns(NODE_FIELDS)))
IS_ROOT = NODE.at('is_root')
IS_TUPLE = NODE.at('shape_element_type_is_tuple')
TYPES = slice(
    NODE.at(f'shape_element_type_is_{ELEMENT_TYPES[0].name}'),
    NODE.at(f'shape_element_type_is_{ELEMENT_TYPES[-1].name}') + 1,
)
DIMENSIONS = NODE.block('shape_dimensions')
AXES = NODE.block('dimensions')  # of a transpose, reduction, broadcast, ...
WINDOW = NODE.block('window_size')
MINOR_TO_MAJOR = NODE.block('layout_minor_to_major')  # fastest dimension first
# Which of an array's dimensions are a convolution's batch and features.
INPUT_BATCH = NODE.at('convolution_dim_numbers_input_batch_dim')
INPUT_FEATURE = NODE.at('convolution_dim_numbers_input_feature_dim')
KERNEL_INPUT = NODE.at('convolution_dim_numbers_kernel_input_feature_dim')
KERNEL_OUTPUT = NODE.at('convolution_dim_numbers_kernel_output_feature_dim')
OUTPUT_BATCH = NODE.at('convolution_dim_numbers_output_batch_dim')
OUTPUT_FEATURE = NODE.at('convolution_dim_numbers_output_feature_dim')

# What the published columns leave out: the optional array `node_feat_extra`.
_DOT = (
    'lhs_contracting_dimensions rhs_contracting_dimensions '
    'lhs_batch_dimensions rhs_batch_dimensions'
)
_GATHER = 'offset_dims collapsed_slice_dims start_index_map'
_SCATTER = 'update_window_dims inserted_window_dims scatter_dims_to_operand_dims'
EXTRA_FIELDS = (
    *make_parts('dot', 'dot_dimension_numbers', _DOT, FIRST_4),
    *make_parts('gather', 'gather_dimension_numbers', _GATHER, FIRST),
    *make_parts('gather', 'gather_dimension_numbers', 'index_vector_dim'),
    MessageField('gather_slice_sizes', entries=FIRST),
    *make_parts('scatter', 'scatter_dimension_numbers', _SCATTER, FIRST),
    *make_parts('scatter', 'scatter_dimension_numbers', 'index_vector_dim'),
    *make_convolution('output_spatial_dimensions', FIRST_4),
    # Of these the published columns have two dimensions, and no interior padding.
    *make_parts('slice', 'slice_dimensions[]', 'start limit stride', FIRST),
    MessageField('dynamic_slice', 'dynamic_slice_sizes', FIRST),
    MessageField('pad_low', 'padding_config.dimensions[].edge_padding_low', FIRST),
    MessageField('pad_high', 'padding_config.dimensions[].edge_padding_high', FIRST),
    MessageField('pad_interior', 'padding_config.dimensions[].interior_padding', FIRST),
)
FUSION_KINDS = ('kLoop', 'kInput', 'kOutput', 'kCustom')
SHARDINGS = ('replicated', 'maximal', 'tuple', 'other', 'manual')  # by XLA's numbers
EXTRA = Columns(
    (
        *name_columns(EXTRA_FIELDS),
        # Number of the node less that of its operand; 0 where there is none.  Edges do
        # not tell which operand is which.
        *(f'operand_distance_{number}' for number in range(3)),
        *(f'fusion_kind_is_{kind}' for kind in FUSION_KINDS),
        *(f'sharding_is_{kind}' for kind in SHARDINGS),
        # The value as sign(x) log(1 + |x|); infinity as the largest float32, NaN as 0.
        *('constant_is_scalar', 'constant_log_value'),
    )
)
# The columns of `PackedSplit.with_extra`.
NODE_AND_EXTRA = Columns((*NODE.names, *EXTRA.names))

# Tile configurations: the lists of a TileSizeConfig that are features.
TILE_LISTS = ('kernel_bounds', 'output_bounds', 'input_bounds')
TILE_FIELDS = tuple(MessageField(bounds, entries=WHOLE) for bounds in TILE_LISTS)
TILE = Columns(name_columns(TILE_FIELDS))
KERNEL_BOUNDS, OUTPUT_BOUNDS, INPUT_BOUNDS = map(TILE.block, TILE_LISTS)

# Layout configurations: minor_to_major of three arrays, -1 where absent.
LAYOUT_ARRAYS = ('output', 'input', 'kernel')
LAYOUT = Columns(
    name_columns(MessageField(array, entries=FIRST) for array in LAYOUT_ARRAYS)
)

# Opcodes, the first has number 1.  `trace` and `tuple-select` no longer exist in
# XLA; they keep their numbers.
UNKNOWN_OPCODE = 0
OPCODES = tuple(
    """
    abs add add-dependency after-all all-reduce all-to-all atan2
    batch-norm-grad batch-norm-inference batch-norm-training bitcast
    bitcast-convert broadcast call ceil cholesky clamp collective-permute
    count-leading-zeros compare complex concatenate conditional constant convert
    convolution copy copy-done copy-start cosine custom-call divide domain dot
    dynamic-slice dynamic-update-slice exponential exponential-minus-one fft
    floor fusion gather get-dimension-size set-dimension-size get-tuple-element
    imag infeed iota is-finite log log-plus-one and not or xor map maximum
    minimum multiply negate outfeed pad parameter partition-id popcnt power real
    recv recv-done reduce reduce-precision reduce-window remainder replica-id
    reshape reverse rng rng-get-and-update-state rng-bit-generator
    round-nearest-afz rsqrt scatter select select-and-scatter send send-done
    shift-left shift-right-arithmetic shift-right-logical sign sine slice sort
    sqrt subtract tanh trace transpose triangular-solve tuple tuple-select while
    cbrt all-gather collective-permute-start collective-permute-done logistic
    dynamic-reshape all-reduce-start all-reduce-done reduce-scatter
    all-gather-start all-gather-done opt-barrier async-start async-update
    async-done round-nearest-even stochastic-convert tan
    """.split()
)
OPCODE_NUMBERS = {name: number for number, name in enumerate(OPCODES, start=1)}


def find_opcode_numbers(opcodes: Iterable[str]) -> list[int]:
    """Returns the numbers of opcode names; `UNKNOWN_OPCODE` of others.

    Names are matched exactly, case included.
    """
    return [OPCODE_NUMBERS.get(o, UNKNOWN_OPCODE) for o in opcodes]
