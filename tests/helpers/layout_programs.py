"""Small random programs, and ResModel as its description says, in float64."""

import numpy as np
import tensorflow as tf

from baselines.hlo import schema
from baselines.layout import graphs
from baselines.layout import shapes


def random_program(
    seed, nodes=40, configurable=5, configs=30, vectors=3, edges=None, widths=(4, 3)
):
    """Makes a program with random edges, also repeated ones and loops."""
    rng = np.random.default_rng(seed)
    edges = nodes if edges is None else edges
    return graphs.ScaledProgram(
        graph_id=f'random_{seed}',
        op=rng.integers(0, 10, nodes).astype(np.int32),
        feats=rng.random((nodes, widths[0])).astype(np.float32),
        edges=rng.integers(0, nodes, (edges, 2)).astype(np.int32),
        config_ops=rng.permutation(nodes)[:configurable].astype(np.int32),
        vectors=rng.random((vectors, widths[1])).astype(np.float32) / 50,
        codes=rng.integers(0, vectors, (configs, configurable)),
        group=np.arange(configs),
        runtimes=rng.random(configs) * 1e7,
    )


def make_arrays(*nodes, roles=((0, 3), (0, 3), (2, 3)), window=1):
    """Makes arrays of int32 of nodes (opcode, dims); all have the roles and window.

    Roles are the batch and feature dimensions of a result, an input and a kernel.
    """
    rows = np.zeros((len(nodes), len(schema.NODE)), np.float32)
    rows[:, schema.NODE.at('shape_element_type_is_s32')] = 1  # 4 bytes
    for row, (_, dims) in zip(rows, nodes):
        row[schema.DIMENSIONS][: len(dims)] = dims
    rows[:, schema.NODE.at('window_size_product')] = window
    ops = [schema.OPCODE_NUMBERS[opcode] for opcode, _ in nodes]
    arrays = shapes.Arrays.read(np.array(ops), rows)
    return arrays._replace(roles=np.tile(roles, (len(nodes), 1, 1)))


def assert_close(scores, wanted):
    """Checks that scores are equal up to the float32 rounding of their terms.

    A score is a sum over unit vectors times weights; its terms are around 1, and
    where they cancel the sum has their rounding error, however small it is.
    """
    largest = max(np.abs(wanted).max(), 0.1)
    np.testing.assert_allclose(scores, wanted, rtol=0, atol=1e-5 * largest)


def merge(programs, configs, segments=None):
    """Merges programs, each with some of its configurations: (graph, labels).

    `segments` are [1, programs, 2]; without them, none is selected.
    """
    count = len(programs)
    packed = graphs.pack(
        programs,
        np.arange(count)[np.newaxis],
        np.broadcast_to(configs, (1, count, len(configs))),
        segments,
    )
    tensors = {key: tf.convert_to_tensor(x) for key, x in packed.items()}
    return graphs.unpack(tensors, 0, count, len(configs))


def compute_scores(model, program, directions=1, num_gnns=2, mlp_layers=2):
    """Scores [c] from the whole matrices of the whole program, in float64."""
    weights = [v.numpy().astype(np.float64) for v in model.trainable_variables]
    table, *weights = weights

    def leaky(x):
        return np.where(x > 0, x, 0.2 * x)

    def mlp(x):
        for _ in range(mlp_layers):
            kernel, bias = weights.pop(0), weights.pop(0)
            x = leaky(x @ kernel + bias)
        return x

    def unit(x):
        return x / np.sqrt(np.maximum((x**2).sum(-1, keepdims=True), 1e-12))

    n, configs = program.num_nodes, len(program.codes)
    a = np.zeros((n, n))
    np.add.at(a, (program.edges[:, 1], program.edges[:, 0]), 1)
    if directions == 1:
        s = a + a.T + np.eye(n)
        d = s.sum(1) ** -0.5
        matrices = [d[:, None] * s * d]
    else:
        both = [a + np.eye(n), a.T + np.eye(n)]
        matrices = [m / m.sum(1, keepdims=True) for m in both]
    c = np.zeros((configs, n, program.vectors.shape[1]))
    c[:, program.config_ops] = 100.0 * program.vectors[program.codes]
    nodes = np.concatenate([program.feats, table[program.op]], -1)
    nodes = np.broadcast_to(nodes, (configs, *nodes.shape))
    x = mlp(np.concatenate([c, nodes], -1))
    for _ in range(num_gnns):
        z = np.concatenate([c, x], -1)
        x = x + mlp(np.concatenate([m @ z for m in matrices], -1))
    total, chosen = x.sum(1), x[:, program.config_ops].sum(1)
    pooled = np.concatenate([x.mean(1), unit(total), unit(chosen)], -1)
    return (leaky(pooled @ weights[0]) @ weights[1])[:, 0]
