"""Models of transformers, diffusers and Keras at the sizes of their papers.

One layer where layers are alike.  Batches and lengths are chosen such that most kernels
take less than 50 ms on one core.  Names end in the published size, batch and length;
`half` and `eighth` are shards of tensor-parallel models.
"""

from collections.abc import Iterator
import functools
import re
from typing import Any

import diffusers
import exporting
from exporting import Program
from exporting import shaped
import jax
import jax.numpy as jnp
import transformers

_BERT = dict(num_hidden_layers=1, vocab_size=30522)
_BASE = dict(_BERT, hidden_size=768, num_attention_heads=12, intermediate_size=3072)
_LARGE = dict(_BERT, hidden_size=1024, num_attention_heads=16, intermediate_size=4096)
_DISTILLED = dict(vocab_size=30522, dim=768, n_layers=1, n_heads=12, hidden_dim=3072)
_BLOCKS = dict(block_size=64, num_random_blocks=3)


def _encoder_decoder(
    width: int, heads: int, inner: int, vocabulary: int = 8192
) -> dict[str, Any]:
    """Returns the settings of BART and its like; few tokens, as of one shard."""
    return dict(
        vocab_size=vocabulary,
        d_model=width,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=heads,
        decoder_attention_heads=heads,
        encoder_ffn_dim=inner,
        decoder_ffn_dim=inner,
        max_position_embeddings=1024,
    )


def _t5(
    width: int, heads: int, inner: int, gated: bool = False, vocabulary: int = 32128
) -> dict[str, Any]:
    """Returns the settings of T5: 64 numbers a head."""
    return dict(
        vocab_size=vocabulary,
        d_model=width,
        d_kv=64,
        d_ff=inner,
        num_layers=1,
        num_decoder_layers=1,
        num_heads=heads,
        feed_forward_proj='gated-gelu' if gated else 'relu',
    )


def _gpt(
    width: int, heads: int, vocabulary: int = 50257, **more: Any
) -> dict[str, Any]:
    """Returns the settings of GPT-2 and GPT-J."""
    return dict(vocab_size=vocabulary, n_embd=width, n_layer=1, n_head=heads, **more)


def _llama(
    width: int,
    heads: int,
    groups: int,
    inner: int,
    vocabulary: int = 32000,
    **more: Any,
) -> dict[str, Any]:
    """Returns the settings of Llama and its like; `groups` heads of keys and values."""
    return dict(
        vocab_size=vocabulary,
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=heads,
        num_key_value_heads=groups,
        intermediate_size=inner,
        max_position_embeddings=2048,
        **more,
    )


def _opt(width: int, heads: int, inner: int) -> dict[str, Any]:
    return dict(
        vocab_size=50272,
        hidden_size=width,
        num_hidden_layers=1,
        num_attention_heads=heads,
        ffn_dim=inner,
        word_embed_proj_dim=width,
    )


# A shard of Llama has fewer heads of the same size, which only Gemma's class allows.
_SHARD = dict(head_dim=128, hidden_act='silu', hidden_activation='silu')

# Group, type, name, class, its configuration's settings, (batch, length).
_Text = tuple[str, str, str, str, dict[str, Any], tuple[int, int]]
_TEXT: list[_Text] = [
    ('encoder', 'f32', 'bert_base', 'Bert', _BASE, (1, 128)),
    ('encoder', 'f32', 'bert_base', 'Bert', _BASE, (4, 128)),
    ('encoder', 'bf16', 'bert_base', 'Bert', _BASE, (2, 128)),
    ('encoder', 'f32', 'bert_large', 'Bert', _LARGE, (1, 256)),
    ('encoder', 'bf16', 'bert_large', 'Bert', _LARGE, (1, 128)),
    (
        *('encoder', 'f32', 'bert_small', 'Bert'),
        dict(_BERT, hidden_size=512, num_attention_heads=8, intermediate_size=2048),
        (16, 64),
    ),
    (
        *('encoder', 'f32', 'bert_mini', 'Bert'),
        dict(_BERT, hidden_size=256, num_attention_heads=4, intermediate_size=1024),
        (8, 128),
    ),
    (
        *('encoder', 'f32', 'bert_large_eighth', 'Bert'),
        dict(_LARGE, intermediate_size=512, vocab_size=3816),
        (4, 128),
    ),
    ('encoder', 'f32', 'roberta_base', 'Roberta', dict(_BASE, vocab_size=50265), (2, 192)),
    ('encoder', 'f32', 'xlmroberta_base', 'XLMRoberta', _BASE, (1, 384)),
    ('encoder', 'f32', 'albert_base', 'Albert', dict(_BASE, embedding_size=128), (2, 128)),
    (
        *('encoder', 'bf16', 'albert_large', 'Albert'),
        dict(_LARGE, embedding_size=128, vocab_size=30000),
        (1, 192),
    ),
    (
        *('encoder', 'f32', 'electra_small', 'Electra'),
        dict(
            _BERT,
            embedding_size=128,
            hidden_size=256,
            num_attention_heads=4,
            intermediate_size=1024,
        ),
        (8, 128),
    ),
    ('encoder', 'f32', 'electra_base', 'Electra', dict(_BASE, embedding_size=768), (1, 512)),
    ('encoder', 'f32', 'distilbert', 'DistilBert', _DISTILLED, (8, 64)),
    ('encoder', 'bf16', 'distilbert', 'DistilBert', _DISTILLED, (1, 256)),
    ('encoder', 'f32', 'bigbird_base', 'BigBird', dict(_BASE, **_BLOCKS), (1, 704)),
    ('seqtoseq', 'f32', 't5_small', 'T5', _t5(512, 8, 2048), (4, 128)),
    ('seqtoseq', 'f32', 't5_base', 'T5', _t5(768, 12, 3072), (1, 256)),
    ('seqtoseq', 'bf16', 't5_base', 'T5', _t5(768, 12, 3072), (2, 128)),
    ('seqtoseq', 'f32', 't5_base_half', 'T5', _t5(768, 6, 1536), (4, 128)),
    ('seqtoseq', 'f32', 't5_xl_eighth', 'T5', _t5(2048, 4, 640, True, 4016), (2, 128)),
    ('seqtoseq', 'f32', 'mt5_small', 'MT5', _t5(512, 6, 1024, True, 31264), (4, 96)),
    ('seqtoseq', 'f32', 'bart_base', 'Bart', _encoder_decoder(768, 12, 3072, 50265), (1, 256)),
    ('seqtoseq', 'bf16', 'bart_large', 'Bart', _encoder_decoder(1024, 16, 4096), (1, 128)),
    ('seqtoseq', 'f32', 'marian', 'Marian', _encoder_decoder(512, 8, 2048, 58101), (8, 64)),
    ('seqtoseq', 'f32', 'pegasus_large', 'Pegasus', _encoder_decoder(1024, 16, 4096), (1, 160)),
    ('seqtoseq', 'f32', 'blenderbot_small', 'BlenderbotSmall', _encoder_decoder(512, 16, 2048), (4, 96)),
    ('seqtoseq', 'f32', 'longt5_base', 'LongT5', dict(_t5(768, 12, 2048, True), local_radius=127), (1, 512)),
    ('decoder', 'f32', 'gpt2', 'GPT2', _gpt(768, 12), (2, 128)),
    ('decoder', 'bf16', 'gpt2', 'GPT2', _gpt(768, 12), (1, 256)),
    ('decoder', 'f32', 'gpt2_medium', 'GPT2', _gpt(1024, 16), (1, 128)),
    ('decoder', 'f32', 'gpt2_large', 'GPT2', _gpt(1280, 20), (1, 128)),
    ('decoder', 'f32', 'gpt2_xl', 'GPT2', _gpt(1600, 25, 12568), (1, 64)),
    ('decoder', 'bf16', 'gptj', 'GPTJ', _gpt(4096, 16, 6300, rotary_dim=64), (1, 16)),
    ('decoder', 'f32', 'gptj', 'GPTJ', _gpt(4096, 16, 6300, rotary_dim=64), (1, 32)),
    (
        *('decoder', 'f32', 'gptneo', 'GPTNeo'),
        dict(
            vocab_size=50257,
            hidden_size=768,
            num_layers=1,
            num_heads=12,
            attention_types=[[['local'], 1]],
        ),
        (1, 256),
    ),
    ('decoder', 'f32', 'llama_seven', 'Llama', _llama(4096, 32, 32, 11008, 4000), (1, 32)),
    ('decoder', 'f32', 'llama_seven_half', 'Gemma', _llama(4096, 16, 16, 5504, 4000, **_SHARD), (1, 64)),
    ('decoder', 'f32', 'llama_seven_eighth', 'Gemma', _llama(4096, 4, 4, 1376, 4000, **_SHARD), (2, 128)),
    ('decoder', 'bf16', 'llama_seventy_eighth', 'Gemma', _llama(8192, 8, 1, 3584, 4008, **_SHARD), (1, 32)),
    ('decoder', 'f32', 'llama_seventy_eighth', 'Gemma', _llama(8192, 8, 1, 3584, 4008, **_SHARD), (1, 64)),
    ('decoder', 'f32', 'mistral_seven', 'Mistral', _llama(4096, 32, 8, 14336, 4000), (1, 16)),
    ('decoder', 'f32', 'gemma_two', 'Gemma', _llama(2048, 8, 1, 16384, 32000, head_dim=256), (1, 32)),
    ('decoder', 'f32', 'opt_small', 'OPT', _opt(768, 12, 3072), (2, 128)),
    ('decoder', 'f32', 'opt_large', 'OPT', _opt(2048, 32, 8192), (1, 48)),
    ('decoder', 'f32', 'bloom_small', 'Bloom', dict(vocab_size=31360, hidden_size=1024, n_layer=1, n_head=16), (1, 128)),
    ('decoder', 'f32', 'xglm', 'XGLM', dict(vocab_size=32001, d_model=1024, ffn_dim=4096, num_layers=1, attention_heads=16), (1, 128)),
]  # fmt: skip
# One token for each of a batch, after a cache of the length.
_DECODING: list[_Text] = [
    ('decoder', 'f32', 'gpt2_step', 'GPT2', _gpt(768, 12), (16, 512)),
    ('decoder', 'f32', 'gpt2_xl_step', 'GPT2', _gpt(1600, 25), (4, 512)),
    ('decoder', 'f32', 'gptj_step', 'GPTJ', _gpt(4096, 16, 6300, rotary_dim=64), (1, 1024)),
    ('decoder', 'f32', 'llama_seven_step', 'Llama', _llama(4096, 32, 32, 11008, 4000), (1, 1024)),
    ('decoder', 'bf16', 'llama_seven_step', 'Llama', _llama(4096, 32, 32, 11008, 4000), (4, 256)),
    ('decoder', 'f32', 'llama_seventy_eighth_step', 'Gemma', _llama(8192, 8, 1, 3584, 4008, **_SHARD), (16, 512)),
    ('decoder', 'f32', 'mistral_seven_step', 'Mistral', _llama(4096, 32, 8, 14336, 4000), (2, 512)),
    ('decoder', 'f32', 'gemma_two_step', 'Gemma', _llama(2048, 8, 1, 16384, 32000, head_dim=256), (8, 256)),
    ('decoder', 'f32', 'opt_large_step', 'OPT', _opt(2048, 32, 8192), (8, 512)),
]  # fmt: skip
# Logits of the whole vocabulary: (batch, length).
_HEADS: list[_Text] = [
    ('encoder', 'f32', 'bert_base_head', 'BertForMaskedLM', _BASE, (1, 64)),
    ('seqtoseq', 'f32', 't5_small_head', 'T5ForConditionalGeneration', _t5(512, 8, 2048), (1, 64)),
    ('decoder', 'f32', 'gpt2_head', 'GPT2LMHeadModel', _gpt(768, 12), (1, 32)),
    ('decoder', 'f32', 'opt_small_head', 'OPTForCausalLM', _opt(768, 12, 3072), (4, 8)),
]  # fmt: skip


# What the name of a model with a head adds.
_HEAD = '(For(Masked|Causal|Conditional)|LMHead).*'


def _class_of(model: str) -> str:
    return f'Flax{model}' if re.search(_HEAD, model) else f'Flax{model}Model'


def _config_of(model: str, settings: dict[str, Any]) -> Any:
    return getattr(transformers, re.sub(_HEAD, '', model) + 'Config')(**settings)


def text_programs() -> Iterator[Program]:
    """Yields language models."""
    for group, dtype, label, model, settings, (batch, length) in (*_TEXT, *_HEADS):
        name = f'{group}_{dtype}_{{}}_{label}_{batch}x{length}'
        ids = shaped(batch, length, dtype=jnp.int32)
        inputs, caller = (ids,), exporting.call
        if group == 'seqtoseq':
            inputs = (ids, shaped(batch, length // 2, dtype=jnp.int32))
            caller = exporting.call_both
        config, kind = _config_of(model, settings), exporting.TYPES[dtype]
        yield from exporting.flax_programs(
            name, _class_of(model), config, kind, inputs, caller
        )


def decoding_programs() -> Iterator[Program]:
    """Yields steps of one token with a cache of keys and values."""
    for group, dtype, label, model, settings, (batch, length) in _DECODING:
        net, params = exporting.flax_model(
            _class_of(model), _config_of(model, settings), exporting.TYPES[dtype]
        )
        cache = jax.eval_shape(functools.partial(net.init_cache, batch, length))
        mask = shaped(batch, length, dtype=jnp.int32)
        token = shaped(batch, 1, dtype=jnp.int32)

        def step(p: Any, c: Any, t: Any, m: Any, at: Any, net: Any = net) -> Any:
            options = dict(attention_mask=m, position_ids=at, past_key_values=c)
            return net(t, params=p, return_dict=False, **options)

        name = f'{group}_{dtype}_infer_{label}_{batch}x{length}'
        yield exporting.program(name, step, (params, cache, token, mask, token))


_SIGHT: list[tuple[str, str, str, dict[str, Any], int]] = [
    ('f32', 'vit_base', 'ViT', dict(_BASE, image_size=224), 1),
    ('bf16', 'vit_base', 'ViT', dict(_BASE, image_size=224), 2),
    ('f32', 'vit_small', 'ViT', dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536), 4),
    ('f32', 'vit_large', 'ViT', dict(_LARGE, patch_size=32), 2),
    ('f32', 'vit_base_half', 'ViT', dict(_BASE, intermediate_size=1536), 2),
    ('f32', 'beit_base', 'Beit', dict(_BASE, image_size=224), 1),
    ('f32', 'clip_patch32', 'CLIPVision', dict(_BASE, patch_size=32), 8),
    ('f32', 'clip_patch16', 'CLIPVision', dict(_BASE, patch_size=16), 2),
]  # fmt: skip
_RESNET = dict(depths=[3, 4, 6, 3], hidden_sizes=[256, 512, 1024, 2048])


def vision_programs() -> Iterator[Program]:
    """Yields models of images at 224."""
    for dtype, label, model, settings, batch in _SIGHT:
        settings = dict(settings, num_hidden_layers=1)
        settings.pop('vocab_size', None)
        name = f'vision_{dtype}_{{}}_{label}_{batch}'
        config, inputs = _config_of(model, settings), (shaped(batch, 3, 224, 224),)
        yield from exporting.flax_programs(
            name, _class_of(model), config, exporting.TYPES[dtype], inputs
        )
    config = transformers.CLIPTextConfig(
        hidden_size=512, intermediate_size=2048, num_hidden_layers=1
    )
    inputs = (shaped(8, 77, dtype=jnp.int32),)
    yield from exporting.flax_programs(
        'vision_f32_{}_clip_text', 'FlaxCLIPTextModel', config, jnp.float32, inputs
    )
    for dtype, batch in (('f32', 1), ('bf16', 4)):
        for label, model, config in (
            ('resnet50', 'ResNet', transformers.ResNetConfig(**_RESNET)),
            ('regnet', 'RegNet', transformers.RegNetConfig()),
        ):
            name = f'residual_nets_{dtype}_{{}}_{label}_{batch}'
            kind, inputs = exporting.TYPES[dtype], (shaped(batch, 3, 224, 224),)
            yield from exporting.flax_programs(
                name, _class_of(model), config, kind, inputs
            )


def speech_programs() -> Iterator[Program]:
    """Yields Whisper and Wav2Vec2."""
    for dtype, label, width, heads, frames in (
        ('f32', 'tiny', 384, 6, 3000),
        ('f32', 'base', 512, 8, 3000),
        ('bf16', 'base', 512, 8, 1000),
        ('f32', 'small', 768, 12, 1000),
        ('f32', 'medium', 1024, 16, 500),
    ):
        config = transformers.WhisperConfig(
            **_encoder_decoder(width, heads, 4 * width, 51865),
            max_source_positions=frames // 2,
        )
        name = f'speech_{dtype}_{{}}_whisper_{label}_{frames}'
        inputs = (shaped(1, 80, frames), shaped(1, 64, dtype=jnp.int32))
        yield from exporting.flax_programs(
            name, 'FlaxWhisperModel', config, exporting.TYPES[dtype], inputs
        )
    stable = dict(do_stable_layer_norm=True, feat_extract_norm='layer')
    for dtype, label, settings, dims in (
        ('f32', 'base', _BASE, (1, 16000)),
        ('f32', 'base', _BASE, (2, 48000)),
        ('bf16', 'large', _LARGE, (1, 32000)),
    ):
        config = transformers.Wav2Vec2Config(**dict(settings, vocab_size=32), **stable)
        name = f'speech_{dtype}_{{}}_wav2vec2_{label}_{dims[0]}x{dims[1]}'
        yield from exporting.flax_programs(
            name, 'FlaxWav2Vec2Model', config, exporting.TYPES[dtype], (shaped(*dims),)
        )


def diffusion_programs() -> Iterator[Program]:
    """Yields the U-Net of Stable Diffusion for images of 256, and its decoder."""
    for dtype, side, channels in (
        ('f32', 32, (320, 640, 1280, 1280)),
        ('f32', 64, (128, 256, 512, 512)),
        ('bf16', 32, (320, 640, 1280, 1280)),
    ):
        kind = exporting.TYPES[dtype]
        net = diffusers.FlaxUNet2DConditionModel(
            sample_size=side,
            block_out_channels=channels,
            layers_per_block=1,
            cross_attention_dim=768,
            dtype=kind,
        )
        params = jax.eval_shape(net.init_weights, jax.random.PRNGKey(0))
        inputs = (
            shaped(1, 4, side, side),
            shaped(1, dtype=jnp.int32),
            shaped(1, 77, 768),
        )

        def apply(p: Any, x: Any, t: Any, text: Any, net: Any = net) -> jax.Array:
            return net.apply({'params': p}, x, t, text, return_dict=False)[0]

        name = f'diffusion_{dtype}_{{}}_unet_{channels[0]}x{side}'
        yield from exporting.both_modes(name, apply, params, inputs)
    coder = diffusers.FlaxAutoencoderKL(
        down_block_types=('DownEncoderBlock2D',) * 4,
        up_block_types=('UpDecoderBlock2D',) * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=1,
        sample_size=128,
    )
    params = jax.eval_shape(coder.init_weights, jax.random.PRNGKey(0))

    def code(p: Any, x: jax.Array) -> jax.Array:
        return coder.apply({'params': p}, x).sample

    yield exporting.program(
        'diffusion_f32_infer_autoencoder', code, (params, shaped(1, 3, 128, 128))
    )


# Group, model, side, batch, whether its training step is exported, too.
_APPLICATIONS = (
    ('residual_nets', 'ResNet50', 224, 1, True),
    ('residual_nets', 'ResNet50V2', 224, 4, True),
    ('dense_nets', 'DenseNet121', 224, 1, True),
    ('dense_nets', 'DenseNet201', 224, 2, False),
    ('inception_nets', 'InceptionV3', 299, 1, True),
    ('inception_nets', 'InceptionResNetV2', 299, 1, False),
    ('separable_nets', 'Xception', 299, 1, True),
    ('plain_nets', 'VGG16', 224, 1, True),
    ('convnext_nets', 'ConvNeXtTiny', 224, 1, True),
    ('convnext_nets', 'ConvNeXtBase', 224, 2, False),
    ('mobile', 'MobileNet', 224, 4, True),
    ('mobile', 'MobileNetV2', 224, 1, True),
    ('mobile', 'MobileNetV2', 224, 8, False),
    ('mobile', 'MobileNetV3Small', 224, 8, True),
    ('mobile', 'MobileNetV3Large', 224, 2, True),
    ('mobile', 'EfficientNetB0', 224, 1, True),
    ('mobile', 'EfficientNetB3', 300, 2, False),
    ('mobile', 'EfficientNetV2B0', 224, 4, False),
)


def application_programs() -> Iterator[Program]:
    """Yields Keras applications; in bfloat16 those whose training step is wanted."""
    for kind, policy in (('f32', 'float32'), ('bf16', 'mixed_bfloat16')):
        for group, model, side, batch, trains in _APPLICATIONS:
            if kind == 'bf16' and (not trains or model in ('VGG16', 'ConvNeXtTiny')):
                continue
            for mode in ('infer', 'train') if trains and kind == 'f32' else ('infer',):
                name = f'{group}_{kind}_{mode}_{model.lower()}_{batch}x{side}'
                dims = (batch, side, side, 3)
                yield exporting.keras_program(name, model, dims, mode, policy)


def programs() -> Iterator[Program]:
    """Yields the programs of all packages."""
    for group in (
        *(text_programs, decoding_programs, vision_programs, speech_programs),
        *(diffusion_programs, application_programs),
    ):
        yield from group()
