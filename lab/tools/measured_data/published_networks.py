"""Networks of haiku and jraph, optimisers, images and control at real sizes."""

from collections.abc import Callable, Iterator
from typing import Any

import dm_pix
import exporting
from exporting import Program
from exporting import shaped
import haiku as hk
import jax
import jax.numpy as jnp
import networks


def recurrent_programs() -> Iterator[Program]:
    """Yields LSTMs and GRUs, a few steps of them unrolled."""
    for dtype, label, core, layers, dims in (
        ('f32', 'lstm_650', lambda: hk.LSTM(650), 2, (6, 20, 650)),
        ('f32', 'lstm_1500', lambda: hk.LSTM(1500), 1, (4, 20, 1500)),
        ('f32', 'lstm_512', lambda: hk.LSTM(512), 2, (4, 128, 512)),
        ('bf16', 'lstm_1024', lambda: hk.LSTM(1024), 1, (4, 64, 512)),
        ('f32', 'gru_1024', lambda: hk.GRU(1024), 1, (4, 64, 256)),
        ('bf16', 'gru_512', lambda: hk.GRU(512), 2, (4, 128, 512)),
        ('f32', 'convlstm_64', lambda: hk.Conv2DLSTM((64, 64), 64, 3), 1, (2, 2, 64, 64, 16)),
    ):  # fmt: skip
        x = shaped(*dims, dtype=exporting.TYPES[dtype])
        name = f'recurrent_{dtype}_{{}}_{label}'
        yield from networks.haiku(name, networks.unrolled(core, layers), (x,))


def _mixer(patches: int, channels: int, tokens_inner: int, inner: int) -> Any:
    """Returns one layer of MLP-Mixer, as a function of images [batch, 224, 224, 3]."""

    def run(x):
        side = 224 // int(patches**0.5)
        x = hk.Conv2D(channels, side, stride=side, padding='VALID')(x)
        x = x.reshape(x.shape[0], patches, channels)
        y = jnp.swapaxes(hk.LayerNorm(-1, True, True)(x), 1, 2)
        y = hk.Linear(patches)(jax.nn.gelu(hk.Linear(tokens_inner)(y)))
        x = x + jnp.swapaxes(y, 1, 2)
        y = hk.LayerNorm(-1, True, True)(x)
        return x + hk.Linear(channels)(jax.nn.gelu(hk.Linear(inner)(y)))

    return run


def _residual(make: Any) -> Callable[..., Any]:
    return lambda x: make(1000)(x, is_training=True)


def vision_programs() -> Iterator[Program]:
    """Yields mixers, residual networks and a quantiser of images."""
    for dtype, label, sizes, batch in (
        ('f32', 'mixer_small', (196, 512, 256, 2048), 4),
        ('f32', 'mixer_base', (196, 768, 384, 3072), 1),
        ('bf16', 'mixer_base', (49, 768, 384, 3072), 8),
    ):
        x = shaped(batch, 224, 224, 3, dtype=exporting.TYPES[dtype])
        yield from networks.haiku(f'mixer_{dtype}_{{}}_{label}', _mixer(*sizes), (x,))
    for dtype, label, make, batch in (
        ('f32', 'haiku_resnet50', hk.nets.ResNet50, 2),
        ('bf16', 'haiku_resnet18', hk.nets.ResNet18, 8),
    ):
        x = shaped(batch, 224, 224, 3, dtype=exporting.TYPES[dtype])
        yield from networks.haiku(
            f'residual_nets_{dtype}_{{}}_{label}', _residual(make), (x,)
        )

    yield from networks.haiku(
        'quantiser_f32_{}_vq_512', networks.quantiser(64, 512), (shaped(8192, 64),)
    )

    def mobile(x):
        return hk.nets.MobileNetV1(num_classes=1000)(x, is_training=True)

    yield from networks.haiku(
        'mobile_f32_{}_haiku_one', mobile, (shaped(2, 224, 224, 3),)
    )


def _mamba(width: int, state: int = 16) -> Callable[..., Any]:
    """Returns a layer of Mamba as a function of [batch, length, width].

    (Gu and Dao, Mamba: Linear-Time Sequence Modeling with Selective State Spaces.)
    """
    inner, rank = 2 * width, width // 16

    def run(x):
        x, gate = jnp.split(hk.Linear(2 * inner, with_bias=False)(x), 2, -1)
        weights = hk.get_parameter('filter', [4, inner], x.dtype, jnp.zeros)
        padded = jnp.pad(x, [(0, 0), (3, 0), (0, 0)])
        x = sum(padded[:, i : i + x.shape[1]] * weights[i] for i in range(4))
        x = jax.nn.silu(x)
        drawn = hk.Linear(rank + 2 * state, with_bias=False)(x)
        step, b, c = jnp.split(drawn, [rank, rank + state], -1)
        step = jax.nn.softplus(hk.Linear(inner)(step))[..., None]
        a = hk.get_parameter('decay', [inner, state], x.dtype, jnp.zeros)
        decay, added = jnp.exp(-step * jnp.exp(a)), step * b[:, :, None] * x[..., None]
        combine = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
        _, states = jax.lax.associative_scan(combine, (decay, added), axis=1)
        y = jnp.einsum('blds,bls->bld', states, c) * jax.nn.silu(gate)
        return hk.Linear(width, with_bias=False)(y)

    return run


def _recommender(bottom: Any, top: Any, rows: int, width: int) -> Callable[..., Any]:
    """Returns DLRM: 26 tables, products of all pairs, two perceptrons."""

    def run(dense, sparse):
        embedded = [hk.Embed(rows, width)(sparse[:, i]) for i in range(26)]
        first = hk.nets.MLP([*bottom, width])(dense)
        joined = jnp.stack([first, *embedded], 1)
        pairs = jnp.einsum('bid,bjd->bij', joined, joined)
        above = jnp.triu_indices(27, 1)
        x = jnp.concatenate([first, pairs[:, above[0], above[1]]], 1)
        return hk.nets.MLP([*top, 1])(x)

    return run


def _crossed(rows: int, width: int) -> Callable[..., Any]:
    """Returns Deep & Cross: three cross layers next to a perceptron."""

    def run(dense, sparse):
        embedded = [hk.Embed(rows, width)(sparse[:, i]) for i in range(26)]
        first = x = jnp.concatenate([dense, *embedded], 1)
        for _ in range(3):
            x = first * hk.Linear(first.shape[1])(x) + x
        deep = hk.nets.MLP([1024, 512])(first)
        return hk.Linear(1)(jnp.concatenate([x, deep], 1))

    return run


def other_programs() -> Iterator[Program]:
    """Yields scans, recommenders and perceptrons."""
    for dtype, label, width, dims in (
        ('f32', '130m', 768, (1, 128)),
        ('f32', '370m', 1024, (1, 64)),
        ('bf16', '130m', 768, (1, 256)),
    ):
        x = shaped(*dims, width, dtype=exporting.TYPES[dtype])
        yield from networks.haiku(
            f'scan_{dtype}_{{}}_mamba_{label}', _mamba(width), (x,)
        )
    for dtype, label, function, batch in (
        ('f32', 'dlrm_small', _recommender((512, 256), (512, 256), 40000, 64), 512),
        ('f32', 'dlrm_large', _recommender((512, 256), (1024, 1024, 512), 100000, 128), 1024),
        ('bf16', 'dlrm_wide', _recommender((512, 256), (1024, 512), 20000, 256), 256),
        ('f32', 'deep_cross', _crossed(50000, 32), 1024),
    ):  # fmt: skip
        dense = shaped(batch, 13, dtype=exporting.TYPES[dtype])
        inputs = (dense, shaped(batch, 26, dtype=jnp.int32))
        yield from networks.haiku(f'recommender_{dtype}_{{}}_{label}', function, inputs)
    for dtype, widths, dims in (
        ('f32', (4096, 1024, 10), (128, 3072)),
        ('bf16', (2048, 2048, 1000), (256, 1024)),
        ('f32', (512, 512, 512), (4096, 128)),
    ):
        x = shaped(*dims, dtype=exporting.TYPES[dtype])
        name = f'perceptron_{dtype}_{{}}_mlp_{widths[0]}'
        yield from networks.haiku(name, lambda x, w=widths: hk.nets.MLP(w)(x), (x,))


def graph_programs() -> Iterator[Program]:
    """Yields graph networks of jraph on graphs of the sizes of Cora and parts of OGB."""
    makers = networks.graph_networks(
        jax.nn.relu, (128, 128, 64), (100, 100), 256, (64, 64)
    )
    for dtype, label, nodes, edges, width in (
        ('f32', 'cora', 2708, 10556, 1433),
        ('bf16', 'molecules', 8192, 17000, 128),
        ('f32', 'papers', 16000, 100000, 100),
    ):
        for model, make in makers.items():
            if model == 'network' and label == 'papers':
                continue
            name, kind = (
                f'graphnet_{dtype}_{{}}_{model}_{label}',
                exporting.TYPES[dtype],
            )
            sizes = (nodes, width), (edges, 16), 16
            yield from networks.on_graph(name, make, kind, *sizes)


def optimiser_programs() -> Iterator[Program]:
    """Yields a step of optimisers of optax on the weights of a layer."""
    weights = {
        'bert': {'up': (768, 3072), 'embedding': (30522, 768), 'bias': (3072,)},
        'resnet': {'filter': (3, 3, 512, 512), 'top': (2048, 1000), 'one': (256, 64)},
    }
    for label, dims in weights.items():
        for dtype, kind in exporting.TYPES.items():
            params = {key: shaped(*size, dtype=kind) for key, size in dims.items()}
            for name in ('adamw', 'adafactor', 'lamb', 'lion', 'adabelief'):
                full_name = f'optimiser_{dtype}_update_{name}_{label}'
                yield networks.optimiser(full_name, name, params)


def image_programs() -> Iterator[Program]:
    """Yields image processing of dm-pix."""
    one = {
        **networks.IMAGE,
        'blur_wide': lambda x: dm_pix.gaussian_blur(x, 3.0, 11),
        'patches': lambda x: dm_pix.extract_patches(
            x, sizes=(1, 16, 16, 1), strides=(1, 16, 16, 1), rates=(1, 1, 1, 1)
        ),
        'resize': lambda x: jax.image.resize(x, (len(x), 224, 224, 3), 'bilinear'),
    }
    for dims in ((1, 512, 512, 3), (1, 1024, 1024, 3), (4, 512, 768, 3)):
        size = 'x'.join(map(str, dims[:3]))
        for name, function in one.items():
            yield exporting.program(
                f'image_f32_infer_{name}_{size}', function, (shaped(*dims),)
            )
        for name in ('ssim', 'psnr', 'simse'):
            function = getattr(dm_pix, name)
            yield exporting.program(
                f'image_f32_infer_{name}_{size}', function, (shaped(*dims),) * 2
            )


def control_programs() -> Iterator[Program]:
    """Yields losses of reinforcement learning of rlax, with their gradients."""
    for batch, steps in ((4096, 128), (512, 1024)):
        losses = networks.control(batch, 18, 51, steps)
        for name in ('double_q', 'categorical', 'quantile', 'returns', 'gae'):
            yield exporting.program(
                f'control_f32_train_{name}_{batch}x{steps}', *losses[name]
            )


def programs() -> Iterator[Program]:
    """Yields the programs of all packages."""
    for group in (
        *(recurrent_programs, vision_programs, other_programs, graph_programs),
        *(optimiser_programs, image_programs, control_programs),
    ):
        yield from group()
