"""Builds simulated whole programs, one HLO instruction after the other.

The instructions are those of the tile simulator (`baselines.simulated.hlo`);
here they are not fused, and they sit in an entry computation that calls
reducers and loops.
"""

import dataclasses
import math
from typing import Callable, Dict, List, NamedTuple, Sequence, Tuple

from baselines.simulated import hlo
from baselines.simulated.hlo import TUPLE, Computation, Instruction, Tensor

# What keeps the place of its operands: one value in, one value out.
ELEMENTWISE = frozenset(
    'abs add and compare convert divide exponential log logistic maximum minimum '
    'multiply negate not or power rsqrt select sqrt subtract tanh'.split()
)


@dataclasses.dataclass(eq=False)
class Product(Instruction):
    """A dot or a convolution."""

    # of the dimensions of output, first and second operand, a letter each: `b` in all
    # three, `m` output and first, `n` output and second, `k` summed over; `s` an
    # image's height or width, `w` a window's
    roles: Tuple[str, str, str] = ('', '', '')
    spec: str = ''  # of a dot, the subscripts that `Net.dot` was given


class Module(NamedTuple):
    """A finished program."""

    computations: List[Computation]  # callees first, the entry last
    # theirs; as in real files, the names of loop bodies and conditions contain 'while'
    # and 'cond', which ends a segment
    names: List[str]
    # how often one run of the program executes each; 0 for the reducers, whose work
    # belongs to the instruction that calls them
    executions: List[int]

    @property
    def nodes(self) -> List[Instruction]:
        """All instructions, in the order of the graph's nodes."""
        return [i for c in self.computations for i in c.instructions]


def shape(dtype: str, dims: Sequence[int]) -> Tensor:
    """Returns a row-major shape."""
    return hlo.tensor(dtype, tuple(dims), [None] * len(dims))


class Net:
    """A program under construction; methods append to the computation `here`.

    Attributes:
        here: the computation that grows, the entry or a loop's body.
        training: whether gradients and updates are to follow.
        dtype: element type of activations and weights.
        trainable: parameters to update, in the order of their creation.
        custom: of values with a gradient of their own (loops), by `id`: takes
            the value's gradient, returns pairs (earlier value, gradient).
    """

    def __init__(self, training: bool, dtype: str = 'f32'):
        self.training = training
        self.dtype = dtype
        self.here = Computation()
        self.trainable: List[Instruction] = []
        self.custom: Dict[int, Callable] = {}
        self._entry = self.here
        self._before: List[Tuple[str, Computation, int]] = []
        self.reducers = hlo.Reducers()

    def parameter(self, dims: Sequence[int], dtype: str = '', trainable=False):
        """Adds an argument of the program."""
        made = self._entry.parameter(shape(dtype or self.dtype, dims))
        if trainable:
            self.trainable.append(made)
        return made

    def weight(self, *dims: int) -> Instruction:
        """Adds an argument that training updates."""
        return self.parameter(dims, trainable=True)

    def fill(self, like: Instruction) -> Instruction:
        """Adds a constant in the shape of `like`."""
        return self.here.constant(like.shape)

    def op(self, opcode: str, *operands: Instruction) -> Instruction:
        """Adds an element-wise operation on operands of one shape."""
        return self.here.op(opcode, *operands)

    def scaled(self, x: Instruction) -> Instruction:
        """Multiplies by a constant."""
        return self.op('multiply', x, self.fill(x))

    def broadcast(self, x: Instruction, dims: Sequence[int], at: Sequence[int]):
        """Repeats `x` to `dims`; its own dimensions become `at`."""
        return self.here.broadcast(x, shape('', dims), at)

    def along(self, x: Instruction, like: Instruction, at: Sequence[int]):
        """Broadcasts `x` to the shape of `like`."""
        return self.here.broadcast(x, like.shape, at)

    def reduce(self, x: Instruction, over: Sequence[int], opcode='add'):
        """Sums (or takes the maximum) over dimensions."""
        return self.here.reduce(x, over, self.reducers[opcode, x.shape.dtype])

    def transpose(self, x: Instruction, order: Sequence[int]) -> Instruction:
        """Dimension i of the result is dimension `order[i]` of `x`."""
        dims = [x.shape.dims[d] for d in order]
        made = shape(x.shape.dtype, dims)
        return self.here.add('transpose', made, x, dimensions=tuple(order))

    def reshape(self, x: Instruction, dims: Sequence[int]) -> Instruction:
        """Splits and merges dimensions."""
        if math.prod(dims) != math.prod(x.shape.dims):
            raise ValueError(f'cannot reshape {x.shape.dims} to {tuple(dims)}')
        return self.here.add('reshape', shape(x.shape.dtype, dims), x)

    def dot(self, spec: str, x: Instruction, y: Instruction) -> Instruction:
        """Multiplies and sums as `numpy.einsum` does for 'ab,bc->ac'.

        HLO's order of dimensions is batch, first operand's, second's; another
        one takes a transpose.
        """
        left, right, wanted = spec.replace('->', ',').split(',')
        sizes = dict(zip(left + right, x.shape.dims + y.shape.dims))
        roles = {c: _role(c, left, right, wanted) for c in sizes}
        places = (('b', left), ('m', left), ('n', right))
        out = ''.join(c for role, side in places for c in side if roles[c] == role)
        made = Product(
            'dot',
            shape(x.shape.dtype, [sizes[c] for c in out]),
            (x, y),
            roles=tuple(''.join(roles[c] for c in s) for s in (out, left, right)),
            spec=f'{left},{right}->{out}',
        )
        self.here.instructions.append(made)
        if out == wanted:
            return made
        return self.transpose(made, [out.index(c) for c in wanted])

    def convolve(self, x, kernel, numbers, dims, window, roles) -> Instruction:
        """Adds a convolution; all fields as HLO has them, `roles` as `Product`."""
        made, window = shape(x.shape.dtype, dims), tuple(window)
        fields = {'window': window, 'convolution': numbers, 'roles': roles}
        made = Product('convolution', made, (x, kernel), **fields)
        self.here.instructions.append(made)
        return made

    def windowed(self, opcode: str, dims, *operands, window, calls='maximum'):
        """Adds reduce-window or select-and-scatter over height and width."""
        dtype = operands[0].shape.dtype
        start = self.here.add('constant', shape(dtype, ()))
        calls = (self.reducers[calls, dtype],)
        window = (hlo.Window(1), *window, hlo.Window(1))
        made = shape(dtype, dims)
        return self.here.add(opcode, made, *operands, start, calls=calls, window=window)

    def loop(self, state, trips: int, body: Callable, label: str):
        """Adds a while loop.

        Args:
            state: values carried; each gets what `body` returns in its place.
            trips: how often the body runs.
            body: called with the net, the counter and the carried values, while
                `here` is the loop's body; returns the new values.
            label: of the loop, for the names of its computations.

        Returns:
            The carried values after the loop.
        """
        outside, inside, condition = self.here, Computation(), Computation()
        counter = outside.add('constant', shape('s32', ()))
        first = outside.add('tuple', TUPLE, counter, *state, tuple_size=len(state) + 1)
        self.here = inside
        carried = inside.parameter(TUPLE)
        carried.tuple_size = first.tuple_size
        parts = [
            inside.add('get-tuple-element', v.shape, carried) for v in first.operands
        ]
        new = body(self, parts[0], *parts[1:])
        one = inside.add('constant', counter.shape)
        step = inside.add('add', counter.shape, parts[0], one)
        inside.add('tuple', TUPLE, step, *new, tuple_size=first.tuple_size)
        given = condition.parameter(TUPLE)
        given.tuple_size = first.tuple_size
        now = condition.add('get-tuple-element', counter.shape, given)
        limit = condition.add('constant', counter.shape)
        condition.add('compare', shape('pred', ()), now, limit)
        self.here = outside
        self._before.append((f'while_body_{label}', inside, trips))
        self._before.append((f'while_cond_{label}', condition, trips))
        calls, size = (condition, inside), first.tuple_size
        done = outside.add('while', TUPLE, first, calls=calls, tuple_size=size)
        return [outside.add('get-tuple-element', v.shape, done) for v in state]

    def finish(self, results: Sequence[Instruction]) -> Module:
        """Ends the program with its results; what they do not need is removed."""
        self._entry.tuple(*results)
        called = [(f'{op}_{dtype}', c, 0) for (op, dtype), c in self.reducers.items()]
        called += self._before
        for computation in [c for _, c, _ in self._before] + [self._entry]:
            _remove_unused(computation)
        parts = [*called, ('main', self._entry, 1)]
        names, computations, executions = zip(*parts)
        return Module(list(computations), list(names), list(executions))


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
