"""Formulas of layouts say the same of TensorFlow's tensors and of NumPy's arrays."""

import numpy as np
import pytest
import tensorflow as tf

from baselines.layout import operations
from baselines.layout.zoo import arrays as arrays_lib
from baselines.layout.zoo import effects
from baselines.layout.zoo import instructions
from baselines.layout.zoo import products
from baselines.layout.zoo import spreading
from tests.helpers import layout_files


def _program(seed):
    """A program of random numbers with some of the opcodes that formulas tell apart."""
    rng = np.random.default_rng(seed)
    names = 'add transpose reduce dot convolution parameter broadcast tuple'.split()
    numbers = [arrays_lib.schema.OPCODE_NUMBERS[name] for name in names]
    ends = np.sort(rng.integers(0, 30, (60, 2)), axis=1)[:, ::-1]
    return layout_files.make_program(
        rng,
        nodes=30,
        configurable=6,
        node_opcode=rng.choice(numbers, 30).astype(np.int32),
        edge_index=np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0).astype(np.int32),
        node_feat=rng.integers(-1, 9, (30, 140)).astype(np.float32),
    )


def _formulas(record, make):
    """All that is computed of a program and of its first configuration."""
    unscaled = arrays_lib.Unscaled(None)
    feats = make(record.node_feat)
    arrays = arrays_lib.make_arrays(make(record.node_opcode), unscaled.nodes(feats))
    edges = tuple(make(ends) for ends in record.edge_index.T)
    chosen = make(record.node_config_ids.astype(np.int32))
    origin = spreading.spread(arrays, chosen, edges, 4)
    operands = spreading.operands(arrays, edges)
    copies = spreading.meetings(arrays, chosen, origin, edges)
    reductions = spreading.reductions(arrays, origin, edges)
    described = instructions.describe(arrays, operands, origin, reductions, chosen)
    work = spreading.followers(arrays, origin, make(np.ones([30, 2], np.float32)))
    found = products.find(arrays, operands, chosen, make(np.ones([6, 1], np.float32)))
    configs = make(record.node_config_feat[0])
    fastest = effects.or_row_major(unscaled.fastest(configs), described.dims)
    places = effects.hat(fastest)
    return [
        *arrays,
        *origin,
        *(part for operand in operands for part in operand),
        *(spreading.sources(chosen, operands[0], origin)),
        *copies.matrix,
        *copies[1:],
        *reductions,
        *described,
        *found,
        unscaled.own_layout(feats),
        unscaled.layouts(configs),
        instructions.amounts(arrays, operands, copies, reductions, work, chosen),
        effects.role_sizes(described.dims, described.roles),
        effects.of_layouts(fastest, places, described.dims, described.roles),
        products.padded(products.at(found, make(np.arange(6))), fastest[:, 0]),
    ]


@pytest.mark.parametrize('seed', range(3))
def test_both_say_the_same(seed):
    record = _program(seed)
    pairs = zip(_formulas(record, np.asarray), _formulas(record, tf.constant))
    for number, (ours, theirs) in enumerate(pairs):
        assert isinstance(ours, np.ndarray)
        np.testing.assert_allclose(
            ours, theirs.numpy(), rtol=1e-6, atol=1e-6, err_msg=str(number)
        )


def test_numbers_are_of_32_bits():
    ops = operations.of(np.zeros(1))
    assert ops.constant([1, 2]).dtype == np.int32
    assert ops.constant([1.5]).dtype == ops.ones([2]).dtype == np.float32
    assert operations.of(tf.zeros(1)) is tf
