"""The simulated machine against measured kernels: does it rank as the TPU did?

The eight real kernels with at least ten configurations whose tiles are known
are rebuilt here with the simulator's own builder.  `pytest -s` prints the table
that docs/simulated-data.md quotes.
"""

import os

import numpy as np
import pytest
from scipy import stats

from baselines.data.tile import records
from baselines.simulated import raw
from baselines.simulated.hlo import (
    Computation,
    ConvolutionDims,
    Follow,
    Fusion,
    Window,
    tensor,
)
from baselines.simulated.tile.tiles import Space, bounds_of, space_of
from baselines.simulated.tile.workload import Workload
from tests.helpers import places

ROOT = str(places.SHARED / 'npz' / 'tile' / 'xla')
IMAGES = (3, 0, 2, 1)

pytestmark = pytest.mark.skipif(
    not os.path.isdir(ROOT), reason='no real kernels beside the repository'
)


def copy(dtype, old, new):
    shape = tensor(dtype, (32, 5, 5, 256), layout=new)
    entry = Computation()
    entry.add('copy', shape, entry.parameter(shape._replace(layout=old)))
    return [entry], space_of(shape)


def masked_sum(side, channels, mask_type):
    """Sum over N, H, W of what a bit mask [N, W, C] selects."""
    shape = tensor('f32', (32, side, side, channels), layout=IMAGES)
    fusion = Fusion()
    one = fusion.constant(shape.typed('u32'))
    place = fusion.add('iota', shape.typed('u32'), dimensions=(1,))
    mask = fusion.vector(shape, [0, 2, 3], mask_type).convert('u32')
    bits = one.op('shift-left', place).op('and', mask).convert('pred')
    x, zero = fusion.parameter(shape), fusion.constant(shape)
    fusion.tuple(bits.op('select', x, zero).reduce((0, 1, 2)))
    return fusion.finish(), space_of(shape, reduced=(0, 1, 2))


def unchanged(fusion, shape):
    inner = Computation()
    inner.add('bitcast', shape, inner.parameter(shape))
    return fusion.producer(inner)


def masked(fusion, shape):
    """A product's operand: select(mask, x * constant, 0)."""
    inner = Computation()
    mask, x = inner.parameter(shape.typed('pred')), inner.parameter(shape)
    mask.op('select', x * inner.constant(shape), inner.constant(shape))
    return fusion.producer(inner)


def cross_entropy_gradient(fusion, shape):
    """exp(x - maximum) / sum - one_hot(label), scaled."""
    inner = Computation()
    scale, x = inner.constant(shape), inner.parameter(shape)
    x = x - inner.vector(shape, [0])
    x = x.op('exponential') / inner.vector(shape, [0])
    place = inner.add('iota', shape.typed('s32'), dimensions=(1,))
    here = inner.vector(shape, [0], 's32').op('compare', place)
    hot = here.op('select', inner.constant(shape), inner.constant(shape))
    _ = scale * (x - hot)
    return fusion.producer(inner)


def product(fusion, shape, left, right, numbers):
    return fusion.add(
        'convolution',
        shape,
        left,
        right,
        convolution=ConvolutionDims(*numbers[:2], (), *numbers[2:], (), 0, 1),
    )


def forward_product():
    """[32, 4096] x [4096, 1000] + bias, and the maximum per row."""
    left = tensor('f32', (32, 4096), axes=(0, 2))
    right = tensor('f32', (4096, 1000), axes=(2, 1), layout=(0, 1))
    shape = tensor('f32', (32, 1000))
    fusion = Fusion()
    x = masked(fusion, left)
    x = product(fusion, shape, x, unchanged(fusion, right), (0, 1, 0, 1))
    x = x + fusion.vector(shape, [1])
    fusion.tuple(x, x.reduce((1,), 'maximum'))
    space = Space((32, 1000, 4096), bounds_of(shape), bounds_of(right), contracted=(2,))
    return fusion.finish(), space


def backward_product():
    """The same layer's gradient of its input, with its relu and dropout."""
    left = tensor('f32', (32, 1000), axes=(0, 2))
    right = tensor('f32', (4096, 1000), axes=(1, 2), layout=(0, 1))
    shape = tensor('f32', (32, 4096))
    fusion = Fusion()
    zero = fusion.constant(shape)
    alive = fusion.parameter(shape).op('compare', zero)
    kept = fusion.parameter(shape.typed('pred'))
    x = cross_entropy_gradient(fusion, left)
    x = product(fusion, shape, x, unchanged(fusion, right), (0, 1, 1, 0))
    x = kept.op('select', x, zero) * fusion.constant(shape)
    x = alive.op('select', x, zero)
    fusion.tuple(x.reduce((0,)), x.convert('bf16'))
    space = Space((32, 4096, 1000), bounds_of(shape), bounds_of(right), contracted=(2,))
    return fusion.finish(), space


def weight_update():
    """Its gradient of the weights, and a step of gradient descent."""
    left = tensor('f32', (32, 4096), axes=(2, 0))
    right = tensor('f32', (32, 1000), axes=(2, 1))
    shape = tensor('f32', (4096, 1000), layout=(0, 1))
    fusion = Fusion()
    weights, rate = fusion.parameter(shape), fusion.vector(shape, ())
    x = masked(fusion, left)
    x = product(fusion, shape, x, cross_entropy_gradient(fusion, right), (1, 0, 0, 1))
    _ = weights - rate * x
    space = Space((4096, 1000, 32), bounds_of(shape), bounds_of(right), contracted=(2,))
    return fusion.finish(), space


def convolution():
    """[32, 12, 12, 192] under [3, 3, 192, 384], bias, relu and its bit mask."""
    image = tensor(
        'bf16',
        (32, 12, 12, 192),
        layout=IMAGES,
        axes=(0, Follow(1, 1, 1, 4), Follow(2, 1, 1, 5), 6),
    )
    kernel = tensor('f32', (3, 3, 192, 384), axes=(4, 5, 6, 3))
    shape = tensor('f32', (32, 12, 12, 384), layout=IMAGES)
    fusion = Fusion()
    x = fusion.add(
        'convolution',
        shape,
        unchanged(fusion, image),
        unchanged(fusion, kernel),
        window=(Window(3, 1, 1, 1),) * 2,
        convolution=ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
    )
    x = x + fusion.vector(shape, [3])
    zero = fusion.constant(shape)
    x = x.op('maximum', zero)
    bits = zero.op('compare', x).convert('u32')
    place = fusion.add('iota', shape.typed('u32'), dimensions=(1,))
    bits = bits.op('shift-left', place).convert('u16')
    fusion.tuple(bits.reduce((1,), 'or'), x.convert('bf16'))
    space = Space(
        (32, 12, 12, 384, 3, 3, 192),
        bounds_of(shape),
        bounds_of(kernel),
        contracted=(4, 5, 6),
    )
    return fusion.finish(), space


KERNELS = {
    'train/copy_24_715d6c5d784f9262': lambda: copy('bf16', IMAGES, (3, 2, 1, 0)),
    'valid/copy_25_4d1e36cc29e3e6d8': lambda: copy('f32', (3, 2, 1, 0), IMAGES),
    'train/fusion_191_4ae805e53b8d2b8a': convolution,
    'valid/fusion_205_11d55dfd21d1a19c': forward_product,
    'train/fusion_209_6506960125603509': backward_product,
    'train/fusion_232_579e7b2c540f0929': lambda: masked_sum(26, 192, 'u32'),
    'valid/fusion_245_caba9ef5f8c0115a': lambda: masked_sum(12, 256, 'u16'),
    'train/fusion_261_f758aa847a9184c5': weight_update,
}


def real(name):
    return records.read_tile(os.path.join(ROOT, f'{name}.npz'))


def tiles_of(space, config_feat):
    """Turns real bounds back into elements."""
    tiles = np.tile(np.array(space.sizes, np.int64), (len(config_feat), 1))
    for first, bounds in ((0, space.kernel_bounds), (8, space.output_bounds)):
        for place, (axis, unit) in enumerate(bounds):
            bound = config_feat[:, first + place].astype(np.int64) * unit
            tiles[:, axis] = np.minimum(tiles[:, axis], bound)
    return tiles


@pytest.fixture(scope='module')
def compared():
    """Per kernel: measured ns, simulated ns, bytes of vector memory."""
    found = {}
    for name, build in KERNELS.items():
        record = real(name)
        computations, space = build()
        workload = Workload(computations, space)
        tiles = tiles_of(space, record.config_feat)
        _, memory = workload.vector_memory(tiles)
        found[name] = record.config_runtime, workload.runtime_ns(tiles), memory
    return found


def test_ranks_configurations_as_measured(compared):
    print('\nkernel       configs  Spearman  simulated / measured (median)')
    correlations = []
    for name, (measured, simulated, _) in compared.items():
        rank = stats.spearmanr(measured, simulated)[0]
        ratio = np.median(simulated / measured)
        kernel = name[6:].rpartition('_')[0]
        print(f'{kernel:<12} {len(measured):>7}  {rank:>8.3f}  {ratio:.2f}')
        correlations.append(rank)
        assert rank > 0.85, name
        assert 0.6 < ratio < 1.5, name
    print(f'mean {np.mean(correlations):>26.3f}')
    assert np.mean(correlations) > 0.93


def test_measured_configurations_fit_twice_into_vector_memory(compared):
    # What the simulator takes for the rule that makes a tile a candidate.
    largest = {name: memory.max() / 2**20 for name, (*_, memory) in compared.items()}
    assert all(mib < 16.5 for mib in largest.values()), largest
    assert max(largest.values()) > 15, largest


def test_rebuilt_features_equal_the_extracted_ones():
    """The same instructions, whatever the order and the parameter numbers."""
    for name, build in KERNELS.items():
        record = real(name)
        features, opcodes, edges = raw.graph_arrays(build()[0]).values()
        assert len(edges) == len(record.edge_index), name
        rows = []
        for feat, opcode in (
            (features, opcodes),
            (record.node_feat, record.node_opcode),
        ):
            feat = np.delete(feat, 30, axis=1)  # parameter_number
            rows.append(sorted(map(tuple, np.column_stack([opcode, feat]).tolist())))
        assert rows[0] == rows[1], name
