"""Costs of simulated layouts, derived by hand."""

import numpy as np
import pytest

from baselines.hlo import graph
from baselines.simulated import tpu
from baselines.simulated.layout import costs
from baselines.simulated.layout import layers
from baselines.simulated.layout import layouts
from baselines.simulated.layout import ops
from baselines.simulated.layout import rules
from baselines.simulated.layout import search
from baselines.simulated.layout.model import LayoutModel

ROW, COLUMN = (1, 0), (0, 1)
BYTES_PER_NS, GHZ = 450.0, 0.94
REGISTER = 8 * 128 * 4  # bytes of 8 x 128 f32


def f32(*dims):
    return ops.shape('f32', dims)


def product_ns(tensors, roles, layouts, *rules_):
    """Times of a product, by the layouts of output, first and second operand."""
    choices = tuple(
        tuple(map(tensor.ordered, each)) for tensor, each in zip(tensors, layouts)
    )
    return costs.product_ns(choices, roles, *rules_)


def choice(model, **chosen):
    """Row of choices: every slot row major, but `n<node>_<tensor>=layout`."""
    row = []
    for slot in model.slots:
        wanted = chosen.get(f'n{slot.node}_{slot.tensor}')
        row.append(slot.layouts.index(wanted or slot.layouts[0]))
    return np.array([row])


# Costs of one instruction.


@pytest.mark.parametrize(
    'dims, layout, count',
    [
        ((), (), 1),
        ((1500,), (0,), 2),  # 1,024 elements each
        ((10, 200), ROW, 2 * 2),  # 200 -> 2 x 128, 10 -> 2 x 8
        ((10, 200), COLUMN, 1 * 25),  # 10 -> 128, 200 -> 25 x 8
        ((3, 10, 200), (2, 1, 0), 2 * 2 * 3),
        ((3, 10, 200), (2, 0, 1), 2 * 1 * 10),
    ],
)
def test_padding_to_registers(dims, layout, count):
    assert tpu.registers(f32(*dims).ordered(layout)) == count


def test_a_copy_reads_one_padded_array_and_writes_the_other():
    row = f32(10, 200)
    column = row.ordered(COLUMN)
    # 4 registers row major, 25 column major; 25 * 14 slots take 186 ns only.
    expected = (4 + 25) * REGISTER / BYTES_PER_NS
    assert costs.copy_ns(row, column) == pytest.approx(expected)
    assert costs.copy_ns(column, row) == pytest.approx(expected)
    assert costs.copy_ns(row, row) == 0
    vector = f32(1, 200)
    assert costs.copy_ns(vector, vector.ordered(COLUMN)) == 0  # the same memory


def test_a_copy_of_small_elements_is_bound_by_shuffles():
    array = ops.shape('pred', (128, 128))  # 16 registers of 1,024 bytes
    assert costs.copy_ns(array, array.ordered(COLUMN)) == pytest.approx(
        16 * 14 / 2 / GHZ
    )
    # Another order of the slow dimensions needs no shuffle.
    array = ops.shape('pred', (8, 8, 8, 128))
    moved = 2 * 64 * 1024 / BYTES_PER_NS
    turned = array.ordered((3, 2, 0, 1))
    assert costs.copy_ns(array, turned) == pytest.approx(moved)


def test_elementwise_moves_what_is_not_fused():
    array = f32(10, 200)  # 4 registers row major
    assert costs.elementwise_ns('exponential', array, ()) == pytest.approx(
        4 * 8 / 2 / GHZ
    )
    assert costs.elementwise_ns('add', array, ('f32', 'pred')) == pytest.approx(
        4 * 1024 * (4 + 1) / BYTES_PER_NS
    )


@pytest.mark.parametrize(
    'layout, over, slots',
    [
        (ROW, (1,), 64 + 14 * 64 / 4),  # across lanes, per row of 4 registers
        (ROW, (0,), 64 + 6 * 64 / 16),  # across sublanes, per column of 16
        (COLUMN, (1,), 64 + 6 * 64 / 64),
    ],
)
def test_reductions_shuffle_what_lies_in_the_registers(layout, over, slots):
    array, result = f32(128, 512), f32(512 if over == (0,) else 128)
    time = costs.reduce_ns(array.ordered(layout), over, result, False)
    # The 1-D result is one register.
    expected = max(slots / 2 / GHZ, REGISTER / BYTES_PER_NS)
    assert time == pytest.approx(expected)


DOT = ('mn', 'mk', 'kn')


def test_dot_bound_by_the_matrix_unit():
    tensors = (f32(1024, 1024),) * 3
    table = product_ns(tensors, DOT, ((ROW, COLUMN),) * 3)
    # 8 x 8 passes on two units, 1,024 rows each, 128 cycles to fill.
    cycles = 32 * 1024 + 128
    turned = 14 * 1024 / 2  # one operand of 1,024 registers
    assert table[0, 0, 0] == pytest.approx(cycles / GHZ)
    assert table[0, 1, 0] == pytest.approx((cycles + turned) / GHZ)
    assert table[0, 1, 1] == pytest.approx((cycles + 2 * turned) / GHZ)
    # A column-major output swaps the operands' parts: the mirror image.
    assert table[1, 1, 1] == pytest.approx(cycles / GHZ)
    assert table[1, 0, 0] == pytest.approx((cycles + 2 * turned) / GHZ)


def test_dot_bound_by_memory():
    # 256 x 128 and 128 x 256: 32 registers each, 64 of the output.
    tensors = f32(256, 256), f32(256, 128), f32(128, 256)
    table = product_ns(tensors, DOT, ((ROW,),) * 3)
    assert table.item() == pytest.approx((64 + 32 + 32) * REGISTER / BYTES_PER_NS)


def test_narrow_products_want_the_wide_dimension_in_the_columns():
    # 512 x 512 times 512 x 8.
    tensors = f32(512, 8), f32(512, 512), f32(512, 8)
    narrow = product_ns(tensors, DOT, ((ROW,),) * 3).item()
    wide = product_ns(tensors, DOT, ((COLUMN,),) * 3).item()
    # Both are bound by memory: 64 padded registers become 4.
    assert narrow == pytest.approx((64 + 256 + 64) * REGISTER / BYTES_PER_NS)
    assert wide == pytest.approx((4 + 256 + 4) * REGISTER / BYTES_PER_NS)


PADDED = rules.BOOKS['products']


def test_gradients_of_windows_pad_columns_to_128_and_rows_to_32():
    # 5 x 5 windows of 192 features each, summed over 2 images of 64 x 64.
    roles, usual = ('ssmn', 'kssm', 'kwwn'), (3, 2, 1, 0)
    passes = 25 * 2 * 64 * 64 / 128 / 2  # of each 128 columns, on two units

    def times(features):
        window, errors = f32(5, 5, 192, features), f32(2, 64, 64, features)
        tensors = window, f32(2, 64, 64, 192), errors
        layouts = (usual, (2, 3, 1, 0)), (usual,), (usual,)
        return product_ns(tensors, roles, layouts, PADDED)[:, 0, 0]

    # 64 features in the columns and 192 rows; or 2 x 128 columns and 64 rows.
    wanted = [passes * 192 + 128, passes * 2 * 64 + 128]
    assert times(64) * GHZ == pytest.approx(wanted)
    # 4 rows take as long as 32.
    wanted = [passes * 192 + 128, passes * 2 * 32 + 128]
    assert times(4) * GHZ == pytest.approx(wanted)


def test_pixels_of_images_stream():
    # 3 x 3 windows, 128 to 64 features: 9 * 128 summed in 9 passes.
    roles, usual = ('mssn', 'mssk', 'wwkn'), (3, 2, 1, 0)
    tensors = f32(64, 8, 8, 64), f32(64, 8, 8, 128), f32(3, 3, 128, 64)
    choices = (usual, (0, 3, 2, 1)), (usual,), (usual,)
    table = product_ns(tensors, roles, choices, PADDED)
    # 64 features or the 64 images fill half of the columns.
    assert table * GHZ == pytest.approx(9 / 2 * 64 * 64 + 128)


def test_rules_say_what_counts():
    tensors = (f32(1024, 1024),) * 3
    choices = ((ROW, COLUMN),) * 3
    usual = product_ns(tensors, DOT, choices)
    unturned = product_ns(tensors, DOT, choices, rules.Rules(turns=0.0))
    assert usual.max() > usual.min() and unturned == pytest.approx(usual.min())
    narrow = f32(512, 8), f32(512, 512), f32(512, 8)
    packed = product_ns(
        narrow, DOT, choices, rules.Rules(turns=0, operands=0, traffic=0)
    )
    assert packed == pytest.approx((4 + 256 + 4) * REGISTER / BYTES_PER_NS)


def test_windows_want_no_image_dimension_in_the_sublanes():
    roles = ('mssn', 'mssk', 'wwkn')
    images, kernel = f32(8, 8, 8, 128), f32(3, 3, 128, 128)
    by_width, by_batch, usual = (3, 2, 1, 0), (3, 0, 2, 1), (3, 2, 1, 0)
    times = product_ns(
        (images, images, kernel), roles, ((by_width, by_batch),) * 2 + ((usual,),)
    )
    # 9 passes in turns on two units, 512 rows; 64 registers shifted by 6 slots.
    cycles = 5 * 512 + 128
    assert times[1, 1, 0] == pytest.approx(cycles / GHZ)
    assert times[1, 0, 0] == pytest.approx((cycles + 6 * 64 / 2) / GHZ)
    assert times[0, 0, 0] == pytest.approx((cycles + 12 * 64 / 2) / GHZ)


@pytest.mark.parametrize(
    'source, a, target, b, expected',
    [
        ((6, 8, 128), (2, 1, 0), (48, 128), ROW, True),
        ((6, 4, 128), (2, 1, 0), (24, 128), ROW, False),  # 4 of 8 sublanes used
        ((6, 8, 128), (2, 0, 1), (48, 128), ROW, False),  # torn apart
        ((4, 6, 128), (2, 0, 1), (4, 2, 3, 128), (3, 0, 2, 1), True),
        ((4, 6, 128), (2, 0, 1), (4, 2, 3, 128), (3, 0, 1, 2), False),
        ((8, 6, 64), (2, 1, 0), (8, 384), ROW, False),  # other lanes
        ((1, 8, 128), (2, 1, 0), (8, 128), ROW, True),
        ((1, 8, 128), (0, 2, 1), (8, 128), ROW, True),  # size 1 has no place
        ((8, 128), COLUMN, (8, 128), ROW, False),
    ],
)
def test_reshapes_that_leave_the_memory_alone(source, a, target, b, expected):
    arrays = f32(*source).ordered(a), f32(*target).ordered(b)
    assert layouts.is_bitcast(*arrays) is expected
    assert (costs.reshape_ns(*arrays) == 0) is expected


# Whole programs, tiny ones.


def two_convolutions():
    net = ops.Net(training=False)
    x = net.parameter((8, 16, 16, 128))
    x = layers.conv(net, x, 128, 1)
    x = layers.relu(x)
    return net.finish([layers.conv(net, x, 128, 1)])


def test_convolutions_that_disagree_pay_a_copy():
    module = two_convolutions()
    model = LayoutModel(module)
    by_width, by_batch = (3, 2, 1, 0), (3, 0, 2, 1)
    both_width, both_batch, copied = (
        model.runtime_ns(choice(model, n0_0=first, n1_1=second))[0]
        for first, second in (
            (by_width, by_width),
            (by_batch, by_batch),
            (by_batch, by_width),
        )
    )
    # 8 * 16 * 16 / 8 = 256 registers either way.  A 1 x 1 window does not mind
    # the order, so all the difference is the copy: 256 read, 256 written.
    assert both_batch == pytest.approx(both_width)
    copy = 512 * REGISTER / BYTES_PER_NS
    assert copied - both_batch == pytest.approx(copy)
    # In absolute terms: two products (one pass each on one of the units: 2,048
    # rows; bound by memory), relu reads and writes.
    product = (256 + 256 + 16) * REGISTER / BYTES_PER_NS
    relu = 512 * REGISTER / BYTES_PER_NS
    assert both_width == pytest.approx(2 * product + relu)


def test_the_copy_stands_between_whatever_is_element_wise():
    # Parameters are row major: the first convolution pays for what it wants.
    model = LayoutModel(two_convolutions())
    times = [
        model.runtime_ns(choice(model, n0_1=layout))[0]
        for layout in ((3, 2, 1, 0), (3, 0, 2, 1))
    ]
    assert times[1] - times[0] == pytest.approx(512 * REGISTER / BYTES_PER_NS)


def test_a_transpose_is_absorbed_by_layouts():
    net = ops.Net(training=False)
    x, y = net.parameter((1024, 1024)), net.parameter((1024, 1024))
    first = ops.transpose(ops.dot('mk,kn->mn', x, y), (1, 0))
    module = net.finish([ops.dot('mk,kn->mn', first, y)])
    model = LayoutModel(module)
    base = 2 * (32 * 1024 + 128) / GHZ
    copy = 2048 * REGISTER / BYTES_PER_NS
    turn = 14 * 1024 / 2 / GHZ
    # The row-major product is column major once transposed: a copy.
    assert model.runtime_ns(choice(model))[0] == pytest.approx(base + copy)
    # Or the second product turns it on the way.
    absorbed = model.runtime_ns(choice(model, n1_1=COLUMN))[0]
    assert absorbed == pytest.approx(base + turn)


def test_results_are_row_major_and_copies_are_shared():
    net = ops.Net(training=False)
    x, y = net.parameter((1024, 1024)), net.parameter((1024, 1024))
    product = ops.dot('mk,kn->mn', x, y)
    one = LayoutModel(net.finish([product]))
    base = (32 * 1024 + 128) / GHZ + 2 * 14 * 1024 / 2 / GHZ
    copy = 2048 * REGISTER / BYTES_PER_NS
    assert one.runtime_ns(choice(one, n0_0=COLUMN))[0] == pytest.approx(base + copy)
    product.home.tuple(product, product)
    two = LayoutModel([product.home])
    assert two.runtime_ns(choice(two, n0_0=COLUMN))[0] == pytest.approx(base + copy)


def test_padding_of_a_bad_layout_costs_memory_everywhere():
    net = ops.Net(training=False)
    x, y = net.parameter((32, 1024)), net.parameter((1024, 1024))
    product = ops.dot('mk,kn->mn', x, y).op('abs')
    model = LayoutModel(net.finish([-product, product]))
    row, column = (model.runtime_ns(choice(model, n0_0=l))[0] for l in (ROW, COLUMN))
    # abs and negate: reads and writes, 32 registers row major, 128 column major
    # (32 of 128 lanes used), where both results are copied.
    copies = 2 * (32 + 128) * REGISTER / BYTES_PER_NS
    slower = 4 * (128 - 32) * REGISTER / BYTES_PER_NS
    tensors = product.shape, x.shape, y.shape
    table = product_ns(tensors, DOT, ((ROW, COLUMN), (ROW,), (ROW,)))
    expected = copies + slower + table[1, 0, 0] - table[0, 0, 0]
    assert column - row == pytest.approx(expected)


def test_a_loop_costs_its_trips():
    net = ops.Net(training=False)
    h, w = net.parameter((1024, 1024)), net.parameter((1024, 1024))

    def body(i, h, w):
        return ops.dot('mk,kn->mn', h, w), w

    done = net.loop((h, w), 5, body, 'test')
    module = net.finish([done[0]])
    model = LayoutModel(module)
    once = (32 * 1024 + 128) / GHZ
    assert model.runtime_ns(choice(model))[0] == pytest.approx(5 * once, rel=1e-3)
    # What a loop carries is row major: the copy is paid each time.
    copied = model.runtime_ns(choice(model, n0_0=COLUMN, n0_1=COLUMN, n0_2=COLUMN))
    copy = 2048 * REGISTER / BYTES_PER_NS
    assert copied[0] == pytest.approx(5 * (once + 3 * copy), rel=1e-3)
    names = [computation.name for computation in module]
    assert names == ['while_body_test', 'while_cond_test', 'main']
    # The loop's computations end segments, and so does the program.
    sizes = [len(computation.instructions) for computation in module]
    splits = graph.node_splits(names, sizes)
    assert splits.tolist() == [0, *np.cumsum(sizes)]


def test_many_configurations_cost_what_each_costs_alone(monkeypatch):
    monkeypatch.setattr('baselines.simulated.layout.model._LOOKUPS_AT_ONCE', 7)
    model = LayoutModel(two_convolutions())
    rng = np.random.default_rng(0)
    rows = search.random_search(model.slots, 20, rng)
    alone = [model.runtime_ns(row[None])[0] for row in rows]
    assert model.runtime_ns(rows).tolist() == alone
