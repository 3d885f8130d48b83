"""What small and published programs of haiku, jraph, optax, dm-pix and rlax share."""

from collections.abc import Callable, Iterator
from typing import Any

import dm_pix
import exporting
from exporting import Program
from exporting import shaped
import haiku as hk
import jax
import jax.numpy as jnp
import jraph
import optax
import rlax

_Table = dict[str, tuple[Callable[..., Any], tuple[Any, ...]]]


def haiku(
    name: str, function: Callable[..., Any], inputs: tuple[Any, ...]
) -> Iterator[Program]:
    """Yields both modes of a function of haiku; `{}` in its name is the mode."""
    net = hk.without_apply_rng(hk.transform_with_state(function))
    params, state = jax.eval_shape(net.init, jax.random.PRNGKey(0), *inputs)

    def apply(p: Any, *x: jax.Array) -> jax.Array:
        half = jax.tree_util.tree_map(lambda s: jnp.full(s.shape, 0.5, s.dtype), state)
        return net.apply(p, half, *x)[0]

    yield from exporting.both_modes(name, apply, params, inputs)


def unrolled(core: Callable[[], Any], layers: int = 1) -> Callable[..., Any]:
    """Returns a recurrent network as a function of inputs [time, batch, ...]."""

    def run(x):
        for _ in range(layers):
            cell = core()
            x = hk.static_unroll(cell, x, cell.initial_state(x.shape[1]))[0]
        return x

    return run


def quantiser(width: int, codes: int) -> Callable[..., Any]:
    """Returns a vector quantiser in training, as a function of [vectors, width]."""

    def run(x):
        quantised = hk.nets.VectorQuantizer(width, codes, 0.25)(x, is_training=True)
        return quantised['quantize'] + quantised['loss']

    return run


def graph_networks(
    inner: Callable[[jax.Array], jax.Array],
    network: tuple[int, int, int],
    interaction: tuple[int, int],
    convolution: int,
    attention: tuple[int, int],
) -> dict[str, Callable[[], Any]]:
    """Returns makers of graph networks of jraph.

    Args:
        inner: the activation inside an update.
        network: widths of the updates of a GraphNetwork.
        interaction: of an InteractionNetwork.
        convolution: of a GraphConvolution.
        attention: of the layers of a GAT.
    """

    def update(width):
        @jraph.concatenated_args
        def run(x):
            return jax.nn.relu(hk.Linear(width)(inner(hk.Linear(width)(x))))

        return run

    def attend(sent, received, _):
        joined = jnp.concatenate([sent, received], 1)
        return jax.nn.leaky_relu(hk.Linear(1)(joined))

    query, output = attention
    return {
        'network': lambda: jraph.GraphNetwork(*map(update, network)),
        'interaction': lambda: jraph.InteractionNetwork(*map(update, interaction)),
        'convolution': lambda: jraph.GraphConvolution(
            lambda n: hk.Linear(convolution)(n)
        ),
        'gat': lambda: jraph.GAT(
            lambda n: hk.Linear(query)(n), attend, lambda n: hk.Linear(output)(n)
        ),
    }


def on_graph(
    name: str,
    make: Callable[[], Any],
    kind: Any,
    nodes: tuple[int, int],
    edges: tuple[int, int],
    width: int,
) -> Iterator[Program]:
    """Yields both modes of a graph network.

    Args:
        nodes: how many, and their columns.
        edges: the same.
        width: columns of the graph.
    """

    def run(x, e, senders, receivers):
        ones = jnp.ones([1, width], x.dtype)
        counts = jnp.array([x.shape[0]]), jnp.array([e.shape[0]])
        return make()(jraph.GraphsTuple(x, e, receivers, senders, ones, *counts)).nodes

    ends = (shaped(edges[0], dtype=jnp.int32),) * 2
    x, e = shaped(*nodes, dtype=kind), shaped(*edges, dtype=kind)
    yield from haiku(name, run, (x, e, *ends))


def optimiser(name: str, method: str, params: Any) -> Program:
    """Returns a step of an optimiser of optax on weights, given as shapes."""
    chosen = getattr(optax, method)(1e-3)

    def update(params, gradients, state):
        updates, state = chosen.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    state = jax.eval_shape(chosen.init, params)
    return exporting.program(name, update, (params, params, state))


IMAGE: dict[str, Callable[..., Any]] = {
    'blur': lambda x: dm_pix.gaussian_blur(x, 1.5, 5),
    'hue': lambda x: dm_pix.adjust_hue(x, 0.2),
    'saturation': lambda x: dm_pix.adjust_saturation(x, 0.6),
    'contrast': lambda x: dm_pix.adjust_contrast(x, 1.4),
    'gamma': lambda x: dm_pix.adjust_gamma(x, 1.7),
    'flip': dm_pix.flip_left_right,
    'turn': jax.vmap(dm_pix.rot90),
    'gray': dm_pix.rgb_to_grayscale,
}


def control(batch: int, actions: int, atoms: int, steps: int) -> _Table:
    """Returns losses of reinforcement learning of rlax, with their gradients.

    Returns:
        Name -> function and arguments.
    """

    def batched(function):
        def run(first, *others):
            def loss(x):
                return jnp.mean(jnp.square(jax.vmap(function)(x, *others)))

            return jax.value_and_grad(loss)(first)

        return run

    def categorical(l, a, r, d, t):
        z = jnp.linspace(-10.0, 10.0, atoms)
        return rlax.categorical_q_learning(z, l, a, r, d, z, t)

    def quantile(x, a, r, d, t):
        taus = (jnp.arange(atoms) + 0.5) / atoms
        return rlax.quantile_q_learning(x.T, taus, a, r, d, t.T, t.T)

    def advantage(r, d, v):
        return rlax.truncated_generalized_advantage_estimation(r, d, 0.9, v)

    q, a = shaped(batch, actions), shaped(batch, dtype=jnp.int32)
    r, d = shaped(batch), shaped(batch)
    dist = shaped(batch, actions, atoms)
    sequence = (shaped(batch, steps), shaped(batch, steps))
    values = shaped(batch, steps + 1)
    returns = jax.vmap(lambda r, d: rlax.discounted_returns(r, d, 0.5))
    return {
        'q_learning': (batched(rlax.q_learning), (q, a, r, d, q)),
        'double_q': (batched(rlax.double_q_learning), (q, a, r, d, q, q)),
        'sarsa': (batched(rlax.expected_sarsa), (q, a, r, d, q, q)),
        'categorical': (batched(categorical), (dist, a, r, d, dist)),
        'quantile': (batched(quantile), (dist, a, r, d, dist)),
        'returns': (returns, sequence),
        'entropy': (batched(lambda l: rlax.softmax().entropy(l)), (q,)),
        'gae': (jax.vmap(advantage), (*sequence, values)),
    }
