"""Programs of JAX, Flax and Keras as serialised HloModuleProtos.

Weights are shapes only, so a file is small however large its model is.
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax
import tensorflow as tf
import transformers

TYPES = {'f32': jnp.float32, 'bf16': jnp.bfloat16}


class Program(NamedTuple):
    """A program to export."""

    name: str
    export: Callable[[], bytes]  # returns a serialised HloModuleProto


def shaped(*dims: int, dtype: Any = jnp.float32) -> jax.ShapeDtypeStruct:
    """Returns an argument's shape and type."""
    return jax.ShapeDtypeStruct(dims, dtype)


def program(
    name: str, function: Callable[..., Any], arguments: tuple[Any, ...]
) -> Program:
    """Returns a function of JAX as a program.

    Args:
        name: of the program.
        function: what it computes.
        arguments: arrays, or shapes and types of them.
    """

    def export() -> bytes:
        hlo = jax.jit(function).lower(*arguments).compiler_ir('hlo')
        return hlo.as_serialized_hlo_module_proto()

    return Program(name, export)


def training_step(apply: Callable[..., jax.Array]) -> Callable[..., Any]:
    """Returns a step of Adam on the mean square of `apply(params, *inputs)`."""
    optimiser = optax.adam(1e-3)

    def step(params: Any, state: Any, *inputs: jax.Array) -> tuple[Any, Any, jax.Array]:
        def loss(p: Any) -> jax.Array:
            return jnp.mean(jnp.square(apply(p, *inputs).astype(jnp.float32)))

        value, gradients = jax.value_and_grad(loss)(params)
        updates, state = optimiser.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, value

    return step


def both_modes(
    name: str, apply: Callable[..., jax.Array], params: Any, inputs: tuple[Any, ...]
) -> Iterator[Program]:
    """Yields a model's inference and training step; `{}` in its name is the mode."""
    yield program(name.format('infer'), apply, (params, *inputs))
    state = jax.eval_shape(optax.adam(1e-3).init, params)
    step = training_step(apply)
    yield program(name.format('train'), step, (params, state, *inputs))


def call(model: Any, params: Any, *inputs: jax.Array) -> jax.Array:
    """Calls a model of transformers; returns its first result."""
    return model(*inputs, params=params, return_dict=False)[0]


def call_both(model: Any, params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
    """Calls an encoder with x and its decoder with y."""
    return model(x, decoder_input_ids=y, params=params, return_dict=False)[0]


def flax_model(model_class: str, config: Any, kind: Any) -> tuple[Any, Any]:
    """Returns a Flax model of transformers, and its weights as shapes."""
    model = getattr(transformers, model_class)(config, dtype=kind, _do_init=False)
    shapes = jax.tree_util.tree_map(
        lambda leaf: shaped(*leaf.shape, dtype=leaf.dtype),
        _plain(model.params_shape_tree),
    )
    return model, shapes


def flax_programs(
    name: str,
    model_class: str,
    config: Any,
    kind: Any,
    inputs: tuple[Any, ...],
    caller: Callable[..., jax.Array] = call,
) -> Iterator[Program]:
    """Yields a Flax model of transformers; its weights are shapes only."""
    model, params = flax_model(model_class, config, kind)
    apply = lambda p, *x: caller(model, p, *x)
    if 'batch_stats' in params:  # inference alone: statistics are no weights
        yield program(name.format('infer'), apply, (params, *inputs))
        return
    yield from both_modes(name, apply, params, inputs)


def _plain(tree: Any) -> Any:
    return {k: _plain(v) for k, v in tree.items()} if hasattr(tree, 'items') else tree


def keras_program(
    name: str, model: str, dims: tuple[int, ...], mode: str, policy: str, **options: Any
) -> Program:
    """Returns a model of `tf.keras.applications` as a program.

    Args:
        name: of the program.
        model: name of the model.
        dims: batch, height, width, channels.
        mode: 'infer', or 'train' for the gradients of all weights.
        policy: of Keras, such as 'mixed_bfloat16'.
        **options: of the model.
    """

    def export() -> bytes:
        tf.keras.mixed_precision.set_global_policy(policy)
        tf.keras.backend.clear_session()
        make = getattr(tf.keras.applications, model)
        net = make(weights=None, input_shape=dims[1:], **options)

        def infer(x: tf.Tensor) -> tf.Tensor:
            return net(x, training=False)

        def train(x: tf.Tensor) -> list[tf.Tensor]:
            with tf.GradientTape() as tape:
                scores = tf.cast(net(x, training=True), tf.float32)
                loss = tf.reduce_mean(tf.square(scores))
            return tape.gradient(loss, net.trainable_variables)

        compiled = tf.function({'infer': infer, 'train': train}[mode], jit_compile=True)
        compiler_ir = compiled.experimental_get_compiler_ir(tf.zeros(dims))
        return compiler_ir(stage='hlo_serialized')

    return Program(name, export)
