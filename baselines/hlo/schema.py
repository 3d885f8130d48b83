"""What the numbers of the dataset mean: columns, opcodes, element types.

These are the only such tables: others import from here by name.  Positions and
numbers are those of the published feature extractor (docs/raw-files.md);
tests/hlo/test_schema.py holds them against what ours writes.
"""

import dataclasses
from typing import Iterable, NamedTuple, Tuple

import numpy as np

RANK = 6  # dimensions that a list of columns has room for
TOTALS = ('sum', 'product')  # over whole lists, behind their first entries


class ElementType(NamedTuple):
    """Of an array.

    Attributes:
        name: as XLA writes it, in lower case.
        number: XLA's PrimitiveType.
        bytes: of an element; 0 where there is none.
    """

    name: str
    number: int
    bytes: int


# In the order of their columns.  Newer types (8-bit floats, 4-bit integers) have
# none.
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


@dataclasses.dataclass(frozen=True)
class Columns:
    """Columns of a matrix of features, by name.

    Attributes:
        names: in order.
    """

    names: Tuple[str, ...]

    def __len__(self) -> int:
        return len(self.names)

    def at(self, name: str) -> int:
        """Position of a column.

        Raises:
            ValueError: there is no such column.
        """
        return self.names.index(name)

    def block(self, name: str) -> slice:
        """Positions of the entries of a list, `<name>_0`, `<name>_1`, ..

        Raises:
            ValueError: there is no such list.
        """
        first = self.at(f'{name}_0')
        size = 1
        while f'{name}_{size}' in self.names:
            size += 1
        return slice(first, first + size)


def _list(name: str, width: int, *totals: str) -> Tuple[str, ...]:
    return tuple(f'{name}_{entry}' for entry in (*range(width), *totals))


NODE = Columns(
    (
        'is_root',
        'element_size_in_bits',
        *(f'shape_element_type_is_{kind.name}' for kind in ELEMENT_TYPES),
        *_list('shape_dimensions', RANK, *TOTALS),
        'shape_tuple_shapes_size',
        'parameter_number',
        *_list('dimensions', RANK),
        *_list('window_size', RANK, *TOTALS),
        *_list('window_stride', RANK, *TOTALS),
        *_list('window_padding_low', RANK, *TOTALS),
        *_list('window_padding_high', RANK, *TOTALS),
        *_list('window_window_dilation', RANK, *TOTALS),
        *_list('window_base_dilation', RANK, *TOTALS),
        *_list('window_window_reversal', RANK, 'true_count', 'false_count'),
        'convolution_dim_numbers_input_batch_dim',
        'convolution_dim_numbers_input_feature_dim',
        *_list('convolution_dim_numbers_input_spatial_dims', 4),
        'convolution_dim_numbers_kernel_input_feature_dim',
        'convolution_dim_numbers_kernel_output_feature_dim',
        *_list('convolution_dim_numbers_kernel_spatial_dims', 4),
        'convolution_dim_numbers_output_batch_dim',
        'convolution_dim_numbers_output_feature_dim',
        'feature_group_count',
        'batch_group_count',
        *_list('slice_dims_start', 2, *TOTALS),
        *_list('slice_dims_stride', 2, *TOTALS),
        *_list('slice_dims_limit', 2, *TOTALS),
        *_list('dynamic_slice_sizes', 2, *TOTALS),
        *_list('padding_config_edge_padding_low', 2, *TOTALS),
        *_list('padding_config_edge_padding_high', 2, *TOTALS),
        'is_stable',
        *_list('layout_minor_to_major', RANK),
    )
)
IS_ROOT = NODE.at('is_root')
IS_TUPLE = NODE.at('shape_element_type_is_tuple')
TYPES = slice(
    NODE.at(f'shape_element_type_is_{ELEMENT_TYPES[0].name}'),
    NODE.at(f'shape_element_type_is_{ELEMENT_TYPES[-1].name}') + 1,
)
DIMENSIONS = NODE.block('shape_dimensions')
MINOR_TO_MAJOR = NODE.block('layout_minor_to_major')  # fastest dimension first
# Which of an array's dimensions are a convolution's batch and features.
INPUT_BATCH = NODE.at('convolution_dim_numbers_input_batch_dim')
INPUT_FEATURE = NODE.at('convolution_dim_numbers_input_feature_dim')
KERNEL_INPUT = NODE.at('convolution_dim_numbers_kernel_input_feature_dim')
KERNEL_OUTPUT = NODE.at('convolution_dim_numbers_kernel_output_feature_dim')
OUTPUT_BATCH = NODE.at('convolution_dim_numbers_output_batch_dim')
OUTPUT_FEATURE = NODE.at('convolution_dim_numbers_output_feature_dim')

# Tile configurations: the lists of a TileSizeConfig that are features.
TILE_LISTS = ('kernel_bounds', 'output_bounds', 'input_bounds')
TILE = Columns(
    tuple(name for bounds in TILE_LISTS for name in _list(bounds, RANK, *TOTALS))
)

# Layout configurations: minor_to_major of three arrays, -1 where absent.
LAYOUT_ARRAYS = ('output', 'input', 'kernel')
LAYOUT = Columns(tuple(name for array in LAYOUT_ARRAYS for name in _list(array, RANK)))

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


def opcode_numbers(opcodes: Iterable[str]) -> np.ndarray:
    """Returns the numbers of opcode names, uint8; `UNKNOWN_OPCODE` of others.

    Names are matched exactly, case included.
    """
    return np.array([OPCODE_NUMBERS.get(o, UNKNOWN_OPCODE) for o in opcodes], np.uint8)
