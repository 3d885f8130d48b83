"""Short element-wise sequences that simulated fusions are made of.

Each takes a computation, a value in it and a random generator, appends what it
needs (parameters too) and returns the new value, of the same shape.
"""

from typing import Callable, Dict

import numpy as np

from baselines.simulated.hlo import Computation, Instruction, Tensor

Snippet = Callable[[Computation, Instruction, np.random.Generator], Instruction]


def load(body: Computation, shape: Tensor) -> Instruction:
    """Adds a parameter; bf16 is widened, since sums run in f32."""
    given = body.parameter(shape)
    return body.convert(given, 'f32') if shape.dtype == 'bf16' else given


def _features(x: Instruction) -> list:
    return [len(x.shape.dims) - 1]


def _rows(x: Instruction) -> list:
    return list(range(len(x.shape.dims) - 1))


def relu(body, x, rng):
    """max(0, x)."""
    return body.op('maximum', body.constant(x.shape), x)


def relu_grad(body, x, rng):
    """x where a stored activation is positive, else 0."""
    zero = body.constant(x.shape)
    seen = load(body, x.shape)
    return body.op('select', body.op('compare', seen, zero), x, zero)


def residual(body, x, rng):
    """Adds a second operand of the same shape."""
    return body.op('add', load(body, x.shape.typed(stored(rng))), x)


def bias(body, x, rng):
    """Adds a vector over the last dimension."""
    return body.op('add', body.vector(x.shape, _features(x)), x)


def scale(body, x, rng):
    """Multiplies by a constant."""
    return body.op('multiply', body.constant(x.shape), x)


def scale_shift(body, x, rng):
    """Multiplies by a vector over the last dimension and adds another."""
    x = body.op('multiply', body.vector(x.shape, _features(x)), x)
    return body.op('add', body.vector(x.shape, _features(x)), x)


def normalise(body, x, rng):
    """(x - mean) * rsqrt(variance + epsilon) per feature, as in batch norm."""
    x = body.op('subtract', body.vector(x.shape, _features(x)), x)
    variance = body.vector(x.shape, _features(x))
    variance = body.op('add', body.constant(x.shape), variance)
    return body.op('multiply', body.op('rsqrt', variance), x)


def normalise_rows(body, x, rng):
    """The same per row, as in layer norm."""
    x = body.op('subtract', body.vector(x.shape, _rows(x)), x)
    return body.op('multiply', body.vector(x.shape, _rows(x)), x)


def exponentials(body, x, rng):
    """exp(x - maximum of the row): the first half of a softmax."""
    x = body.op('subtract', body.vector(x.shape, _rows(x)), x)
    return body.op('exponential', x)


def divide_rows(body, x, rng):
    """Divides by one number per row: the second half of a softmax."""
    return body.op('divide', body.vector(x.shape, _rows(x)), x)


def gelu(body, x, rng):
    """x / 2 * (1 + tanh(a * (x + b * x^3)))."""
    cube = body.op('multiply', x, body.op('multiply', x, x))
    inner = body.op('add', x, body.op('multiply', body.constant(x.shape), cube))
    inner = body.op('multiply', body.constant(x.shape), inner)
    outer = body.op('add', body.constant(x.shape), body.op('tanh', inner))
    half = body.op('multiply', body.constant(x.shape), x)
    return body.op('multiply', half, outer)


def swish(body, x, rng):
    """x * logistic(x)."""
    return body.op('multiply', x, body.op('logistic', x))


def dropout(body, x, rng):
    """Keeps what a stored mask keeps, scaled."""
    mask = body.parameter(x.shape.typed('pred'))
    zero = body.constant(x.shape)
    kept = body.op('select', mask, x, zero)
    return body.op('multiply', body.constant(x.shape), kept)


def one_hot_difference(body, x, rng):
    """x - one_hot(label of the row): the gradient of a cross entropy."""
    labels = body.vector(x.shape, _rows(x), 's32')
    place = body.add('iota', x.shape.typed('s32'), dimensions=tuple(_features(x)))
    here = body.op('compare', labels, place)
    one, zero = body.constant(x.shape), body.constant(x.shape)
    return body.op('subtract', body.op('select', here, one, zero), x)


def clip(body, x, rng):
    """Between two constants."""
    x = body.op('maximum', body.constant(x.shape), x)
    return body.op('minimum', body.constant(x.shape), x)


def square(body, x, rng):
    """x * x."""
    return body.op('multiply', x, x)


def mask_bias(body, x, rng):
    """Adds what depends on the last two dimensions only (attention masks)."""
    rank = len(x.shape.dims)
    return body.op('add', body.vector(x.shape, range(max(rank - 2, 0), rank)), x)


def momentum(body, x, rng):
    """Moves a stored average towards x."""
    average = load(body, x.shape)
    average = body.op('multiply', body.constant(x.shape), average)
    return body.op('add', average, body.op('multiply', body.constant(x.shape), x))


def root_divide(body, x, rng):
    """x / (sqrt(stored) + epsilon): a step of Adam."""
    below = body.op('sqrt', load(body, x.shape))
    below = body.op('add', body.constant(x.shape), below)
    return body.op('divide', below, x)


def stored(rng: np.random.Generator) -> str:
    """Draws how a second operand is stored: mostly f32."""
    return 'bf16' if rng.random() < 0.3 else 'f32'


SNIPPETS: Dict[str, Snippet] = {
    f.__name__: f
    for f in (
        relu, relu_grad, residual, bias, scale, scale_shift, normalise, normalise_rows,
        exponentials, divide_rows, gelu, swish, dropout, one_hot_difference, clip,
        square, mask_bias, momentum, root_divide,
    )
}  # fmt: skip


def chain(
    body: Computation,
    x: Instruction,
    rng: np.random.Generator,
    names: tuple,
    nodes: int,
) -> Instruction:
    """Appends random snippets to `x` until the computation has `nodes` instructions."""
    while len(body.instructions) < nodes:
        x = SNIPPETS[names[int(rng.integers(len(names)))]](body, x, rng)
    return x
