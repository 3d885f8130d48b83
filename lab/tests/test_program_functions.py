"""Programs and their ranking, from Python."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import made_runs
import tpugraphs
import tpugraphs_lab


@pytest.mark.slow
def test_functions_of_tensorflow_are_ranked(tmp_path):
    run = tpugraphs.load(made_runs.make_tile_run(tmp_path))
    tiles = [{'kernel_bounds': [i + 1, 8 * i]} for i in range(3)]
    for read in (tpugraphs_lab.read_program, tpugraphs_lab.hlo_module):
        program = read(lambda x: tf.nn.relu(x) + 1.0, tf.zeros([4, 8]))
        [ranked] = tpugraphs_lab.rank(run, program, candidates=tiles)
        assert sorted(ranked.order) == [0, 1, 2]
    [ranked] = tpugraphs_lab.rank(run, tf.tanh, tf.zeros([256, 512]))
    assert len(ranked.order) > 3  # candidates of its one kernel


def test_the_hlo_of_a_tensorflow_function():
    @tf.function
    def power(x, times=1):
        for _ in range(times):
            x = tf.sin(x)
        return x

    for stage, fuses in (('hlo', False), ('optimized_hlo', True)):
        module = tpugraphs_lab.hlo_module(
            power, np.zeros([3], np.float32), stage=stage, times=3
        )
        opcodes = [i.opcode for c in module.computations for i in c.instructions]
        assert opcodes.count('sine') == 3 and ('fusion' in opcodes) == fuses


@pytest.mark.parametrize(
    'fn, args, stage, message',
    [
        (lambda x: x, [1.0], 'hlo_text', "'hlo_text'"),
        (lambda x: tf.strings.length(x), ['a'], 'hlo', 'XLA cannot compile'),
        (lambda x: x + 'a', [1.0], 'hlo', 'XLA cannot compile'),
        (3, [], 'hlo', "TypeError: 'int' object is not callable"),
    ],
)
def test_what_cannot_be_compiled(fn, args, stage, message):
    with pytest.raises(ValueError, match=message) as caught:
        tpugraphs_lab.hlo_module(fn, *map(tf.constant, args), stage=stage)
    assert '\n' not in str(caught.value)
