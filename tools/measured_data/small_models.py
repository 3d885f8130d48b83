"""Models at small and odd sizes, two layers deep where depth is a setting."""

import functools
from typing import Any, Dict, Iterator, List, Tuple

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
import transformers

# Transformers: class, group, settings of its configuration, [batch, length].
_WIDTHS = dict(
    vocab_size=1031, hidden_size=96, num_hidden_layers=2, num_attention_heads=4
)
_ENCODER = dict(_WIDTHS, intermediate_size=272, max_position_embeddings=130)
_SEQ2SEQ = dict(
    vocab_size=907,
    d_model=80,
    encoder_layers=2,
    decoder_layers=2,
    encoder_attention_heads=4,
    decoder_attention_heads=5,
    encoder_ffn_dim=208,
    decoder_ffn_dim=176,
    max_position_embeddings=96,
)
_GPT = dict(vocab_size=1009, n_embd=112, n_layer=2, n_head=4, n_positions=128)
_LLAMA = dict(
    _WIDTHS,
    hidden_size=128,
    intermediate_size=344,
    num_key_value_heads=2,
    max_position_embeddings=128,
)
_T5 = dict(vocab_size=773, d_model=72, d_kv=18, d_ff=200, num_layers=2, num_heads=4)
_TEXT: List[Tuple[str, str, Dict[str, Any], Tuple[int, int]]] = [
    ('encoder', 'Bert', _ENCODER, (4, 63)),
    ('encoder', 'Roberta', dict(_ENCODER, hidden_size=120, vocab_size=601), (2, 90)),
    ('encoder', 'Electra', dict(_ENCODER, embedding_size=48), (7, 36)),
    ('encoder', 'Albert', dict(_ENCODER, embedding_size=32), (5, 52)),
    (
        'encoder',
        'DistilBert',
        dict(vocab_size=811, dim=104, n_layers=2, n_heads=4, hidden_dim=300),
        (3, 77),
    ),
    ('seqtoseq', 'Bart', _SEQ2SEQ, (3, 44)),
    ('seqtoseq', 'Pegasus', dict(_SEQ2SEQ, d_model=100), (2, 61)),
    ('seqtoseq', 'MBart', dict(_SEQ2SEQ, d_model=60), (5, 33)),
    ('seqtoseq', 'T5', _T5, (4, 48)),
    ('seqtoseq', 'LongT5', dict(_T5, d_model=64, local_radius=15), (2, 80)),
    ('decoder', 'GPT2', _GPT, (3, 57)),
    ('decoder', 'GPTJ', dict(_GPT, rotary_dim=16), (2, 72)),
    (
        'decoder',
        'GPTNeo',
        dict(
            vocab_size=700,
            hidden_size=88,
            num_layers=2,
            num_heads=4,
            attention_types=[[['global', 'local'], 1]],
            max_position_embeddings=96,
        ),
        (4, 50),
    ),
    ('decoder', 'Llama', _LLAMA, (2, 66)),
    ('decoder', 'Mistral', dict(_LLAMA, hidden_size=160), (1, 100)),
    ('decoder', 'Gemma', dict(_LLAMA, head_dim=40), (3, 38)),
    (
        'decoder',
        'OPT',
        dict(
            vocab_size=500,
            hidden_size=76,
            num_hidden_layers=2,
            num_attention_heads=4,
            ffn_dim=220,
            word_embed_proj_dim=76,
            max_position_embeddings=90,
        ),
        (6, 42),
    ),
    (
        'decoder',
        'Bloom',
        dict(vocab_size=620, hidden_size=92, n_layer=2, n_head=4),
        (4, 45),
    ),
]
_SIGHT = dict(
    hidden_size=84,
    num_hidden_layers=2,
    num_attention_heads=6,
    intermediate_size=250,
    image_size=56,
    patch_size=8,
)
_STAGES = dict(embedding_size=24, hidden_sizes=[24, 40, 64], depths=[1, 2, 1])


def transformer_programs() -> Iterator[Program]:
    """Yields Flax models of text, images and sound from `transformers`."""
    for dtype, kind in exporting.TYPES.items():
        for group, model, settings, size in _TEXT:
            config = getattr(transformers, f'{model}Config')(**settings)
            name = f'{group}_{dtype}_{{}}_{model.lower()}'
            ids = shaped(*size, dtype=jnp.int32)
            inputs, caller = (ids,), exporting.call
            if group == 'seqtoseq':
                inputs = (ids, shaped(size[0], size[1] // 2, dtype=jnp.int32))
                caller = exporting.call_both
            yield from exporting.flax_programs(
                name, f'Flax{model}Model', config, kind, inputs, caller
            )
        for group, model, settings in (
            ('vision', 'ViT', _SIGHT),
            ('vision', 'Beit', dict(_SIGHT, hidden_size=72, image_size=48)),
            ('vision', 'CLIPVision', dict(_SIGHT, projection_dim=40, image_size=64)),
            ('residual_nets', 'ResNet', dict(_STAGES, layer_type='basic')),
            ('residual_nets', 'RegNet', dict(_STAGES, groups_width=8)),
        ):
            config = getattr(transformers, f'{model}Config')(**settings)
            name = f'{group}_{dtype}_{{}}_{model.lower()}'
            inputs = (shaped(3, 3, *(2 * [getattr(config, 'image_size', 60)])),)
            yield from exporting.flax_programs(
                name, f'Flax{model}Model', config, kind, inputs
            )
        config = transformers.WhisperConfig(
            **_SEQ2SEQ,
            num_mel_bins=40,
            max_source_positions=60,
            max_target_positions=48,
        )
        name = f'speech_{dtype}_{{}}_whisper'
        inputs = (shaped(2, 40, 120), shaped(2, 30, dtype=jnp.int32))
        yield from exporting.flax_programs(
            name, 'FlaxWhisperModel', config, kind, inputs
        )
        config = transformers.Wav2Vec2Config(
            **_ENCODER,
            conv_dim=(48, 48, 64),
            conv_kernel=(10, 3, 2),
            conv_stride=(5, 2, 2),
            num_feat_extract_layers=3,
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            do_stable_layer_norm=True,
            feat_extract_norm='layer',
        )
        name, inputs = f'speech_{dtype}_{{}}_wav2vec2', (shaped(2, 1600),)
        yield from exporting.flax_programs(
            name, 'FlaxWav2Vec2Model', config, kind, inputs
        )


def haiku_programs() -> Iterator[Program]:
    """Yields networks of haiku."""

    def unrolled(core):
        def run(x):
            cell = core()
            return hk.static_unroll(cell, x, cell.initial_state(x.shape[1]))[0]

        return run

    def quantiser(x):
        quantised = hk.nets.VectorQuantizer(24, 180, 0.25)(x, is_training=True)
        return quantised['quantize'] + quantised['loss']

    def residual(x, **settings):
        channels, blocks = (24, 48, 72, 96), (1, 1, 1, 1)
        net = hk.nets.ResNet(
            blocks, 40, bottleneck=False, channels_per_group=channels, **settings
        )
        return net(x, is_training=True)

    def mobile(x):
        net = hk.nets.MobileNetV1((1, 2, 2), (24, 40, 64), num_classes=30, use_bn=True)
        return net(x, is_training=True)

    convolved = unrolled(lambda: hk.Conv2DLSTM((18, 18), 12, 3))
    second = functools.partial(residual, resnet_v2=True)
    table = {
        'recurrent_{}_{}_lstm': (unrolled(lambda: hk.LSTM(72)), (5, 44, 56)),
        'recurrent_{}_{}_gru': (unrolled(lambda: hk.GRU(100)), (6, 30, 48)),
        'recurrent_{}_{}_convlstm': (convolved, (3, 4, 18, 18, 6)),
        'residual_nets_{}_{}_haiku': (residual, (4, 44, 44, 3)),
        'residual_nets_{}_{}_haiku_two': (second, (3, 52, 52, 3)),
        'mobile_{}_{}_haiku_one': (mobile, (3, 50, 50, 3)),
        'quantiser_{}_{}_vq': (quantiser, (700, 24)),
        'perceptron_{}_{}_mlp': (lambda x: hk.nets.MLP([300, 130, 60])(x), (190, 84)),
    }

    def apply(net, state, params, x):
        halves = jax.tree_util.tree_map(
            lambda s: jnp.full(s.shape, 0.5, s.dtype), state
        )
        return net.apply(params, halves, x)[0]

    for dtype, kind in exporting.TYPES.items():
        for name, (function, dims) in table.items():
            net = hk.without_apply_rng(hk.transform_with_state(function))
            x = shaped(*dims, dtype=kind)
            params, state = jax.eval_shape(net.init, jax.random.PRNGKey(0), x)
            scored = functools.partial(apply, net, state)
            yield from exporting.both_modes(
                name.format(dtype, '{}'), scored, params, (x,)
            )


def graph_programs() -> Iterator[Program]:
    """Yields graph networks of jraph."""
    nodes, edges, width = 420, 1730, 36

    def update(width):
        @jraph.concatenated_args
        def run(x):
            return jax.nn.relu(hk.Linear(width)(jax.nn.tanh(hk.Linear(width)(x))))

        return run

    def attend(sent, received, _):
        joined = jnp.concatenate([sent, received], 1)
        return jax.nn.leaky_relu(hk.Linear(1)(joined))

    networks = {
        'network': lambda: jraph.GraphNetwork(update(40), update(48), update(20)),
        'interaction': lambda: jraph.InteractionNetwork(update(28), update(52)),
        'convolution': lambda: jraph.GraphConvolution(lambda n: hk.Linear(44)(n)),
        'gat': lambda: jraph.GAT(
            lambda n: hk.Linear(30)(n), attend, lambda n: hk.Linear(24)(n)
        ),
    }

    def run(make, x, e, senders, receivers):
        ones = jnp.ones([1, 7], x.dtype)
        counts = jnp.array([nodes]), jnp.array([edges])
        return make()(jraph.GraphsTuple(x, e, receivers, senders, ones, *counts)).nodes

    for dtype, kind in exporting.TYPES.items():
        x, e = shaped(nodes, width, dtype=kind), shaped(edges, 12, dtype=kind)
        ends = (shaped(edges, dtype=jnp.int32),) * 2
        for model, make in networks.items():
            net = hk.without_apply_rng(hk.transform(functools.partial(run, make)))
            params = jax.eval_shape(net.init, jax.random.PRNGKey(0), x, e, *ends)
            name = f'graphnet_{dtype}_{{}}_{model}'
            yield from exporting.both_modes(name, net.apply, params, (x, e, *ends))


def optimiser_programs() -> Iterator[Program]:
    """Yields a step of optimisers of optax on a tree of weights."""

    def update(optimiser, params, gradients, state):
        updates, state = optimiser.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    for dtype, kind in exporting.TYPES.items():
        params = {
            'kernel': shaped(170, 230, dtype=kind),
            'embedding': shaped(900, 52, dtype=kind),
            'filter': shaped(3, 3, 40, 56, dtype=kind),
            'bias': shaped(9100, dtype=kind),
        }
        for name in ('adam', 'adafactor', 'lamb', 'lion', 'sm3', 'adabelief', 'yogi'):
            optimiser = getattr(optax, name)(1e-3)
            if name == 'sm3' and dtype == 'bf16':
                continue
            step = functools.partial(update, optimiser)
            arguments = (params, params, jax.eval_shape(optimiser.init, params))
            yield exporting.program(f'optimiser_{dtype}_update_{name}', step, arguments)


def image_programs() -> Iterator[Program]:
    """Yields image processing of dm-pix."""
    image, other = shaped(4, 62, 58, 3), shaped(4, 62, 58, 3)
    one = {
        'blur': lambda x: dm_pix.gaussian_blur(x, 1.5, 5),
        'hue': lambda x: dm_pix.adjust_hue(x, 0.2),
        'saturation': lambda x: dm_pix.adjust_saturation(x, 0.6),
        'contrast': lambda x: dm_pix.adjust_contrast(x, 1.4),
        'gamma': lambda x: dm_pix.adjust_gamma(x, 1.7),
        'solarize': lambda x: dm_pix.solarize(x, 0.5),
        'flip': dm_pix.flip_left_right,
        'turn': jax.vmap(dm_pix.rot90),
        'depth_to_space': lambda x: dm_pix.depth_to_space(
            jnp.concatenate([x, x, x, x], -1), 2
        ),
        'patches': lambda x: dm_pix.extract_patches(
            x, sizes=(1, 5, 5, 1), strides=(1, 3, 3, 1), rates=(1, 1, 1, 1)
        ),
        'gray': dm_pix.rgb_to_grayscale,
        'resize': lambda x: jax.image.resize(x, (4, 93, 87, 3), 'bilinear'),
    }
    for name, function in one.items():
        yield exporting.program(f'image_f32_infer_{name}', function, (image,))
    for name in ('ssim', 'psnr', 'mse', 'simse'):
        function = getattr(dm_pix, name)
        yield exporting.program(f'image_f32_infer_{name}', function, (image, other))


def control_programs() -> Iterator[Program]:
    """Yields losses of reinforcement learning of rlax, with their gradients."""
    batch, actions, atoms, steps = 460, 18, 41, 60
    q, a = shaped(batch, actions), shaped(batch, dtype=jnp.int32)
    r, d = shaped(batch), shaped(batch)
    dist = shaped(batch, actions, atoms)

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
        x, t = x.T, t.T
        return rlax.quantile_q_learning(x, taus, a, r, d, t, t)

    def advantage(r, d, v):
        return rlax.truncated_generalized_advantage_estimation(r, d, 0.9, v)

    sequence = (shaped(batch, steps), shaped(batch, steps))
    values = shaped(batch, steps + 1)
    returns = jax.vmap(lambda r, d: rlax.discounted_returns(r, d, 0.5))
    table = {
        'q_learning': (batched(rlax.q_learning), (q, a, r, d, q)),
        'double_q': (batched(rlax.double_q_learning), (q, a, r, d, q, q)),
        'sarsa': (batched(rlax.expected_sarsa), (q, a, r, d, q, q)),
        'categorical': (batched(categorical), (dist, a, r, d, dist)),
        'quantile': (batched(quantile), (dist, a, r, d, dist)),
        'returns': (returns, sequence),
        'entropy': (batched(lambda l: rlax.softmax().entropy(l)), (q,)),
        'gae': (jax.vmap(advantage), (*sequence, values)),
    }
    for name, (function, arguments) in table.items():
        yield exporting.program(f'control_f32_train_{name}', function, arguments)


_APPLICATIONS = (
    ('residual_nets', 'ResNet50', 47),
    ('dense_nets', 'DenseNet121', 44),
    ('inception_nets', 'InceptionV3', 79),
    ('separable_nets', 'Xception', 72),
    ('plain_nets', 'VGG16', 36),
    ('convnext_nets', 'ConvNeXtTiny', 40),
    ('search_nets', 'NASNetMobile', 40),
    ('mobile', 'MobileNetV2', 50),
    ('mobile', 'MobileNetV3Small', 54),
    ('mobile', 'EfficientNetB0', 46),
)


def application_programs() -> Iterator[Program]:
    """Yields Keras applications."""
    for kind, policy in (('f32', 'float32'), ('bf16', 'mixed_bfloat16')):
        for group, model, size in _APPLICATIONS:
            if kind == 'bf16' and model in ('NASNetMobile', 'ConvNeXtTiny', 'VGG16'):
                continue
            small = model in ('MobileNetV3Small', 'ResNet50', 'VGG16', 'Xception')
            # NASNet wants 1,000 classes, or none.
            wants_all = model == 'NASNetMobile'
            top = {'include_top': False} if wants_all else {'classes': 30}
            for mode in ('infer', 'train') if small else ('infer',):
                name = f'{group}_{kind}_{mode}_{model.lower()}'
                dims = (2, size, size, 3)
                yield exporting.keras_program(name, model, dims, mode, policy, **top)


def programs() -> Iterator[Program]:
    """Yields the programs of all packages."""
    for group in (
        *(transformer_programs, haiku_programs, graph_programs, optimiser_programs),
        *(image_programs, control_programs, application_programs),
    ):
        yield from group()
