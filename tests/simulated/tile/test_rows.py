"""Features and edges of simulated modules, derived by hand."""

import numpy as np

from baselines.simulated import raw
from baselines.simulated.hlo import Computation, ConvolutionDims, Fusion, Window, tensor

# Products of empty lists are 1.
ONES = (28, 44, 52, 60, 68, 76, 84, 112, 116, 120, 124, 128, 132)
F32, BF16, PRED, TUPLE = 13, 15, 3, 18


def row(columns):
    expected = np.zeros(140, np.float32)
    expected[list(ONES)] = 1
    for column, value in columns.items():
        expected[column] = value
    return expected


def assert_row(found, columns):
    wrong = np.flatnonzero(found != row(columns))
    assert not len(wrong), {int(c): float(found[c]) for c in wrong}


def test_a_fusion():
    fusion = Fusion()
    x = fusion.parameter(tensor('f32', (32, 1000)))
    fusion.vector(x.shape, [1]).op('compare', x)
    features, opcodes, edges = raw.graph_arrays(fusion.finish()).values()
    # Body: parameter, parameter, broadcast, compare; entry: two, fusion.
    assert opcodes.tolist() == [63, 63, 13, 20, 63, 63, 41]
    assert edges.tolist() == [[2, 1], [3, 0], [3, 2], [6, 3], [6, 4], [6, 5]]
    shape = {21: 32, 22: 1000, 27: 1032, 28: 32000, 134: 1}
    assert_row(features[0], {F32: 1, **shape})
    # The vector: rank 1, layout {0}, parameter 1.
    assert_row(features[1], {F32: 1, 21: 1000, 27: 1000, 28: 1000, 30: 1})
    # Dimension 0 of the vector becomes dimension 1.
    assert_row(features[2], {F32: 1, **shape, 31: 1})
    assert_row(features[3], {0: 1, PRED: 1, **shape})
    assert_row(features[6], {0: 1, PRED: 1, **shape})


def test_a_reduction_calls_its_reducer():
    fusion = Fusion()
    x = fusion.parameter(tensor('f32', (32, 5, 7, 256), layout=(3, 0, 2, 1)))
    total, again = x.reduce((0, 1, 2)), x.reduce((1,))
    fusion.tuple(total, again)
    features, opcodes, edges = raw.graph_arrays(fusion.finish()).values()
    # One reducer for both: parameter, parameter, add.  Body: parameter,
    # constant, reduce, constant, reduce, tuple.  Entry: parameter, fusion.
    assert opcodes.tolist() == [63, 63, 2, 63, 24, 70, 24, 70, 100, 63, 41]
    assert edges.tolist() == [
        [2, 0],
        [2, 1],
        [5, 2],
        [5, 3],
        [5, 4],
        [7, 2],
        [7, 3],
        [7, 6],
        [8, 5],
        [8, 7],
        [10, 8],
        [10, 9],
    ]
    assert_row(features[2], {0: 1, F32: 1})
    layout = {134: 3, 136: 2, 137: 1}
    assert_row(
        features[3],
        {F32: 1, 21: 32, 22: 5, 23: 7, 24: 256, 27: 300, 28: 286720, **layout},
    )
    assert_row(features[5], {F32: 1, 21: 256, 27: 256, 28: 256, 31: 0, 32: 1, 33: 2})
    # Left: [32, 7, 256] in the old order of memory, {2, 0, 1}.
    assert_row(
        features[7],
        {F32: 1, 21: 32, 22: 7, 23: 256, 27: 295, 28: 57344, 31: 1, 134: 2, 136: 1},
    )
    assert_row(features[8], {0: 1, TUPLE: 1, 29: 2})
    assert_row(features[10], {0: 1, TUPLE: 1, 29: 2})


def test_a_convolution():
    body = Computation()
    image = body.parameter(tensor('bf16', (32, 25, 25, 192)))
    kernel = body.parameter(tensor('f32', (3, 3, 192, 384)))
    body.add(
        'convolution',
        tensor('f32', (32, 12, 12, 384), layout=(3, 0, 2, 1)),
        image,
        kernel,
        window=(Window(3, 2, 0, 1), Window(3, 2, 0, 1)),
        convolution=ConvolutionDims(0, 3, (1, 2), 2, 3, (0, 1), 0, 3),
    )
    expected = {
        0: 1,
        F32: 1,
        21: 32,
        22: 12,
        23: 12,
        24: 384,
        27: 440,
        28: 1769472,
        37: 3,
        38: 3,
        43: 6,
        44: 9,  # size
        45: 2,
        46: 2,
        51: 4,
        52: 4,  # stride
        60: 0,  # padding low: 0 and 0, whose product is 0
        61: 1,
        62: 1,
        67: 2,
        68: 1,  # padding high
        69: 1,
        70: 1,
        75: 2,
        76: 1,
        77: 1,
        78: 1,
        83: 2,
        84: 1,  # dilations
        92: 2,  # two dimensions that are not reversed
        94: 3,
        95: 1,
        96: 2,
        99: 2,
        100: 3,
        102: 1,
        106: 3,
        107: 1,
        108: 1,
        134: 3,
        136: 2,
        137: 1,
    }
    features = raw.graph_arrays([body])['node_feat']
    assert_row(features[2], expected)
    assert_row(
        features[0],
        {
            BF16: 1,
            21: 32,
            22: 25,
            23: 25,
            24: 192,
            27: 274,
            28: 3840000,
            134: 3,
            135: 2,
            136: 1,
        },
    )


def test_slices_and_padding():
    body = Computation()
    x = body.parameter(tensor('f32', (10, 20)))
    cut = body.add('slice', tensor('f32', (4, 20)), x, slices=((1, 9, 2), (0, 20, 1)))
    body.add('pad', tensor('f32', (7, 20)), cut, padding=((1, 2), (0, 0)))
    shape = {F32: 1, 22: 20, 134: 1}
    features = raw.graph_arrays([body])['node_feat']
    assert_row(
        features[1],
        {
            **shape,
            21: 4,
            27: 24,
            28: 80,
            109: 1,
            111: 1,
            112: 0,  # starts 1 and 0
            113: 2,
            114: 1,
            115: 3,
            116: 2,  # strides
            117: 9,
            118: 20,
            119: 29,
            120: 180,
        },  # limits
    )
    assert_row(
        features[2],
        {
            **shape,
            0: 1,
            21: 7,
            27: 27,
            28: 140,
            125: 1,
            127: 1,
            128: 0,
            129: 2,
            131: 2,
            132: 0,
        },
    )
