"""Times ResModel on simulated programs of the published sizes.

    python benchmarks/layout_speed.py score     configurations/s, 5,000 nodes
    python benchmarks/layout_speed.py train     a training step of 8 programs
    python benchmarks/layout_speed.py stress    20,000 configurations, 20,000 nodes

A simulated program is a random graph with local edges and two hubs of a large
degree, as real programs have.  5 % of the nodes are configurable (real program
main_10904: 2 %; the largest published: 5 to 8 %), each with 2 to 8 different
vectors (main_10904: likewise), chosen at random in every configuration, which
makes as many joint states as there can be.  `--vectors` sets another maximum.
Scores are compared with the published formula, written out plainly below.
"""

import argparse
import dataclasses
import os
import resource
import sys
import tempfile
import time

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))
os.environ.setdefault('TF_CPP_MIN_LOG_LEVEL', '2')

import tensorflow as tf  # noqa: E402
import tensorflow_gnn as tfgnn  # noqa: E402

from baselines.layout import graphs as graphs_lib  # noqa: E402
from baselines.layout import models  # noqa: E402
from baselines.layout import scoring  # noqa: E402
from baselines.layout import segments  # noqa: E402

_NUM_OPS = 120


def simulate(rng, nodes, edges, configurable, configs, vectors=8, columns=(18, 12)):
    """Returns a program with random features and codes."""
    producer = np.maximum(
        np.arange(1, nodes) - rng.geometric(0.3, nodes - 1), 0
    )
    pairs = np.stack([np.arange(1, nodes), producer], 1)
    more = rng.integers(1, nodes, edges - len(pairs))
    back = np.maximum(more - rng.geometric(0.05, len(more)), 0)
    hub = rng.random(len(more)) < 0.1
    back[hub] = rng.integers(0, 2, hub.sum())
    pairs = np.concatenate([pairs, np.stack([more, back], 1)])
    ids = np.sort(rng.choice(np.arange(2, nodes), configurable, replace=False))
    table = rng.random((20, columns[1])).astype(np.float32)
    choices = rng.integers(2, vectors + 1, configurable)
    if vectors > 8:
        table = rng.random((4 * vectors, columns[1])).astype(np.float32)
        choices[:] = vectors
    offset = rng.integers(0, len(table) - choices + 1)
    codes = np.empty((configs, configurable), np.uint8 if len(table) < 256 else np.uint16)
    for start in range(0, configs, 1000):
        rows = codes[start:start + 1000]
        rows[:] = offset + (rng.random(rows.shape) * choices).astype(np.int64)
    return graphs_lib.Program(
        graph_id=f'simulated_{nodes}',
        op=rng.integers(0, _NUM_OPS, nodes).astype(np.int32),
        feats=rng.random((nodes, columns[0])).astype(np.float32),
        edges=pairs.astype(np.int32),
        config_ops=ids.astype(np.int32),
        vectors=table,
        codes=codes,
        group=np.arange(configs),
        runtimes=rng.random(configs) * 1e7,
    )


def plain_forward(model, graph, num_configs):
    """The published formula of ResModel, mode fullgraph, adjacency 'sym'."""
    table, *weights = model.trainable_variables
    *weights, head0, head1 = weights
    weights = [(weights[i], weights[i + 1]) for i in range(0, len(weights), 2)]
    ops = graph.node_sets['op']
    n = tf.shape(ops['op'])[0]
    ids = tf.cast(graph.edge_sets['config'].adjacency[tfgnn.TARGET], tf.int32)
    feats = graph.node_sets['nconfig']['feats'] * 100.0
    width = feats.shape[-1]
    c = tf.scatter_nd(ids[:, None], feats, tf.stack([n, num_configs, width]))

    def on_all(x):
        return tf.repeat(x[:, None], num_configs, 1)

    def mlp(x, layers):
        for i, (w, b) in enumerate(layers):
            x = tf.tensordot(tf.nn.leaky_relu(x) if i else x, w, 1) + b
        return tf.nn.leaky_relu(x)

    adjacency = graph.edge_sets['feed'].adjacency
    u, v = adjacency[tfgnn.SOURCE], adjacency[tfgnn.TARGET]
    loop = tf.range(n)
    rows, cols = tf.concat([v, u, loop], 0), tf.concat([u, v, loop], 0)
    scale = tf.math.rsqrt(
        tf.math.unsorted_segment_sum(tf.ones(tf.shape(rows)), rows, n)
    )[:, None, None]
    embedding = tf.gather(table, ops['op'])
    x = mlp(tf.concat([c, on_all(ops['feats']), on_all(embedding)], -1), weights[:2])
    for layer in range(2, len(weights), 2):
        z = scale * tf.concat([c, x], -1)
        z = scale * tf.math.unsorted_segment_sum(tf.gather(z, cols), rows, n)
        x = x + mlp(z, weights[layer:layer + 2])
    total = tf.reduce_sum(x, 0)
    read_out = [
        total / tf.cast(n, tf.float32),
        tf.nn.l2_normalize(total, -1),
        tf.nn.l2_normalize(tf.reduce_sum(tf.gather(x, ids), 0), -1),
    ]
    hidden = tf.nn.leaky_relu(tf.matmul(tf.concat(read_out, -1), head0))
    return tf.matmul(hidden, head1)[:, 0]


def timed(function, *args):
    wall, cpu = time.time(), time.process_time()
    result = function(*args)
    return result, time.time() - wall, time.process_time() - cpu


def score(args):
    rng = np.random.default_rng(args.seed)
    nodes, edges, configs = 5000, 7266, args.configs or 4096
    program = simulate(rng, nodes, edges, nodes // 20, configs, args.vectors)
    model = models.ResModel(16, _NUM_OPS)
    plain = tf.function(
        lambda packed, c: plain_forward(
            model, graphs_lib.unpack(packed, 0, 1)[0], c
        ),
        reduce_retracing=True,
    )
    scorer = scoring.LayoutScorer(model, args.budget << 20)
    packed = graphs_lib.LayoutGraphs([program]).items(
        np.zeros((1, 1), int), np.arange(16)[None, None]
    )
    forward = tf.function(
        lambda packed: model.forward(graphs_lib.unpack(packed, 0, 1)[0], 16)
    )
    forward(packed)
    want = plain(packed, 16)
    want, wall, cpu = timed(lambda: plain(packed, 16).numpy())
    print(f'published formula: {16 / wall:.0f} configurations/s '
          f'({cpu / 16 * 1e3:.1f} ms of CPU each)')
    got, wall, cpu = timed(lambda: forward(packed).numpy()[0])
    print(f'model.forward:     {16 / wall:.0f} configurations/s '
          f'({cpu / 16 * 1e3:.2f} ms of CPU each); '
          f'largest difference {relative(got, want):.1e}')
    scorer.score(program)
    for _ in range(3):
        got, wall, cpu = timed(scorer.score, program)
        print(f'pruned scorer:     {configs / wall:.0f} configurations/s '
              f'({cpu / configs * 1e3:.3f} ms of CPU each); '
              f'largest difference {relative(got[:16], want):.1e}')


def train(args):
    rng = np.random.default_rng(args.seed)
    programs = [
        simulate(rng, n, int(1.45 * n), n // 20, 1000, args.vectors)
        for n in np.linspace(1000, 8000, 8).astype(int)
    ]
    for mode in ('fullgraph', 'dropout', 'backpropdropout'):
        time_training(rng, models.ResModel(16, _NUM_OPS, dropout=mode), programs, mode)


def time_training(rng, model, programs, name, configs=16, steps=4):
    """Takes steps on a batch of all programs, in segments of 5,000 nodes."""
    import tensorflow_ranking as tfr

    batch = len(programs)
    graphs = graphs_lib.LayoutGraphs(programs)
    choices = [segments.equal_segments(p.num_nodes, 5000) for p in programs]
    packed, wall, _ = timed(
        graphs.items,
        np.tile(np.arange(batch), (steps, 1)),
        rng.integers(0, programs[0].num_configs, (steps, batch, configs)),
        np.stack([segments.draw_segments(rng, choices) for _ in range(steps)]),
    )
    print(f'packing: {wall / steps * 1e3:.0f} ms per step')
    loss_of = tfr.keras.losses.ListMLELoss(temperature=1.0)
    adam = tf.keras.optimizers.legacy.Adam(1e-3, clipnorm=1e-2)

    @tf.function(input_signature=[
        graphs.signature(batch), tf.TensorSpec([], tf.int32)])
    def step(packed, item):
        graph, labels = graphs_lib.unpack(packed, item, batch, configs)
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(graph, training=True))
            loss += tf.add_n(model.losses)
        variables = model.trainable_variables
        gradients = tape.gradient(loss, variables)
        adam.apply_gradients(
            (tf.convert_to_tensor(g), v) for g, v in zip(gradients, variables)
        )
        return loss

    model(graphs_lib.unpack(packed, 0, batch)[0])
    tensors = {k: tf.convert_to_tensor(v) for k, v in packed.items()}
    step(tensors, 0)
    _, wall, cpu = timed(lambda: [step(tensors, i).numpy() for i in range(steps)])
    print(f'{name}: {wall / steps:.3f} s per step '
          f'({cpu / steps:.3f} s of CPU), peak {peak():.2f} GB')


def relative(got, want):
    return np.abs(got - want).max() / np.abs(want).max()


def stress(args):
    rng = np.random.default_rng(args.seed)
    configs = args.configs or 20000
    with tempfile.TemporaryDirectory() as folder:
        program = simulate(rng, 20000, 30000, 1500, configs, args.vectors)
        path = os.path.join(folder, 'codes.npy')
        np.save(path, program.codes)
        program = dataclasses.replace(program, codes=np.load(path, mmap_mode='r'))
        model = models.ResModel(16, _NUM_OPS, dropout='fullgraph')
        time_training(rng, model, [program], 'fullgraph')
        before = peak()
        scorer = scoring.LayoutScorer(model, args.budget << 20)
        got, wall, cpu = timed(scorer.score, program)
    print(f'{len(got)} configurations in {wall:.1f} s ({cpu:.1f} s of CPU), '
          f'peak {peak():.2f} GB, {before:.2f} GB before, '
          f'budget {args.budget / 1024:.2f} GB')


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


if __name__ == '__main__':
    parser = argparse.ArgumentParser()
    parser.add_argument('what', choices=['score', 'train', 'stress'])
    parser.add_argument('--seed', type=int, default=0)
    parser.add_argument('--vectors', type=int, default=8)
    parser.add_argument('--configs', type=int, default=0)
    parser.add_argument('--budget', type=int, default=1024)
    args = parser.parse_args()
    globals()[args.what](args)
