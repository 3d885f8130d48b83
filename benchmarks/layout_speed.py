"""How fast ResModel scores and trains, and in how much memory.

  python benchmarks/layout_speed.py             # two minutes
  python benchmarks/layout_speed.py --what score --vectors 64

score:  all configurations of a program of 5,000 nodes and 7,266 edges, next to
        the published formula (plain_models.py) in the same process.
train:  steps of 8 programs (1,000 to 8,000 nodes) x 16 configurations in
        segments of 5,000 nodes, packing and metrics included.
stress: steps on, then all 20,000 configurations of, a program of 20,000 nodes,
        1,500 of them configurable; codes are memory-mapped.

Synthetic programs are random graphs with 18 node and 12 configuration columns,
mostly local edges, and two hubs.  5 % of the nodes are configurable.  In each
configuration, each of them has one of its 2 to 8 layouts (as in the real program
main_10904), drawn evenly and independently, so that their joint states are as
many as can be; `--vectors 64` gives every node 64.  Seconds of CPU stand next to
those of the clock.
"""

import dataclasses
import os
import statistics
import tempfile

import numpy as np
import results
import synthetic

from baselines.core import starting

_PARTS = ('score', 'train', 'stress')
_NUM_OPS, _NODE_COLUMNS, _CONFIG_COLUMNS = 120, 18, 12


def synthetic_program(rng, nodes, edges, configurable, configs, vectors):
    """Returns a program of random arrays."""
    from baselines.layout import graphs as graphs_lib

    table = 20 if vectors <= 8 else 4 * vectors
    counts = rng.integers(2 if vectors <= 8 else vectors, vectors + 1, configurable)
    codes = synthetic.choices(rng, configs, counts)
    codes += rng.integers(0, table - counts + 1).astype(np.uint16)
    return graphs_lib.ScaledProgram(
        graph_id=f'synthetic_{nodes}',
        op=rng.integers(0, _NUM_OPS, nodes).astype(np.int32),
        feats=rng.random((nodes, _NODE_COLUMNS), np.float32),
        edges=synthetic.edges(rng, nodes, edges),
        config_ops=2
        + np.sort(rng.permutation(nodes - 2)[:configurable]).astype(np.int32),
        vectors=rng.random((table, _CONFIG_COLUMNS), np.float32),
        codes=codes,
        group=np.arange(configs),
        runtimes=rng.random(configs) * 1e7,
    )


def median(work, repeats: int):
    """Returns the median seconds of `work` by the clock and of CPU, once warm."""
    return tuple(map(statistics.median, results.timed(work, repeats)))


def score(rng, args) -> None:
    """Times scoring, and compares scores with the published formula's."""
    import plain_models
    import tensorflow as tf

    from baselines.layout import graphs as graphs_lib
    from baselines.layout import models
    from baselines.layout import scoring

    few, configs = 16, 4096
    program = synthetic_program(rng, 5000, 7266, 250, configs, args.vectors)
    model = models.ResModel(few, _NUM_OPS)
    scorer = scoring.LayoutScorer(model, args.budget << 20)
    packed = graphs_lib.pack(
        [program], np.zeros([1, 1], int), np.arange(few)[None, None]
    )
    packed = {k: tf.convert_to_tensor(v) for k, v in packed.items()}
    fast = scorer.score(program)
    plain = tf.function(
        lambda: plain_models.layout_scores(
            model, graphs_lib.unpack(packed, 0, 1, few)[0], few
        )
    )
    whole = tf.function(
        lambda: model.forward(graphs_lib.unpack(packed, 0, 1, few)[0], few)[0]
    )
    expected = plain().numpy()
    for name, work, count, scores in (
        ('published formula', plain, few, expected),
        ('forward', whole, few, whole().numpy()),
        ('LayoutScorer', lambda: scorer.score(program), configs, fast[:few]),
    ):
        clock, cpu = median(work, args.repeats)
        off = float(np.abs(scores - expected).max() / np.abs(expected).max())
        print(
            f'{name}: {count / clock:,.0f} configurations/s, '
            f'{1e3 * cpu / count:.3f} ms of CPU each; '
            f'largest difference {off:.1e}'
        )


def train(rng, args) -> None:
    """Times training steps in each mode."""
    sizes = np.linspace(1000, 8000, 8).astype(int)
    programs = [
        synthetic_program(rng, n, int(1.45 * n), n // 20, 1000, args.vectors)
        for n in sizes
    ]
    for mode in ('fullgraph', 'dropout', 'backpropdropout'):
        time_steps(rng, args, programs, mode, 5000)


def time_steps(rng, args, programs, mode, keep_nodes) -> None:
    """Times steps on a batch of all programs."""
    import tensorflow as tf

    from baselines import config
    from baselines.layout import graphs as graphs_lib
    from baselines.layout import models
    from baselines.tiles import graphs as tile_graphs
    from baselines.training import losses
    from baselines.training import steps as steps_lib

    batch, configs, steps = len(programs), 16, 3
    sizes = np.array([program.num_nodes for program in programs])
    numbers = np.tile(np.arange(batch), (steps, 1))

    def draw():
        return graphs_lib.pack(
            programs,
            numbers,
            rng.integers(0, programs[0].num_configs, (steps, batch, configs)),
            np.stack(
                [graphs_lib.draw_segments(rng, sizes, keep_nodes) for _ in numbers]
            ),
        )

    def unpack(packed, step):
        return (*graphs_lib.unpack(packed, step, batch, configs), 0.0)

    model = models.ResModel(configs, _NUM_OPS, dropout=mode)
    tensors = {k: tf.convert_to_tensor(v) for k, v in draw().items()}
    model(unpack(tensors, 0)[0])
    trainer = steps_lib.Steps(
        model,
        losses.CombinedLoss('ListMLELoss', 1.0),
        config.Optimisation(lr=1e-3, clip_norm=1e-2),
        unpack,
        tile_graphs.make_signature(draw()),
    )
    clock, cpu = median(lambda: trainer.run_chunk(draw(), steps), args.repeats)
    name = f'{batch} programs x {configs}, {mode}'
    print(f'{name}: {clock / steps:.3f} s per step, {cpu / steps:.3f} s of CPU')


def stress(rng, args) -> None:
    """Trains on and scores a large program, and prints the peak of memory."""
    from baselines.layout import models
    from baselines.layout import scoring

    configs = 20000
    with tempfile.TemporaryDirectory() as folder:
        program = synthetic_program(rng, 20000, 29000, 1500, configs, args.vectors)
        path = os.path.join(folder, 'codes.npy')
        np.save(path, program.codes)
        program = dataclasses.replace(program, codes=np.load(path, mmap_mode='r'))
        time_steps(rng, args, [program], 'fullgraph', -1)
        before = results.peak_mb() / 1024
        scorer = scoring.LayoutScorer(models.ResModel(16, _NUM_OPS), args.budget << 20)
        work = lambda: scorer.score(program)
        [clock], [cpu] = results.timed(work, 1, warm_up=False)
        peak = results.peak_mb() / 1024
    print(
        f'{configs:,} configurations of 20,000 nodes: {clock:.1f} s, '
        f'{cpu:.1f} s of CPU; peak {peak:.2f} GB ({before:.2f} GB before), '
        f'budget {args.budget / 1024:g} GB'
    )


def main() -> None:
    """Measures and prints."""
    parser = results.parser(__doc__)
    parser.add_argument('--what', nargs='+', default=_PARTS, choices=_PARTS)
    parser.add_argument('--vectors', type=int, default=8, help='layouts per node')
    parser.add_argument('--budget', type=int, default=1024, help='MB for scoring')
    parser.add_argument('--repeats', type=int, default=5)
    args = parser.parse_args()
    starting.start_tensorflow()
    for what in args.what:
        measure = {'score': score, 'train': train, 'stress': stress}[what]
        measure(np.random.default_rng(0), args)


if __name__ == '__main__':
    results.run(main)
