"""A small builder of simulated HLO modules: instructions, computations, fusions.

Every instruction knows the usual HLO fields and, for the simulation only, how
each of its dimensions follows the kernel's tile (`Tensor.axes`).  A kernel's
loops run over *axes*, numbered from 0: the logical dimensions of the tensor
that is tiled, then the contracted dimensions of a matrix product.
"""

import dataclasses
from typing import List, NamedTuple, Optional, Sequence, Tuple


class Follow(NamedTuple):
    """How one dimension of a tensor follows the tile.

    The tile covers `ceil(numerator * tile[axis] / denominator)` elements of the
    dimension; with `window_axis`, a convolution's input, it covers
    `(tile[axis] - 1) * numerator + tile[window_axis]`.  Never more than the
    whole dimension.
    """

    axis: int
    numerator: int = 1
    denominator: int = 1
    window_axis: Optional[int] = None


class Tensor(NamedTuple):
    """Shape of an array, and how it follows the tile."""

    dtype: str  # XLA's name, e.g. 'f32', 'bf16', 's32', 'pred'
    dims: Tuple[int, ...]  # sizes of the logical dimensions, elements
    # minor_to_major, logical dimensions from fastest to slowest
    layout: Tuple[int, ...]
    # per logical dimension a `Follow`, or None where each tile needs the dimension
    # whole
    axes: Tuple[Optional[Follow], ...]

    def typed(self, dtype: str) -> 'Tensor':
        """Returns the same tensor with other elements."""
        return self._replace(dtype=dtype)

    def keep(self, dimensions: Sequence[int]) -> 'Tensor':
        """Returns the tensor that has only these logical dimensions left."""
        new = {old: i for i, old in enumerate(dimensions)}
        return Tensor(
            self.dtype,
            tuple(self.dims[d] for d in dimensions),
            tuple(new[d] for d in self.layout if d in new),
            tuple(self.axes[d] for d in dimensions),
        )


def tensor(dtype: str, dims: Sequence[int], axes=None, layout=None) -> Tensor:
    """Returns a `Tensor`; by default dimension d follows axis d, row major.

    Args:
        dtype: XLA's name of the element type.
        dims: sizes, elements.
        axes: per dimension an axis number, a `Follow` or None.
        layout: minor_to_major.
    """
    rank = len(dims)
    axes = range(rank) if axes is None else axes
    follows = tuple(Follow(a) if isinstance(a, int) else a for a in axes)
    layout = range(rank - 1, -1, -1) if layout is None else layout
    return Tensor(dtype, tuple(dims), tuple(layout), follows)


class Window(NamedTuple):
    """One spatial dimension of a convolution's window, as HLO names its fields."""

    size: int
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0


class ConvolutionDims(NamedTuple):
    """Dimension numbers: input (batch, feature, spatial), kernel, output; as HLO's."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: Tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: Tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int


@dataclasses.dataclass(eq=False)
class Instruction:
    """One HLO instruction; two are the same only if they are one object."""

    opcode: str
    shape: Tensor
    operands: Tuple['Instruction', ...] = ()
    calls: Tuple['Computation', ...] = ()
    dimensions: Tuple[int, ...] = ()
    parameter_number: int = 0
    tuple_size: int = 0
    window: Tuple[Window, ...] = ()
    convolution: Optional[ConvolutionDims] = None
    slices: Tuple[Tuple[int, int, int], ...] = ()  # start, limit, stride
    padding: Tuple[Tuple[int, int], ...] = ()  # low, high


TUPLE = Tensor('tuple', (), (), ())


class Computation:
    """Instructions in topological order; the last one is the root."""

    def __init__(self):
        self.instructions: List[Instruction] = []

    @property
    def root(self) -> Instruction:
        """The instruction whose value the computation returns."""
        return self.instructions[-1]

    @property
    def parameters(self) -> List[Instruction]:
        """The parameters in order of their numbers."""
        found = [i for i in self.instructions if i.opcode == 'parameter']
        return sorted(found, key=lambda i: i.parameter_number)

    def add(self, opcode: str, shape: Tensor, *operands, **fields) -> Instruction:
        """Appends an instruction and returns it."""
        made = Instruction(opcode, shape, tuple(operands), **fields)
        self.instructions.append(made)
        return made

    def parameter(self, shape: Tensor) -> Instruction:
        """Adds the next parameter."""
        return self.add('parameter', shape, parameter_number=len(self.parameters))

    def constant(self, like: Tensor) -> Instruction:
        """Adds a scalar constant and, to the shape of `like`, its broadcast."""
        scalar = self.add('constant', like.keep(()))
        return self.add('broadcast', like, scalar) if like.dims else scalar

    def broadcast(self, x: Instruction, to: Tensor, dims: Sequence[int]):
        """Broadcasts `x`, whose dimensions become `dims` of the result."""
        return self.add('broadcast', to.typed(x.shape.dtype), x, dimensions=tuple(dims))

    def vector(self, like: Tensor, dims: Sequence[int], dtype: str = ''):
        """Adds a parameter over `dims` of `like`, and its broadcast."""
        given = self.parameter(like.keep(dims).typed(dtype or like.dtype))
        return self.broadcast(given, like, dims)

    def op(self, opcode: str, *operands: Instruction) -> Instruction:
        """Adds an element-wise operation: same shape as its last operand."""
        shape = operands[-1].shape
        return self.add(
            opcode, shape.typed('pred') if opcode == 'compare' else shape, *operands
        )

    def reduce(self, x: Instruction, dims: Sequence[int], reducer: 'Computation'):
        """Adds a reduction over the logical dimensions `dims` of `x`."""
        kept = [d for d in range(len(x.shape.dims)) if d not in dims]
        start = self.add('constant', x.shape.keep(()))
        made, over = x.shape.keep(kept), tuple(dims)
        return self.add('reduce', made, x, start, calls=(reducer,), dimensions=over)

    def convert(self, x: Instruction, dtype: str) -> Instruction:
        """Converts the elements of `x`; `x` itself where it has them already."""
        if x.shape.dtype == dtype:
            return x
        return self.add('convert', x.shape.typed(dtype), x)

    def tuple(self, *operands: Instruction) -> Instruction:
        """Ends the computation with these results (one: no tuple needed)."""
        if len(operands) == 1 and operands[0] is self.root:
            return operands[0]
        return self.add('tuple', TUPLE, *operands, tuple_size=len(operands))


class Reducers(dict):
    """(opcode, dtype) -> the computation that combines two scalars; made once."""

    def __missing__(self, key: Tuple[str, str]) -> Computation:
        opcode, dtype = key
        made, scalar = Computation(), tensor(dtype, ())
        made.add(opcode, scalar, made.parameter(scalar), made.parameter(scalar))
        self[key] = made
        return made


class Fusion:
    """A kernel under construction: called computations, body, entry.

    As in the real kernels, the entry computation holds the parameters and one
    `fusion` that calls the body; reducers and producers come before.
    """

    def __init__(self):
        self.body = Computation()
        self._before: List[Computation] = []
        self._reducers = Reducers()

    def reduce(self, x: Instruction, dims: Sequence[int], opcode: str = 'add'):
        """Adds `reduce` over the logical dimensions `dims` of `x`."""
        return self.body.reduce(x, dims, self._reducers[opcode, x.shape.dtype])

    def producer(self, inner: Computation) -> Instruction:
        """Calls `inner` in the body as a fusion with parameters of its own."""
        self._before.append(inner)
        given = [self.body.parameter(p.shape) for p in inner.parameters]
        return self.body.add('fusion', inner.root.shape, *given, calls=(inner,))

    def finish(self) -> List[Computation]:
        """Returns the computations, callees first; the last is the entry."""
        entry = Computation()
        given = [entry.parameter(p.shape) for p in self.body.parameters]
        root = self.body.root
        entry.add(
            'fusion', root.shape, *given, calls=(self.body,), tuple_size=root.tuple_size
        )
        return [*self._reducers.values(), *self._before, self.body, entry]
