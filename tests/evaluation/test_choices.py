"""Ranked configurations: their order, and what the choices cost."""

import math

import numpy as np
import pytest

from baselines.evaluation import choices


def _ranked(scores, runtimes, default=0, **changes):
    fields = dict(
        module='m',
        source='m.pb',
        nodes=3,
        as_json=lambda run: {},
        as_text=str,
        run_index=10 + np.arange(len(scores)),
        runtimes=np.array(runtimes, np.int64),
        default=default,
    )
    return choices.RankedModule(
        scores=np.array(scores, np.float32), **{**fields, **changes}
    )


def test_everything_follows_the_scores_and_ties_stay_in_order():
    ranked = _ranked([3, 1, 2, 1], [30, 11, 20, 10], default=2)
    assert ranked.scores.tolist() == [1, 1, 2, 3]
    assert [row['run_index'] for row in ranked.rows()] == [11, 13, 12, 10]
    assert ranked.runtimes.tolist() == [11, 10, 20, 30]
    assert (ranked.default, ranked.fastest) == (2, 10)


def test_figures():
    # First choice 20, default 25, fastest 10; at random 55/3 on average.
    found = choices.measure_choices(_ranked([3, 1, 2], [25, 20, 10]))
    assert found['slowdown'] == {1: 2.0, 5: 1.0, 10: 1.0}
    assert found['random'] == {1: pytest.approx(55 / 3 / 10), 5: 1, 10: 1}
    assert (found['default'], found['against_default']) == (2.5, 0.8)
    # The two first choices take 20 and 10, the default 10.
    found = choices.measure_choices(_ranked([2, 1, 1], [30, 20, 10], default=2))
    assert found['slowdown'][1] == 1.5 and found['against_default'] == 1.5


def test_the_table_says_where_figures_are_means_over_orders():
    tied = '  2 configurations '

    def lines(scores, runtimes, **changes):
        ranked = _ranked(scores, runtimes, **changes)
        return choices.format_module(ranked, 10).split('\n')

    assert lines([1], [10], nodes=1)[0] == 'm  1 node, 1 configuration'
    assert lines([2, 1, 1], [30, 20, 10])[-1].startswith(tied)
    for scores, runtimes in (([1, 2, 2], [30, 20, 10]), ([2, 1, 1], [0, 0, 0])):
        assert not lines(scores, runtimes)[-1].startswith(tied)


def test_figures_are_over_what_was_measured():
    # The first choice was not measured; 30 is the first that was.
    ranked = _ranked([1, 2, 3, 4], [0, 30, 10, 0], default=0)
    found = choices.measure_choices(ranked)
    assert found['slowdown'][1] == 3.0
    assert found['default'] is None and found['against_default'] is None
    assert ranked.fastest == 10
    assert choices.measure_choices(_ranked([1, 2], [0, 5])) is None
    assert (
        choices.measure_choices(_ranked([1, 2], [5, 6], default=None))['default']
        is None
    )
    assert _ranked([1, 2], [0, 0]).fastest is None


def test_summary():
    summary = choices.Summary()
    nothing = summary.to_json()
    assert nothing['slowdown'] is nothing['random'] is nothing['default'] is None
    summary.add(_ranked([3, 1, 2], [25, 20, 10], agreement=0.7))  # 2; 2.5; 0.8
    summary.add(_ranked([1, 2], [10, 20], agreement=0.9))  # 1; 1; 1
    summary.add(_ranked([2, 1], [10, 20]))  # 2; 1; 2
    summary.add(_ranked([1, 2], [40, 10], default=None))  # 4
    summary.add(_ranked([1, 2, 3], [0, 0, 0]))
    found = summary.to_json()
    names = ('modules', 'configurations', 'unsure', 'measured_modules')
    assert [found[name] for name in names] == [5, 12, 1, 4]
    assert found['slowdown'] == {'1': 2.25, '5': 1.0, '10': 1.0}
    assert found['random']['1'] == pytest.approx((55 / 30 + 1.5 + 1.5 + 2.5) / 4)
    default = found['default']
    assert default['ratio'] == pytest.approx(math.exp(math.log(1.6) / 3))
    assert default['slowdown'] == pytest.approx(4.5 / 3)
    counts = [default[k] for k in ('modules', 'faster', 'same', 'slower')]
    assert counts == [3, 1, 1, 1]
