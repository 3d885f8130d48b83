"""A small builder of simulated HLO modules: instructions, computations, fusions.

Every instruction knows the usual HLO fields and, for the simulation only, how
each of its dimensions follows the kernel's tile (`Tensor.axes`).  A kernel's
loops run over *axes*, numbered from 0: the logical dimensions of the tensor
that is tiled, then the contracted dimensions of a matrix product.
"""

import dataclasses
from typing import Callable, List, NamedTuple, Optional, Sequence, Tuple


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

    @property
    def moving(self) -> Tuple[int, ...]:
        """The axes that move the tensor's tile."""
        follows = [follow for follow in self.axes if follow is not None]
        found = {a for f in follows for a in (f.axis, f.window_axis) if a is not None}
        return tuple(sorted(found))

    def typed(self, dtype: str) -> 'Tensor':
        """Returns the same tensor with other elements."""
        return self._replace(dtype=dtype)

    def ordered(self, layout: Sequence[int]) -> 'Tensor':
        """Returns the same tensor in another layout."""
        return self._replace(layout=tuple(layout))

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
    """One HLO instruction; two are the same only if they are one object.

    Its operators and methods append to the computation that it is in.
    """

    home: 'Computation'  # where it is
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

    # Of whole programs alone.

    # of a product's dimensions of output, first and second operand, a letter each: `b`
    # in all three, `m` output and first, `n` output and second, `k` summed over; `s` an
    # image's height or width, `w` a window's
    roles: Tuple[str, str, str] = ('', '', '')
    spec: str = ''  # of a dot, its subscripts as `numpy.einsum` takes them
    # of a value with a gradient of its own (a loop's): takes that of the value, returns
    # pairs (earlier value, gradient)
    gradient: Optional[Callable] = None

    def op(self, opcode: str, *others: 'Instruction') -> 'Instruction':
        """Adds an element-wise operation: same shape as its last operand."""
        shape = (self, *others)[-1].shape
        made = shape.typed('pred') if opcode == 'compare' else shape
        return self.home.add(opcode, made, self, *others)

    def __add__(self, other: 'Instruction') -> 'Instruction':
        return self.op('add', other)

    def __sub__(self, other: 'Instruction') -> 'Instruction':
        return self.op('subtract', other)

    def __mul__(self, other: 'Instruction') -> 'Instruction':
        return self.op('multiply', other)

    def __truediv__(self, other: 'Instruction') -> 'Instruction':
        return self.op('divide', other)

    def __neg__(self) -> 'Instruction':
        return self.op('negate')

    def fill(self) -> 'Instruction':
        """Adds a constant in the shape of this."""
        return self.home.constant(self.shape)

    def broadcast(self, to: Tensor, dims: Sequence[int]) -> 'Instruction':
        """Repeats this to a shape, where its own dimensions become `dims`."""
        made = to.typed(self.shape.dtype)
        return self.home.add('broadcast', made, self, dimensions=tuple(dims))

    def convert(self, dtype: str) -> 'Instruction':
        """Converts the elements; this itself where it has them already."""
        if self.shape.dtype == dtype:
            return self
        return self.home.add('convert', self.shape.typed(dtype), self)

    def reduce(self, dims: Sequence[int], opcode: str = 'add') -> 'Instruction':
        """Sums over logical dimensions, or takes what else `opcode` gives of two."""
        kept = [d for d in range(len(self.shape.dims)) if d not in dims]
        calls = (self.home.reducers[opcode, self.shape.dtype],)
        start = self.home.add('constant', self.shape.keep(()))
        made, over = self.shape.keep(kept), tuple(dims)
        return self.home.add('reduce', made, self, start, calls=calls, dimensions=over)


TUPLE = Tensor('tuple', (), (), ())


class Computation:
    """Instructions in topological order; the last one is the root.

    Args:
        name: of a whole program's computation; as in real files, the names of loop
            bodies and conditions contain 'while' and 'cond', which ends a segment.
        executions: how often one run of the program executes it; 0 for the reducers,
            whose work belongs to the instruction that calls them.
        reducers: those of the module, where it has other computations that reduce.
    """

    def __init__(
        self, name: str = '', executions: int = 1, reducers: Optional['Reducers'] = None
    ):
        self.name, self.executions = name, executions
        self.instructions: List[Instruction] = []
        self.reducers = Reducers() if reducers is None else reducers

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
        made = Instruction(self, opcode, shape, tuple(operands), **fields)
        self.instructions.append(made)
        return made

    def parameter(self, shape: Tensor) -> Instruction:
        """Adds the next parameter."""
        return self.add('parameter', shape, parameter_number=len(self.parameters))

    def load(self, shape: Tensor) -> Instruction:
        """Adds a parameter; bf16 is widened, since sums run in f32."""
        given = self.parameter(shape)
        return given.convert('f32') if shape.dtype == 'bf16' else given

    def constant(self, like: Tensor) -> Instruction:
        """Adds a scalar constant and, to the shape of `like`, its broadcast."""
        scalar = self.add('constant', like.keep(()))
        return scalar.broadcast(like, ()) if like.dims else scalar

    def vector(self, like: Tensor, dims: Sequence[int], dtype: str = '') -> Instruction:
        """Adds a parameter over `dims` of `like`, and its broadcast."""
        given = self.parameter(like.keep(dims).typed(dtype or like.dtype))
        return given.broadcast(like, dims)

    def tuple(self, *operands: Instruction) -> Instruction:
        """Ends the computation with these results (one: no tuple needed)."""
        if len(operands) == 1 and operands[0] is self.root:
            return operands[0]
        return self.add('tuple', TUPLE, *operands, tuple_size=len(operands))


class Reducers(dict):
    """(opcode, dtype) -> the computation that combines two scalars; made once."""

    def __missing__(self, key: Tuple[str, str]) -> Computation:
        opcode, dtype = key
        made, scalar = Computation(f'{opcode}_{dtype}', 0), tensor(dtype, ())
        made.parameter(scalar).op(opcode, made.parameter(scalar))
        self[key] = made
        return made


class Fusion(Computation):
    """The body of a kernel under construction.

    As in the real kernels, the entry computation holds the parameters and one
    `fusion` that calls the body; reducers and producers come before.
    """

    def __init__(self):
        super().__init__()
        self._before: List[Computation] = []

    def producer(self, inner: Computation) -> Instruction:
        """Calls `inner` as a fusion with parameters of its own."""
        self._before.append(inner)
        given = [self.parameter(p.shape) for p in inner.parameters]
        return self.add('fusion', inner.root.shape, *given, calls=(inner,))

    def finish(self) -> List[Computation]:
        """Returns the computations, callees first; the last is the entry."""
        entry, root = Computation(), self.root
        given = [entry.parameter(p.shape) for p in self.parameters]
        size = root.tuple_size
        entry.add('fusion', root.shape, *given, calls=(self,), tuple_size=size)
        return [*self.reducers.values(), *self._before, self, entry]
