"""Configurations in words."""

import numpy as np
import pytest

from baselines.hlo import layout_configs
from baselines.hlo import tile_configs
from tests.helpers import hlo_modules


def _run(described):
    return hlo_modules.tuning(runs=[described]).runs[0]


def test_tiles():
    bounds = dict(input_bounds=[1, 2, 3], iteration_bounds=[4, 4])
    described = tile_configs.tile_json(_run(hlo_modules.tile_run(**bounds)))
    expected = 'output -, kernel -, input 1x2x3, iteration 4x4'
    assert tile_configs.format_tile(described) == expected


def _layout_text(run, *default):
    return layout_configs.format_layout(
        layout_configs.describe_layout(run, [3, 5, 8], *default)
    )


def test_layouts():
    default = _run(hlo_modules.layout_run([[[1, 0], [], [0]], [[0]], [[2], []]]))
    run = _run(hlo_modules.layout_run([[[1, 0], [], [0]], [[1]], []]))
    assert _layout_text(run) == (
        '3: output {1,0} input {} kernel {0}; 5: output {1}; 8: -'
    )
    assert _layout_text(run, default) == '5: output {1}; 8: -'
    assert _layout_text(default, default) == 'as the default'


@pytest.mark.parametrize('pad', [0, -1])
def test_rows_of_features_say_the_same(pad):
    run = hlo_modules.tile_run(output_bounds=[8, 128], kernel_bounds=[256])
    tuning = hlo_modules.tuning(runs=[run, run])
    row = tile_configs.extract_configs(tuning, pad, measured=False).config_feat[0]
    assert tile_configs.tile_row_json(row, pad) == tile_configs.tile_json(
        tuning.runs[0]
    )
    rows = np.full((1, 18), -1.0)
    rows[0, :2], rows[0, 6] = [1, 0], 0
    assert layout_configs.describe_layout_row(rows, [7]) == {
        'layouts': {'7': {'output': [1, 0], 'input': [0], 'kernel': []}}
    }
