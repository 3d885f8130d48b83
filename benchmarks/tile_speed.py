"""How fast the tile models score and train, next to the plain formulas.

  python benchmarks/tile_speed.py            # about four minutes
  python benchmarks/tile_speed.py --models EarlyJoinSAGE --profile

50 synthetic kernels of 38 nodes and 577 configurations on average, 41 node and
11 configuration columns after scaling.  Scoring: all configurations of all
kernels, packing included.  Training: 10 kernels x 10 configurations per step,
sampling and packing included, after a first epoch.  The plain path makes one
eager call per kernel (per step) with the same weights.

--profile prints which kinds of operations take the time of scoring and of training.
"""

import collections
import os
import pathlib
import statistics
import tempfile

import results
import synthetic

from baselines.core import registry
from baselines.core import starting

_MODELS = 'EarlyJoinSAGE EarlyJoinResGCN LateJoinSAGE LateJoinResGCN MLP'.split()
_KERNELS, _BATCH, _CONFIGS, _STEPS = 50, 10, 10, 50


def make_kernels(folder: str) -> None:
    """Writes the kernels, with random numbers in as many columns as vary."""
    import numpy as np

    rng = np.random.default_rng(0)
    nodes = np.clip(rng.normal(38, 16, _KERNELS).round(), 2, 90).astype(int)
    nodes[-1] = max(2, 38 * _KERNELS - nodes[:-1].sum())
    configs = rng.integers(60, 1095, _KERNELS)
    configs[-1] = max(60, 577 * _KERNELS - configs[:-1].sum())
    for i, (n, c) in enumerate(zip(nodes, configs)):
        feats = np.zeros((n, 140), np.float32)
        feats[:, :41] = rng.random((n, 41))
        config_feat = np.zeros((c, 24), np.float32)
        config_feat[:, :11] = rng.random((c, 11))
        changes = {'node_feat': feats, 'config_feat': config_feat}
        opcodes = rng.integers(1, 120, n).astype(np.int32)
        kernel = synthetic.kernel(
            rng, f'synthetic_{i:016x}', n, c, node_opcode=opcodes, **changes
        )
        kernel.write(os.path.join(folder, f'{kernel.graph_id}.npz'))


def best_and_median(work, repeats: int):
    """Returns seconds of `work`, called `repeats` times after one warm-up."""
    seconds, _ = results.timed(work, repeats)
    return seconds[0], statistics.median(seconds)


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument('--models', nargs='+', default=_MODELS, choices=_MODELS)
    parser.add_argument('--repeats', type=int, default=7)
    parser.add_argument('--profile', action='store_true')
    args = parser.parse_args()
    starting.start_tensorflow()
    with tempfile.TemporaryDirectory() as folder:
        make_kernels(folder)
        for name in args.models:
            measure(name, folder, args.repeats, args.profile)


def measure(name: str, folder: str, repeats: int, profile: bool) -> None:
    """Prints how fast a model scores and trains, next to its plain formula."""
    import plain_models
    import tensorflow as tf

    from baselines.data.tile import store as store_lib
    from baselines.features import normalizer as normalizer_lib
    from baselines.scoring import scorer
    from baselines.tasks import lookup

    store = store_lib.TileStore.open(folder, os.path.join(folder, 'cache'))
    normalizer = normalizer_lib.Normalizer.fit(store)
    task = lookup.TASKS['tile']
    graphs = task.graphs(store, normalizer, False, False)
    tf.keras.utils.set_random_seed(0)
    model_class = registry.find_model_class(name, 'tile')
    model = scorer.make_model(task, model_class, {}, _CONFIGS, 120, normalizer)
    plain = plain_models.TileModel(model)
    print(f'{name:16s}', end=' ')
    measure_scoring(model, plain, graphs, repeats, profile)
    print(f'{"":16s}', end=' ')
    measure_training(model, plain, graphs, repeats, profile)


def measure_scoring(model, plain, graphs, repeats: int, profile: bool) -> None:
    """Prints how fast all configurations are scored, and how exactly."""
    import numpy as np
    import tensorflow as tf

    from baselines.tiles import scoring

    keys = ('op', 'feats', 'edges', 'config_feats')
    kernels = []
    for kernel in range(_KERNELS):
        packed = graphs.pack_all(np.array([kernel]), None)
        kernels.append([tf.convert_to_tensor(packed[key]) for key in keys])

    def plain_scores():
        return np.concatenate(
            [
                plain(op, feats, edges, configs[None], tf.zeros(op.shape, tf.int32), 1)[
                    0
                ]
                for op, feats, edges, configs in kernels
            ]
        )

    scorer = scoring.TileScorer(model)

    def our_scores():
        return np.concatenate(list(scorer.scores(graphs)))

    expected, scores = plain_scores(), our_scores()
    difference = np.abs(scores - expected).max() / np.abs(expected).max()
    plain_best, _ = best_and_median(plain_scores, 2)
    best, median = best_and_median(our_scores, repeats)
    total = len(scores)
    print(
        f'scores {total / best:11,.0f} configurations/s (median '
        f'{total / median:11,.0f}), plain {total / plain_best:8,.0f}: '
        f'{plain_best / best:5.1f} x, difference {difference:.1e}',
        flush=True,
    )
    if profile:
        print_shares(our_scores)


def measure_training(model, plain, graphs, repeats: int, profile: bool) -> None:
    """Prints how fast steps are trained, and on request what takes their time."""
    import numpy as np

    from baselines import config
    from baselines.data.tile import sampling
    from baselines.tiles import graphs as graphs_lib
    from baselines.training import losses
    from baselines.training import steps

    rng = np.random.default_rng(1)
    counts = graphs.store.config_counts

    def epoch():
        chosen = np.stack([rng.permutation(_KERNELS)[:_BATCH] for _ in range(_STEPS)])
        drawn = sampling.draw_configs(rng, counts[chosen.reshape(-1)], _CONFIGS)
        return graphs.pack(chosen, drawn.reshape(_STEPS, _BATCH, -1))

    loss = losses.CombinedLoss('ListMLELoss:1,MSE:0.02')
    trainer = steps.Steps(
        model,
        loss,
        config.Optimisation(lr=1e-3, clip_norm=1e-3),
        lambda packed, step: (*graphs_lib.unpack(packed, step, _BATCH, _CONFIGS), 0.0),
        graphs_lib.make_signature(epoch()),
    )
    best, median = best_and_median(lambda: trainer.run_chunk(epoch(), _STEPS), repeats)
    plain_best, _ = best_and_median(plain_training_step(plain, model, loss, epoch), 5)
    print(
        f'trains {_STEPS / best:11,.0f} steps/s          (median '
        f'{_STEPS / median:11,.0f}), plain {1 / plain_best:8,.0f}: '
        f'{plain_best * _STEPS / best:5.1f} x',
        flush=True,
    )
    if profile:
        packed = epoch()
        print_shares(lambda: trainer.run_chunk(packed, _STEPS))


def print_shares(work) -> None:
    """Prints which kinds of TensorFlow operations take the time of `work`."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            work()
        [path] = pathlib.Path(folder).rglob('*.xplane.pb')
        space = xplane_pb2.XSpace.FromString(path.read_bytes())
    seconds = collections.Counter()
    for plane in space.planes:
        names = {key: event.name for key, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                # Operations are called name:kind; functions and threads hold them.
                name, colon, kind = names[event.metadata_id].rpartition(':')
                if colon and not name.endswith(':') and '__' not in kind:
                    seconds[kind] += event.duration_ps
    whole = sum(seconds.values())
    for kind, part in seconds.most_common(12):
        print(f'{"":16s} {part / whole:6.1%} {kind}')


def plain_training_step(plain, model, loss, epoch):
    """Returns a function that makes one eager step on the plain formula."""
    import numpy as np
    import tensorflow as tf

    optimizer = tf.keras.optimizers.Adam(1e-3, clipnorm=1e-3)
    variables = model.trainable_variables

    def step():
        packed = epoch()
        nodes, edges = packed['node_sizes'][0].sum(), packed['edge_sizes'][0].sum()
        rows = slice(0, _BATCH * _CONFIGS)
        configs = tf.reshape(packed['config_feats'][rows], [_BATCH, _CONFIGS, -1])
        labels = (packed['runtimes'] / packed['normalizers'])[rows].astype(np.float32)
        labels = labels.reshape(_BATCH, _CONFIGS)
        with tf.GradientTape() as tape:
            scores = plain(
                tf.constant(packed['op'][:nodes]),
                tf.constant(packed['feats'][:nodes]),
                tf.constant(packed['edges'][:edges]),
                configs,
                tf.repeat(tf.range(_BATCH), packed['node_sizes'][0]),
                _BATCH,
            )
            matrices = [v for v in variables[1:] if len(v.shape) == 2]
            penalty = tf.add_n([tf.reduce_sum(tf.square(v)) for v in matrices])
            objective = loss(labels, scores) + 1e-4 * penalty
        optimizer.apply_gradients(zip(tape.gradient(objective, variables), variables))

    return step


if __name__ == '__main__':
    results.run(main)
