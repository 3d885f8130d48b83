"""Layout configurations: which runs count, their features, what is refused."""

import numpy as np
import pytest

from baselines.hlo import layout_configs
from tests.helpers import hlo_modules
from tests.helpers import refusals
from tests.helpers.hlo_modules import layout_run


def _extract(runs, ids=(2,), num_nodes=3):
    return layout_configs.extract_configs(
        hlo_modules.tuning(runs=runs, config_index_to_node=ids), num_nodes
    )


def test_runs_in_order_without_errors_profiles_or_configurations():
    no_profile = layout_run([[]])
    del no_profile['profile']
    found = _extract(
        [
            layout_run([[]], 9),
            layout_run([[]], 8, error=True, default=True),
            no_profile,
            hlo_modules.tile_run(7),
            {},
            layout_run([[]], 1, default=True),
            layout_run([[]], 5, default=True),
        ]
    )
    assert found.config_runtime.tolist() == [9, 1, 5]
    assert found.config_runtime.dtype == np.int64
    assert found.normalizer == 1
    assert found.run_index.tolist() == [0, 5, 6]
    assert [*found.dropped.items()] == [
        *(('error', 1), ('without profile', 1), ('without module configuration', 2))
    ]
    assert _extract([layout_run([[]], 9)]).normalizer is None  # without a default


def test_features_are_padded_with_minus_one():
    found = _extract(
        [
            layout_run([[[1, 0], [3, 2, 1, 0], [0]], []]),
            layout_run([[[6, 5, 4, 3, 2, 1, 0]], [[], [-7]]]),
        ],
        ids=(2, 0),
    )
    assert found.node_config_ids.tolist() == [2, 0]
    assert found.node_config_ids.dtype == np.int64
    assert found.node_config_feat.dtype == np.float32
    assert found.node_config_feat.tolist() == [
        [[1, 0, -1, -1, -1, -1, 3, 2, 1, 0, -1, -1, 0] + [-1] * 5, [-1] * 18],
        [[6, 5, 4, 3, 2, 1] + [-1] * 12, [-1] * 6 + [-7] + [-1] * 11],
    ]


@pytest.mark.parametrize(
    'runs, ids, words',
    [
        ([layout_run([[]]), layout_run([[]], -3)], (2,), ['run 1 ', '-3 ns']),
        ([dict(module_config={}, profile=dict(compute_time_ns=5))], (2,), ['run 0 ']),
        ([layout_run([[]]), layout_run([[], []])], (2,), ['run 1 ', '2 node']),
        ([layout_run([[[0], [0], [0], [0]]])], (2,), ['entry 0 ', '4 tensors']),
        ([layout_run([[]])], (3,), ['node 3,', '3 nodes']),
        ([layout_run([])], (), ['config_index_to_node']),
        ([], (2,), ['no usable run']),
        ([layout_run([[]])] * 2, (2,), ['144 bytes']),
    ],
)
def test_what_is_refused(runs, ids, words, monkeypatch):
    # Sizes are checked before memory is taken.
    monkeypatch.setattr(layout_configs, 'MAX_BYTES', 143)
    refusals.assert_refused(lambda: _extract(runs, ids), *words)
