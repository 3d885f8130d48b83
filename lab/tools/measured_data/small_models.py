"""Models at small and odd sizes, two layers deep where depth is a setting."""

from collections.abc import Iterator
import functools
from typing import Any

import dm_pix
import exporting
from exporting import Program
from exporting import shaped
import haiku as hk
import jax
import jax.numpy as jnp
import networks
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
_TEXT: list[tuple[str, str, dict[str, Any], tuple[int, int]]] = [
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

    def residual(x, **settings):
        channels, blocks = (24, 48, 72, 96), (1, 1, 1, 1)
        net = hk.nets.ResNet(
            blocks, 40, bottleneck=False, channels_per_group=channels, **settings
        )
        return net(x, is_training=True)

    def mobile(x):
        net = hk.nets.MobileNetV1((1, 2, 2), (24, 40, 64), num_classes=30, use_bn=True)
        return net(x, is_training=True)

    convolved = networks.unrolled(lambda: hk.Conv2DLSTM((18, 18), 12, 3))
    second = functools.partial(residual, resnet_v2=True)
    table = {
        'recurrent_{}_{}_lstm': (networks.unrolled(lambda: hk.LSTM(72)), (5, 44, 56)),
        'recurrent_{}_{}_gru': (networks.unrolled(lambda: hk.GRU(100)), (6, 30, 48)),
        'recurrent_{}_{}_convlstm': (convolved, (3, 4, 18, 18, 6)),
        'residual_nets_{}_{}_haiku': (residual, (4, 44, 44, 3)),
        'residual_nets_{}_{}_haiku_two': (second, (3, 52, 52, 3)),
        'mobile_{}_{}_haiku_one': (mobile, (3, 50, 50, 3)),
        'quantiser_{}_{}_vq': (networks.quantiser(24, 180), (700, 24)),
        'perceptron_{}_{}_mlp': (lambda x: hk.nets.MLP([300, 130, 60])(x), (190, 84)),
    }

    for dtype, kind in exporting.TYPES.items():
        for name, (function, dims) in table.items():
            x = shaped(*dims, dtype=kind)
            yield from networks.haiku(name.format(dtype, '{}'), function, (x,))


def graph_programs() -> Iterator[Program]:
    """Yields graph networks of jraph."""
    makers = networks.graph_networks(jax.nn.tanh, (40, 48, 20), (28, 52), 44, (30, 24))
    sizes = (420, 36), (1730, 12), 7
    for dtype, kind in exporting.TYPES.items():
        for model, make in makers.items():
            name = f'graphnet_{dtype}_{{}}_{model}'
            yield from networks.on_graph(name, make, kind, *sizes)


def optimiser_programs() -> Iterator[Program]:
    """Yields a step of optimisers of optax on a tree of weights."""
    for dtype, kind in exporting.TYPES.items():
        params = {
            'kernel': shaped(170, 230, dtype=kind),
            'embedding': shaped(900, 52, dtype=kind),
            'filter': shaped(3, 3, 40, 56, dtype=kind),
            'bias': shaped(9100, dtype=kind),
        }
        for name in ('adam', 'adafactor', 'lamb', 'lion', 'sm3', 'adabelief', 'yogi'):
            if name == 'sm3' and dtype == 'bf16':
                continue
            yield networks.optimiser(f'optimiser_{dtype}_update_{name}', name, params)


def image_programs() -> Iterator[Program]:
    """Yields image processing of dm-pix."""
    image, other = shaped(4, 62, 58, 3), shaped(4, 62, 58, 3)
    one = {
        **networks.IMAGE,
        'solarize': lambda x: dm_pix.solarize(x, 0.5),
        'depth_to_space': lambda x: dm_pix.depth_to_space(
            jnp.concatenate([x, x, x, x], -1), 2
        ),
        'patches': lambda x: dm_pix.extract_patches(
            x, sizes=(1, 5, 5, 1), strides=(1, 3, 3, 1), rates=(1, 1, 1, 1)
        ),
        'resize': lambda x: jax.image.resize(x, (4, 93, 87, 3), 'bilinear'),
    }
    for name, function in one.items():
        yield exporting.program(f'image_f32_infer_{name}', function, (image,))
    for name in ('ssim', 'psnr', 'mse', 'simse'):
        function = getattr(dm_pix, name)
        yield exporting.program(f'image_f32_infer_{name}', function, (image, other))


def control_programs() -> Iterator[Program]:
    """Yields losses of reinforcement learning of rlax, with their gradients."""
    losses = networks.control(batch=460, actions=18, atoms=41, steps=60)
    for name, (function, arguments) in losses.items():
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
