"""Features and edges of simulated modules, derived by hand."""

import numpy as np

from baselines.hlo import schema
from baselines.simulated import raw
from baselines.simulated.hlo import Computation, ConvolutionDims, Fusion, Window, tensor

NODE = schema.NODE


def assert_row(found, dtype, dims=(), layout=None, **columns):
    """Compares a node's features with a shape, single columns and lists of columns.

    Lists end with their sum and product; the product of an empty one is 1.
    """
    columns['shape_dimensions'] = dims
    columns['layout_minor_to_major'] = layout or range(len(dims))[::-1]
    expected = np.zeros(140, np.float32)
    expected[[i for i, name in enumerate(NODE.names) if name.endswith('_product')]] = 1
    expected[NODE.at(f'shape_element_type_is_{dtype}')] = 1
    for name, values in columns.items():
        if name in NODE.names:
            expected[NODE.at(name)] = values
            continue
        for i, value in enumerate(values):
            expected[NODE.at(f'{name}_{i}')] = value
        if f'{name}_product' in NODE.names:
            expected[NODE.at(f'{name}_sum')] = sum(values)
            expected[NODE.at(f'{name}_product')] = np.prod(values)
    wrong = np.flatnonzero(found != expected)
    assert not len(wrong), {NODE.names[i]: float(found[i]) for i in wrong}


def test_a_fusion():
    fusion = Fusion()
    x = fusion.parameter(tensor('f32', (32, 1000)))
    fusion.vector(x.shape, [1]).op('compare', x)
    features, opcodes, edges = raw.graph_arrays(fusion.finish()).values()
    # Body: parameter, parameter, broadcast, compare; entry: two, fusion.
    assert opcodes.tolist() == [63, 63, 13, 20, 63, 63, 41]
    assert edges.tolist() == [[2, 1], [3, 0], [3, 2], [6, 3], [6, 4], [6, 5]]
    assert_row(features[0], 'f32', (32, 1000))
    assert_row(features[1], 'f32', (1000,), parameter_number=1)
    # Dimension 0 of the vector becomes dimension 1.
    assert_row(features[2], 'f32', (32, 1000), dimensions=(1,))
    assert_row(features[3], 'pred', (32, 1000), is_root=1)
    assert_row(features[6], 'pred', (32, 1000), is_root=1)


def test_a_reduction_calls_its_reducer():
    fusion = Fusion()
    x = fusion.parameter(tensor('f32', (32, 5, 7, 256), layout=(3, 0, 2, 1)))
    total, again = x.reduce((0, 1, 2)), x.reduce((1,))
    fusion.tuple(total, again)
    features, opcodes, edges = raw.graph_arrays(fusion.finish()).values()
    # One reducer for both: parameter, parameter, add.  Body: parameter,
    # constant, reduce, constant, reduce, tuple.  Entry: parameter, fusion.
    assert opcodes.tolist() == [63, 63, 2, 63, 24, 70, 24, 70, 100, 63, 41]
    operands = {2: [0, 1], 5: [2, 3, 4], 7: [2, 3, 6], 8: [5, 7], 10: [8, 9]}
    assert edges.tolist() == [[node, o] for node, of in operands.items() for o in of]
    assert_row(features[2], 'f32', is_root=1)
    assert_row(features[3], 'f32', (32, 5, 7, 256), (3, 0, 2, 1))
    assert_row(features[5], 'f32', (256,), dimensions=(0, 1, 2))
    # Left: [32, 7, 256] in the old order of memory.
    assert_row(features[7], 'f32', (32, 7, 256), (2, 0, 1), dimensions=(1,))
    assert_row(features[8], 'tuple', is_root=1, shape_tuple_shapes_size=2)
    assert_row(features[10], 'tuple', is_root=1, shape_tuple_shapes_size=2)


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
    features = raw.graph_arrays([body])['node_feat']
    assert_row(features[0], 'bf16', (32, 25, 25, 192))
    assert_row(
        features[2],
        'f32',
        (32, 12, 12, 384),
        (3, 0, 2, 1),
        is_root=1,
        window_size=(3, 3),
        window_stride=(2, 2),
        window_padding_low=(0, 0),
        window_padding_high=(1, 1),
        window_window_dilation=(1, 1),
        window_base_dilation=(1, 1),
        window_window_reversal_false_count=2,
        convolution_dim_numbers_input_feature_dim=3,
        convolution_dim_numbers_input_spatial_dims=(1, 2),
        convolution_dim_numbers_kernel_input_feature_dim=2,
        convolution_dim_numbers_kernel_output_feature_dim=3,
        convolution_dim_numbers_kernel_spatial_dims=(0, 1),
        convolution_dim_numbers_output_feature_dim=3,
        feature_group_count=1,
        batch_group_count=1,
    )


def test_slices_and_padding():
    body = Computation()
    x = body.parameter(tensor('f32', (10, 20)))
    cut = body.add('slice', tensor('f32', (4, 20)), x, slices=((1, 9, 2), (0, 20, 1)))
    body.add('pad', tensor('f32', (7, 20)), cut, padding=((1, 2), (0, 0)))
    features = raw.graph_arrays([body])['node_feat']
    assert_row(
        features[1],
        'f32',
        (4, 20),
        slice_dims_start=(1, 0),
        slice_dims_stride=(2, 1),
        slice_dims_limit=(9, 20),
    )
    assert_row(
        features[2],
        'f32',
        (7, 20),
        is_root=1,
        padding_config_edge_padding_low=(1, 0),
        padding_config_edge_padding_high=(2, 0),
    )
