"""Models that compare the configurations of a list are scored on several."""

import dataclasses

import numpy as np
import tensorflow as tf

from baselines.layout import scoring
from baselines.tiles import scoring as tile_scoring
from tests.helpers import layout_programs


class _Comparing:
    """Scores a configuration by its runtime, less the mean of the list's."""

    scores_depend_on_list = True

    def forward(self, graph, num_configs):
        del num_configs
        runtimes = graph.node_sets['g']['runtimes']
        return runtimes - tf.reduce_mean(runtimes, 1, keepdims=True)


def test_lists_are_averaged():
    program = layout_programs.random_program(0, configs=300)
    expected, times = np.zeros(300), np.zeros(300)
    for cut in tile_scoring.cut_into_lists(300):
        expected[cut] += program.runtimes[cut] - program.runtimes[cut].mean()
        times[cut] += 1
    scores = scoring.ForwardScorer(_Comparing()).score(program)
    np.testing.assert_allclose(scores, expected / times, rtol=1e-4, atol=10)


class _Constant:
    """Scores every configuration 10."""

    def forward(self, graph, num_configs):
        return tf.fill([1, num_configs], 10.0)


def test_scores_are_added_to_the_prior():
    program = layout_programs.random_program(0, configs=3)
    program = dataclasses.replace(
        program, group=np.array([2, 0, 0]), prior=np.array([1, 2, 3], np.float32)
    )
    scorer = scoring.LayoutScorer(_Constant())
    assert scorer.score(program).tolist() == [13, 11, 11]
    [chosen] = scorer.chosen([program], [np.array([1, 0])])()
    assert chosen.tolist() == [11, 13]
