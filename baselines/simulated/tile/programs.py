"""The simulated programs: what tensors they have, and how they are split.

A program is a vocabulary: the activations, weights, products and convolutions
that occur in it, and the element-wise operations it likes.  Kernels are drawn
from it (`kernels`).  Every name begins with `sim_`, so that no table or CSV can
be mistaken for one of real kernels.
"""

from typing import Callable, Dict, NamedTuple, Optional, Sequence, Tuple

Dims = Tuple[int, ...]


class Program(NamedTuple):
    """Vocabulary of one program."""

    name: str  # begins the file names of its kernels
    split: str  # the only split in which its kernels occur
    dtype: str  # how activations are stored, 'f32' or 'bf16'
    # minor_to_major of activations, by rank; row major if absent
    layout: Dict[int, Dims]
    activations: Sequence[Dims]  # shapes of activations
    weights: Sequence[Dims]  # shapes of parameters, [in, out]
    products: Sequence[Dims]  # matrix products, [rows, depth, columns]
    snippets: str  # element-wise sequences, by name
    kinds: Tuple[str, ...]  # kinds of kernels, each as often as it is frequent
    convolutions: Sequence[Dims] = ()  # (batch, side, input, output, window, stride)
    attentions: Sequence[Dims] = ()  # batched products, [batch, rows, columns, depth]
    narrow: float = 0.7  # how often results are stored as bf16, where activations are
    # share of activations whose second and third fastest dimensions are exchanged in
    # memory; the second simulator's
    permuted: Optional[float] = None


# As on a TPU, batches of images lie along the sublanes: [H, W, N, C] in memory.
_IMAGE_LAYOUT = {4: (3, 0, 2, 1)}


def weighted(text: str) -> Tuple[str, ...]:
    """Repeats each word of 'this 3, that 1' as often as it says."""
    pairs = (pair.split() for pair in text.split(', '))
    return tuple(name for name, count in pairs for _ in range(int(count)))


def _convnet(name, split, dtype, batch, side, widths, bottleneck=False) -> Program:
    activations, convolutions = [], []
    for i, width in enumerate(widths):
        here = max(side >> i, 4)
        activations.append((batch, here, here, width))
        if bottleneck:
            activations.append((batch, here, here, 4 * width))
            convolutions.append((batch, here, 4 * width, width, 1, 1))
            convolutions.append((batch, here, width, 4 * width, 1, 1))
        convolutions.append((batch, here, width, width, 3, 1))
        if i + 1 < len(widths):
            convolutions.append((batch, here // 2, width, widths[i + 1], 3, 2))
    features = widths[-1] * (4 if bottleneck else 1)
    return Program(
        name, split, dtype, _IMAGE_LAYOUT, activations,
        weights=((features, 1000), (9 * widths[-1], widths[-1])),
        products=((batch, features, 1000), (batch, 1000, features)),
        convolutions=convolutions,
        snippets='relu relu_grad residual bias scale_shift normalise clip scale',
        kinds=weighted('convolve 11, reduce_rows 4, elementwise 4, copy 2, matmul 3, '
                       'update 1, pad 1, concatenate 1'),
    )  # fmt: skip


def _transformer(name, split, dtype, batch, length, hidden, heads, vocabulary):
    inner, rows, depth = 4 * hidden, batch * length, hidden // heads
    return Program(
        name, split, dtype, {},
        activations=((batch, length, hidden), (batch, length, inner),
                     (batch, heads, length, length), (batch, length, heads, depth)),
        weights=((hidden, hidden), (hidden, inner), (vocabulary, hidden)),
        products=((rows, hidden, hidden), (rows, hidden, inner), (rows, inner, hidden),
                  (hidden, rows, inner), (rows, hidden, 3 * hidden)),
        attentions=((batch * heads, length, length, depth),),
        snippets='gelu residual bias dropout normalise_rows scale_shift '
                 'mask_bias scale divide_rows',
        kinds=weighted('matmul 12, softmax 3, elementwise 4, reduce_rows 3, '
                       'reduce_features 2, transpose 2, attention 3, update 2, copy 1'),
    )  # fmt: skip


def _mixer(name, split, dtype, batch, patches, channels) -> Program:
    rows, tokens, inner = batch * patches, patches // 2, 4 * channels
    return Program(
        name, split, dtype, {},
        activations=((batch, patches, channels), (batch, channels, patches),
                     (batch, patches, inner)),
        weights=((channels, inner), (patches, tokens)),
        products=((rows, channels, inner), (rows, inner, channels),
                  (batch * channels, patches, tokens), (batch, channels, 1000)),
        snippets='gelu residual bias normalise_rows scale_shift dropout swish',
        kinds=weighted('matmul 11, transpose 2, elementwise 4, reduce_features 3, '
                       'reduce_rows 2, copy 1, update 1'),
    )  # fmt: skip


def _recurrent(name, split, dtype, batch, length, hidden, vocabulary) -> Program:
    rows = length * batch
    return Program(
        name, split, dtype, {},
        activations=((batch, hidden), (length, batch, hidden), (batch, vocabulary),
                     (length, batch, 2 * hidden)),
        weights=((2 * hidden, 4 * hidden), (hidden, vocabulary)),
        products=((batch, 2 * hidden, 4 * hidden), (rows, hidden, 4 * hidden),
                  (rows, hidden, vocabulary), (2 * hidden, batch, 4 * hidden)),
        snippets='swish bias residual clip square scale dropout one_hot_difference',
        kinds=weighted('gates 3, matmul 11, softmax 2, elementwise 3, concatenate 2, '
                       'slice 2, update 2, reduce_rows 2, transpose 1'),
    )  # fmt: skip


def _unet(name, split, dtype, batch, side, width) -> Program:
    activations, convolutions = [], []
    for level in range(4):
        here, channels = side >> level, width << level
        activations += [(batch, here, here, c) for c in (channels, 2 * channels)]
        convolutions += [
            (batch, here, channels, channels, 3, 1),
            (batch, here, 2 * channels, channels, 3, 1),
            (batch, here // 2, channels, 2 * channels, 2, 2),
        ]
    return Program(
        name, split, dtype, _IMAGE_LAYOUT if batch >= 8 else {}, activations,
        weights=((9 * width, 2 * width), (36 * width, 8 * width)),
        products=((side * side, width, 2 * width),),
        convolutions=convolutions,
        snippets='relu relu_grad bias normalise scale_shift residual swish',
        kinds=weighted('convolve 9, concatenate 3, elementwise 4, pad 3, slice 2, '
                       'reduce_rows 3, copy 2, update 1'),
    )  # fmt: skip


def _recommender(name, split, dtype, batch, fields, width, hidden) -> Program:
    inputs = fields * width
    return Program(
        name, split, dtype, {},
        activations=((batch, fields, width), (batch, inputs), (batch, hidden)),
        weights=((inputs, hidden), (10000, width)),
        products=((batch, inputs, hidden), (batch, hidden, hidden),
                  (hidden, batch, hidden), (inputs, batch, hidden)),
        attentions=((batch // 8, fields, fields, width),),
        snippets='relu relu_grad bias square root_divide clip dropout residual',
        kinds=weighted('matmul 11, elementwise 4, reduce_features 3, reduce_rows 3, '
                       'update 3, concatenate 2, slice 1, transpose 2, attention 1'),
    )  # fmt: skip


# By family: name without its prefix, split, and what its function takes.
_PROGRAMS: Dict[Callable[..., Program], Tuple[Tuple, ...]] = {
    _convnet: (
        ('convnet_18_batch_32', 'train', 'f32', 32, 28, (64, 128, 256)),
        ('convnet_18_batch_128_bf16', 'train', 'bf16', 128, 16, (64, 128, 256)),
        ('convnet_50_batch_64_bf16', 'train', 'bf16', 64, 14, (128, 256), True),
        ('convnet_50_batch_16', 'train', 'f32', 16, 28, (64, 128, 256), True),
        ('convnet_wide_batch_32', 'train', 'f32', 32, 20, (160, 320, 640)),
        ('convnet_tiny_batch_256', 'train', 'f32', 256, 12, (48, 96, 192)),
        ('convnet_narrow_batch_8', 'train', 'bf16', 8, 56, (24, 40, 80, 112)),
        ('convnet_101_batch_32_bf16', 'valid', 'bf16', 32, 14, (96, 192), True),
        ('convnet_34_batch_64', 'test', 'f32', 64, 18, (72, 144, 288)),
    ),
    _transformer: (
        ('transformer_base_batch_16', 'train', 'f32', 16, 128, 768, 12, 8192),
        ('transformer_base_batch_4', 'train', 'f32', 4, 384, 768, 12, 8192),
        ('transformer_large_bf16', 'train', 'bf16', 4, 256, 1024, 16, 6144),
        ('transformer_small_batch_32', 'train', 'f32', 32, 64, 512, 8, 4096),
        ('transformer_tiny_bf16', 'train', 'bf16', 64, 48, 256, 4, 3000),
        ('transformer_decoder', 'train', 'f32', 2, 512, 640, 10, 5000),
        ('transformer_medium_bf16', 'valid', 'bf16', 8, 192, 896, 14, 7000),
        ('transformer_shared', 'test', 'f32', 12, 96, 640, 8, 6000),
    ),
    _mixer: (
        ('mixer_small_batch_16', 'train', 'f32', 16, 196, 512),
        ('mixer_base_batch_8_bf16', 'train', 'bf16', 8, 196, 768),
        ('mixer_large_batch_4', 'train', 'f32', 4, 256, 1024),
        ('mixer_tall_batch_8', 'train', 'f32', 8, 400, 384),
        ('mixer_medium_batch_6', 'valid', 'f32', 6, 324, 640),
        ('mixer_wide_batch_12_bf16', 'test', 'bf16', 12, 144, 896),
    ),
    _recurrent: (
        ('recurrent_small', 'train', 'f32', 20, 35, 200, 4000),
        ('recurrent_large_bf16', 'train', 'bf16', 64, 50, 1024, 8000),
        ('recurrent_speech', 'train', 'f32', 128, 30, 640, 4096),
        ('recurrent_translation', 'train', 'f32', 96, 20, 512, 6000),
        ('recurrent_medium', 'valid', 'f32', 48, 36, 650, 5000),
        ('recurrent_characters_bf16', 'test', 'bf16', 112, 24, 384, 2048),
    ),
    _unet: (
        ('unet_batch_16', 'train', 'f32', 16, 64, 32),
        ('unet_batch_1_wide', 'train', 'f32', 1, 128, 64),
        ('unet_batch_8_bf16', 'train', 'bf16', 8, 80, 48),
        ('unet_batch_4', 'train', 'f32', 4, 96, 24),
        ('unet_batch_2_bf16', 'valid', 'bf16', 2, 112, 40),
        ('unet_batch_24', 'test', 'f32', 24, 48, 56),
    ),
    _recommender: (
        ('recommender_base', 'train', 'f32', 1024, 26, 64, 512),
        ('recommender_wide', 'train', 'f32', 2048, 24, 32, 1024),
        ('recommender_deep_bf16', 'train', 'bf16', 512, 16, 128, 768),
        ('recommender_click', 'train', 'f32', 1536, 40, 16, 400),
        ('recommender_music', 'valid', 'f32', 1280, 30, 48, 640),
        ('recommender_video_bf16', 'test', 'bf16', 768, 20, 96, 896),
    ),
}


def programs() -> Tuple[Program, ...]:
    """Returns all simulated programs, in a fixed order."""
    return tuple(
        make(f'sim_{name}', *rest)
        for make, table in _PROGRAMS.items()
        for name, *rest in table
    )
