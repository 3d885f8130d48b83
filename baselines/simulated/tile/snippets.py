"""Short element-wise sequences that simulated fusions are made of.

Most are programs of a stack machine, whose operations take what was pushed last
first: `x constant maximum` is max(constant, x).
"""

from typing import Callable, Dict

import numpy as np

from baselines.simulated.hlo import Instruction

# Takes a value and a random generator, appends what it needs (parameters too) and
# returns the new value, of the same shape.
Snippet = Callable[[Instruction, np.random.Generator], Instruction]

_OPERANDS = {
    'exponential': 1, 'logistic': 1, 'rsqrt': 1, 'sqrt': 1, 'tanh': 1,
    'add': 2, 'divide': 2, 'maximum': 2, 'minimum': 2, 'multiply': 2, 'subtract': 2,
}  # fmt: skip
_PROGRAMS = {
    'relu': 'x constant maximum',
    'residual': 'x second add',
    'bias': 'x features add',
    'scale': 'x constant multiply',
    'scale_shift': 'x features multiply features add',
    # (x - mean) * rsqrt(variance + epsilon) per feature, as in batch norm; the same
    # per row, as in layer norm
    'normalise': 'x features subtract features constant add rsqrt multiply',
    'normalise_rows': 'x rows subtract rows multiply',
    # of a softmax: exp(x - maximum of the row), and division by the row's sum
    'exponentials': 'x rows subtract exponential',
    'divide_rows': 'x rows divide',
    # x / 2 * (1 + tanh(a * (x + b * x^3)))
    'gelu': 'x x multiply x multiply constant multiply x add constant multiply '
    'constant swap tanh swap add x constant multiply multiply',
    'swish': 'x logistic x multiply',
    'clip': 'x constant maximum constant minimum',
    'square': 'x x multiply',
    'mask_bias': 'x plane add',
    # moves a stored average towards x; x / (sqrt(stored) + epsilon), as in Adam
    'momentum': 'stored constant multiply x constant multiply swap add',
    'root_divide': 'x stored sqrt constant add divide',
}


def _run(program: str) -> Snippet:
    """Returns the snippet that a program of the stack machine stands for."""

    def snippet(x, rng):
        body, shape = x.home, x.shape
        rank = len(shape.dims)
        pushes = {
            'x': lambda: x,
            'constant': x.fill,
            # vectors over some dimensions; `plane` over those of attention masks
            'features': lambda: body.vector(shape, [rank - 1]),
            'rows': lambda: body.vector(shape, range(rank - 1)),
            'plane': lambda: body.vector(shape, range(max(rank - 2, 0), rank)),
            'stored': lambda: body.load(shape),
            # mostly f32
            'second': lambda: body.load(
                shape.typed('bf16' if rng.random() < 0.3 else 'f32')
            ),
        }
        stack = []
        for word in program.split():
            if word == 'swap':
                stack[-2:] = stack[:-3:-1]
            elif word in pushes:
                stack.append(pushes[word]())
            else:
                first, *others = [stack.pop() for _ in range(_OPERANDS[word])]
                stack.append(first.op(word, *others))
        return stack[0]

    return snippet


def relu_grad(x, rng):
    """x where a stored activation is positive, else 0."""
    zero, seen = x.fill(), x.home.load(x.shape)
    return seen.op('compare', zero).op('select', x, zero)


def dropout(x, rng):
    """Keeps what a stored mask keeps, scaled."""
    mask, zero = x.home.parameter(x.shape.typed('pred')), x.fill()
    kept = mask.op('select', x, zero)
    return x.fill() * kept


def one_hot_difference(x, rng):
    """x - one_hot(label of the row): the gradient of a cross entropy."""
    last = len(x.shape.dims) - 1
    labels = x.home.vector(x.shape, range(last), 's32')
    place = x.home.add('iota', x.shape.typed('s32'), dimensions=(last,))
    return labels.op('compare', place).op('select', x.fill(), x.fill()) - x


SNIPPETS: Dict[str, Snippet] = {
    **{name: _run(program) for name, program in _PROGRAMS.items()},
    **{f.__name__: f for f in (relu_grad, dropout, one_hot_difference)},
}
