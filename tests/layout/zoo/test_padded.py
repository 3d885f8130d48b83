"""What padding costs products, derived by hand."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.data.layout import store as store_lib
from baselines.evaluation import metrics
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import schema
from baselines.layout import programs
from baselines.layout import scoring
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import padded
from baselines.layout.zoo import products
from baselines.layout.zoo import spreading
from baselines.runs import layout_task
from tests.helpers import places


def _arrays(*nodes, roles=((0, 3), (0, 3), (2, 3)), window=1.0):
    """Nodes as (opcode, dims); roles and the window are those of all."""
    dims = np.zeros([len(nodes), 6], np.float32)
    for row, (_, sizes) in zip(dims, nodes):
        row[: len(sizes)] = sizes
    n = len(nodes)
    return arrays_lib.make_arrays(
        tf.constant([schema.OPCODE_NUMBERS[opcode] for opcode, _ in nodes]),
        {
            'kind': tf.zeros([n, len(schema.ELEMENT_TYPES)]),
            'dims': tf.constant(dims),
            'dimensions': tf.zeros([n, 6]),
            'roles': tf.tile([np.ravel(roles).astype(np.float32)], [n, 1]),
            'window': tf.fill([n, 1], float(window)),
        },
    )


def _products(arrays, node, operands):
    found = [
        spreading.Operand(tf.fill([arrays.op.shape[0]], o), tf.ones([1]))
        for o in operands
    ]
    return products.find(arrays, found, tf.constant([node]), tf.ones([1, 1]))


def _padded(found, *fastest):
    return products.padded(found, tf.constant([fastest], tf.float32)).numpy().item()


def test_images():
    # 32 images of 8 x 8 pixels and 96 features, 3 x 3 windows.
    arrays = _arrays(
        ('parameter', [32, 8, 8, 16]),
        ('parameter', [3, 3, 16, 96]),
        ('convolution', [32, 8, 8, 96]),
        window=9,
    )
    found = _products(arrays, 2, (0, 1))
    assert found.of_window.numpy() == 0 and found.share.numpy() == pytest.approx(1)
    assert _padded(found, 3, 0) == pytest.approx(128 / 96)
    assert _padded(found, 0, 3) == pytest.approx(128 / 32)
    # 8 pixels by 4 images fill no 8 sublanes.
    arrays = _arrays(
        ('parameter', [4, 8, 8, 16]),
        ('parameter', [3, 3, 16, 128]),
        ('convolution', [4, 8, 8, 128]),
        window=9,
    )
    assert _padded(_products(arrays, 2, (0, 1)), 3, 0) == pytest.approx(2)


@pytest.mark.parametrize(
    'features, by_first, by_second',
    [
        (64, 256 / 192, 2.0),  # 192 or 64 features in the columns
        (4, 256 / 192 * 32 / 4, 128 / 4),  # 4 rows take as long as 32
        (256, 256 / 192, 1.0),
    ],
)
def test_gradients_of_windows(features, by_first, by_second):
    # 2 images of 64 x 64 pixels; 3 x 3 windows of 192 features.
    arrays = _arrays(
        ('parameter', [2, 64, 64, 192]),
        ('parameter', [2, 64, 64, features]),
        ('convolution', [3, 3, 192, features]),
        roles=((2, 3), (3, 0), (0, 3)),
        window=64 * 64,
    )
    found = _products(arrays, 2, (0, 1))
    assert found.of_window.numpy() == 1
    assert _padded(found, 2, 3) == pytest.approx(by_first)
    assert _padded(found, 3, 2) == pytest.approx(by_second)


def test_shares_are_of_multiply_adds():
    arrays = _arrays(
        ('parameter', [64, 32]),
        ('parameter', [32, 8]),
        ('dot', [64, 8]),  # 64 * 8 * 32
        ('reshape', [512]),
        ('parameter', [8, 8]),
        ('dot', [64, 8]),  # 64 * 8 * 8
    )
    operands = [
        spreading.Operand(tf.constant(o), tf.ones([6]))
        for o in ([0, 0, 0, 2, 0, 2], [0, 0, 1, 0, 0, 4])
    ]
    chosen = tf.constant([2, 3, 5])
    found = products.find(arrays, operands, chosen, tf.ones([3, 1]))
    assert found.share.numpy().ravel() == pytest.approx([0.8, 0, 0.2])
    # Of two programs each has shares of its own.
    member = tf.constant([[1.0, 0], [1, 0], [0, 1]])
    found = products.find(arrays, operands, chosen, member)
    assert found.share.numpy().ravel() == pytest.approx([1, 0, 1])
    # Traffic of the first program takes as long as its product.
    moved = tf.constant([[64 * 8 * 32 / products.PER_BYTE], [0], [0]])
    shares = products.beside_traffic(found, moved).share
    assert shares.numpy().ravel() == pytest.approx([0.5, 0, 1])


def test_padding_adds_to_the_logarithm_of_the_time():
    # Learned parts 3 and 2, and padding that makes a program 1.5 times as long.
    model = padded.PaddedSAGE(2, 4, hidden_dim=2)
    model.read_out(tf.zeros([1, 3]), None, None)
    model._head.set_weights([np.array([[1.0], [10]])])
    score = model.read_out(tf.constant([[3.0, 2, 0.5]]), None, None).numpy().item()
    assert score == pytest.approx(30 * np.log(1.5) + 23 / 1.5)


def test_layouts_that_are_left_out_are_row_major():
    dims = tf.constant([[[8.0, 4, 2, 0, 0, 0], [5, 0, 0, 0, 0, 0]]])
    fastest = tf.constant([[[-1.0, -1], [-1, -1]]])
    assert effects.or_row_major(fastest, dims).numpy().tolist() == [[[2, 1], [0, -1]]]
    given = tf.constant([[[0.0, 2], [0, -1]]])
    assert effects.or_row_major(given, dims).numpy().tolist() == [[[0, 2], [0, -1]]]


@pytest.mark.slow
@pytest.mark.parametrize(
    'path, least',
    [('default/train/unet3d', 0.4), ('random/valid/unet_3d.4x4.bf16', 0.75)],
)
def test_untrained_it_ranks_real_programs(path, least, tmp_path):
    path = places.SHARED / 'real/npz/layout/xla' / f'{path}.npz'
    if not path.exists():
        pytest.skip(f'no real program: {path} is missing')
    store = store_lib.LayoutStore.open(str(path.parent), str(tmp_path))
    normalizer = normalizer_lib.Normalizer.fit(store)
    model = layout_task.TASK.make_model('PaddedSAGE', {}, '', 2, 121, normalizer)
    program = programs.StoredPrograms(store, normalizer)[0]
    scores = scoring.LayoutScorer(model).score(program)
    _, first = np.unique(program.group, return_index=True)
    runtimes = np.asarray(store.group_runtime)
    assert metrics.kendall_tau(scores[first], runtimes) > least
