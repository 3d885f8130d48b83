"""Builds simulated whole programs, one HLO instruction after the other.

The instructions are those of the tile simulator (`baselines.simulated.hlo`);
here they are not fused, and they sit in an entry computation that calls
reducers and loops.
"""

import math
from typing import Callable, List, Sequence

from baselines.simulated import hlo
from baselines.simulated.hlo import TUPLE, Computation, Instruction, Tensor

# What keeps the place of its operands: one value in, one value out.
ELEMENTWISE = frozenset(
    'abs add and compare convert divide exponential log logistic maximum minimum '
    'multiply negate not or power rsqrt select sqrt subtract tanh'.split()
)


def shape(dtype: str, dims: Sequence[int]) -> Tensor:
    """Returns a row-major shape."""
    return hlo.tensor(dtype, tuple(dims), [None] * len(dims))


def scaled(x: Instruction) -> Instruction:
    """Multiplies by a constant."""
    return x * x.fill()


def transpose(x: Instruction, order: Sequence[int]) -> Instruction:
    """Dimension i of the result is dimension `order[i]` of `x`."""
    made = shape(x.shape.dtype, [x.shape.dims[d] for d in order])
    return x.home.add('transpose', made, x, dimensions=tuple(order))


def reshape(x: Instruction, dims: Sequence[int]) -> Instruction:
    """Splits and merges dimensions."""
    if math.prod(dims) != math.prod(x.shape.dims):
        raise ValueError(f'cannot reshape {x.shape.dims} to {tuple(dims)}')
    return x.home.add('reshape', shape(x.shape.dtype, dims), x)


def dot(spec: str, x: Instruction, y: Instruction) -> Instruction:
    """Multiplies and sums as `numpy.einsum` does for 'ab,bc->ac'.

    HLO's order of dimensions is batch, first operand's, second's; another
    one takes a transpose.
    """
    left, right, wanted = spec.replace('->', ',').split(',')
    sizes = dict(zip(left + right, x.shape.dims + y.shape.dims))
    roles = {c: _role(c, left, right, wanted) for c in sizes}
    places = (('b', left), ('m', left), ('n', right))
    out = ''.join(c for role, side in places for c in side if roles[c] == role)
    made = x.home.add(
        'dot',
        shape(x.shape.dtype, [sizes[c] for c in out]),
        x,
        y,
        roles=tuple(''.join(roles[c] for c in s) for s in (out, left, right)),
        spec=f'{left},{right}->{out}',
    )
    if out == wanted:
        return made
    return transpose(made, [out.index(c) for c in wanted])


def convolve(x, kernel, numbers, dims, window, roles) -> Instruction:
    """Adds a convolution; all fields as HLO has them, `roles` as `Instruction`."""
    made = shape(x.shape.dtype, dims)
    fields = {'window': tuple(window), 'convolution': numbers, 'roles': roles}
    return x.home.add('convolution', made, x, kernel, **fields)


def windowed(opcode: str, dims, *operands, window, calls='maximum') -> Instruction:
    """Adds reduce-window or select-and-scatter over height and width."""
    first = operands[0]
    start = first.home.add('constant', first.shape.keep(()))
    made = shape(first.shape.dtype, dims)
    calls = (first.home.reducers[calls, first.shape.dtype],)
    window = (hlo.Window(1), *window, hlo.Window(1))
    return first.home.add(opcode, made, *operands, start, calls=calls, window=window)


class Net:
    """A program under construction.

    Attributes:
        training: whether gradients and updates are to follow.
        dtype: element type of activations and weights.
        trainable: parameters to update, in the order of their creation.
    """

    def __init__(self, training: bool, dtype: str = 'f32'):
        self.training = training
        self.dtype = dtype
        self.trainable: List[Instruction] = []
        self._entry = Computation('main')
        self._loops: List[Computation] = []

    def parameter(self, dims: Sequence[int], dtype: str = '') -> Instruction:
        """Adds an argument of the program."""
        return self._entry.parameter(shape(dtype or self.dtype, dims))

    def weight(self, *dims: int) -> Instruction:
        """Adds an argument that training updates."""
        self.trainable.append(self.parameter(dims))
        return self.trainable[-1]

    def zeros(self, *dims: int) -> Instruction:
        """Adds an array of one constant."""
        return self._entry.constant(shape(self.dtype, dims))

    def loop(self, state, trips: int, body: Callable, label: str) -> List[Instruction]:
        """Adds a while loop.

        Args:
            state: values carried; each gets what `body` returns in its place.
            trips: how often the body runs.
            body: called with the counter and the carried values, which are in the
                loop's body; returns the new values.
            label: of the loop, for the names of its computations.

        Returns:
            The carried values after the loop.
        """
        outside, size = self._entry, len(state) + 1
        inside = Computation(f'while_body_{label}', trips, outside.reducers)
        condition = Computation(f'while_cond_{label}', trips)
        counter = outside.add('constant', shape('s32', ()))
        first = outside.add('tuple', TUPLE, counter, *state, tuple_size=size)
        carried = inside.parameter(TUPLE)
        carried.tuple_size = size
        parts = [
            inside.add('get-tuple-element', v.shape, carried) for v in first.operands
        ]
        new = body(*parts)
        step = parts[0] + parts[0].fill()
        inside.tuple(step, *new)
        given = condition.parameter(TUPLE)
        given.tuple_size = size
        now = condition.add('get-tuple-element', counter.shape, given)
        now.op('compare', now.fill())
        self._loops += [inside, condition]
        calls = (condition, inside)
        done = outside.add('while', TUPLE, first, calls=calls, tuple_size=size)
        return [outside.add('get-tuple-element', v.shape, done) for v in state]

    def finish(self, results: Sequence[Instruction]) -> List[Computation]:
        """Ends the program with its results; what they do not need is removed.

        Returns:
            The computations, callees first; the last is the entry.
        """
        self._entry.tuple(*results)
        computations = [*self._loops, self._entry]
        for computation in computations:
            _remove_unused(computation)
        return [*self._entry.reducers.values(), *computations]


def _role(letter: str, left: str, right: str, wanted: str) -> str:
    if letter not in wanted:
        return 'k'
    if letter in left and letter in right:
        return 'b'
    return 'm' if letter in left else 'n'


def _remove_unused(computation: Computation) -> None:
    """Drops instructions that the root does not need; parameters stay."""
    needed = {id(computation.root)}
    kept = []
    for instruction in reversed(computation.instructions):
        if id(instruction) in needed or instruction.opcode == 'parameter':
            needed.update(id(o) for o in instruction.operands)
            kept.append(instruction)
    computation.instructions[:] = reversed(kept)
