"""Tile configurations: which modules and runs count, and their features."""

import numpy as np
import pytest

from baselines.hlo import protos
from baselines.hlo import tile_configs
from tests.helpers import hlo_modules
from tests.helpers.hlo_modules import tile_run

_NO_MODULE = protos.ModuleTuningData(runs=[tile_run(default=True), tile_run()])


def _extract(*runs, pad=0):
    return tile_configs.extract_configs(hlo_modules.tuning(runs=runs), pad)


def test_runs_in_order_without_errors_and_unmeasured_ones():
    found = _extract(
        tile_run(100, error=True, default=True),
        tile_run(9, kernel_bounds=[1]),
        tile_run(1),
        tile_run(0),
        tile_run(-5),
        tile_run(7, default=True),
        tile_run(2, default=True),
        dict(op_config=dict(tile_size_config={})),
    )
    assert found.config_runtime.tolist() == [9, 7, 2]
    assert found.config_runtime.dtype == np.int64
    assert found.normalizer == 7
    assert found.run_index.tolist() == [1, 5, 6]
    assert found.dropped == {'error': 1, 'no time': 4}


def test_features():
    found = _extract(
        tile_run(
            5,
            default=True,
            kernel_bounds=[2, 3],
            output_bounds=[1, 2, 3, 4, 5, 6, 7],
            iteration_bounds=[9],
        ),
        tile_run(6, input_bounds=[2**62, 2**62, 4]),
    )
    assert found.config_feat.dtype == np.float32
    assert found.config_feat.tolist() == [
        [2, 3, 0, 0, 0, 0, 5, 6, 1, 2, 3, 4, 5, 6, 28, 5040] + [0] * 8,
        [0] * 16 + [2.0**62, 2.0**62, 4, 0, 0, 0, -(2.0**63), 0],
    ]


def test_padding_fills_absent_bounds_but_not_sum_and_product():
    found = _extract(tile_run(5, default=True, kernel_bounds=[0]), tile_run(6), pad=-1)
    assert found.config_feat[:, :8].tolist() == [
        [0, -1, -1, -1, -1, -1, 0, 0],
        [-1, -1, -1, -1, -1, -1, 0, 0],
    ]


@pytest.mark.parametrize(
    'runs, reason',
    [
        ([], 'no runs'),
        ([tile_run(default=True)], '1 run'),
        # Error runs count here, too.
        ([tile_run(default=True), hlo_modules.layout_run([])], 'tile sizes'),
        (
            [tile_run(1, default=True), tile_run(default=True, error=True)],
            'default run',
        ),
        (None, 'no module'),
    ],
)
def test_modules_that_are_passed_over(runs, reason):
    tuning = _NO_MODULE if runs is None else hlo_modules.tuning(runs=runs)
    assert reason in tile_configs.explain_unusable(tuning)
    with pytest.raises(ValueError, match=reason):
        tile_configs.extract_configs(tuning)


def test_candidates_need_no_measurement(monkeypatch):
    found = tile_configs.extract_configs(
        hlo_modules.tuning(
            runs=[
                tile_run(0, kernel_bounds=[2]),
                tile_run(9, error=True, default=True),
                tile_run(1, default=True, kernel_bounds=[3]),
                tile_run(-4),
                tile_run(7),
            ]
        ),
        pad=-1,
        measured=False,
    )
    assert found.run_index.tolist() == [0, 2, 3, 4]
    assert found.config_runtime.tolist() == [0, 0, 0, 7]
    assert found.config_feat[:, :2].tolist() == [[2, -1], [3, -1], [-1, -1], [-1, -1]]
    assert found.dropped == {'error': 1, 'no time': 0}
    assert found.default == 1
    assert found.normalizer is None
    monkeypatch.setattr(tile_configs, 'MAX_CONFIGS', 2)
    with pytest.raises(ValueError, match='3 .* 2'):
        tile_configs.extract_configs(hlo_modules.good_tile())


@pytest.mark.parametrize(
    'runs, default, normalizer',
    [
        ([tile_run(), tile_run()], None, None),
        ([tile_run(0, default=True), tile_run(6, default=True)], 1, 6),
        ([tile_run(6), tile_run(0, default=True)], 1, None),
    ],
)
def test_default_of_candidates_is_a_measured_one_if_there_is(runs, default, normalizer):
    found = tile_configs.extract_configs(hlo_modules.tuning(runs=runs), measured=False)
    assert (found.default, found.normalizer) == (default, normalizer)


def test_modules_with_nothing_to_rank():
    assert tile_configs.explain_unusable(_NO_MODULE, measured=False)
    for errors, number in ((False, True), 'one run'), ((True, True), 'no run'):
        tuning = hlo_modules.tuning(runs=[tile_run(error=error) for error in errors])
        assert number in tile_configs.explain_unusable(tuning, measured=False)
