"""Candidates of a compiler, as JSON."""

import json

import pytest

from baselines.hlo import candidates
from baselines.hlo import layout_configs
from baselines.hlo import tile_configs
from tests.helpers import hlo_modules
from tests.helpers import refusals


def test_tiles_come_back_as_they_went_in():
    given = [
        {'output_bounds': [8, 128], 'kernel_bounds': [256], 'rank': 3},
        {'input_bounds': [4], 'is_default': True},
    ]
    tuning = candidates.make_tuning_data(hlo_modules.tuning(runs=[]), given, 'tile')
    assert tuning.fingerprint == 0xAB and tuning.module.name == 'fusion.1'
    assert [run.is_default for run in tuning.runs] == [False, True]
    assert tile_configs.tile_json(tuning.runs[0]) == {
        'output_bounds': [8, 128],
        'kernel_bounds': [256],
        'input_bounds': [],
    }


def test_layouts_come_back_as_they_went_in():
    given = [
        {'layouts': {'2': {'output': [1, 0]}, '0': {'output': [0], 'input': []}}},
        {'layouts': {'0': {}, '2': {'output': [0, 1]}}},
    ]
    tuning = candidates.make_tuning_data(hlo_modules.tuning(), given, 'layout')
    assert list(tuning.config_index_to_node) == [0, 2]
    assert [layout_configs.describe_layout(run, [0, 2]) for run in tuning.runs] == given
    configs = layout_configs.extract_configs(tuning, 3, False)
    assert configs.node_config_feat.shape == (2, 2, 18)


@pytest.mark.parametrize(
    'kind, candidate, word',
    [
        ('tile', [8, 128], 'object'),
        ('tile', {'output_bounds': 8}, ' 8'),
        *(('tile', {'output_bounds': [n]}, f'[{n}]') for n in (-1, True, 2**63)),
        ('tile', {'output_bound': [8]}, "'output_bounds'?"),
        ('tile', {'output_bounds': [8, 9]}, '2 bounds'),
        ('layout', {'layout': {}}, "'layouts'?"),
        ('layout', {'layouts': {'1': {}}}, 'nodes'),
        ('layout', {'layouts': {'2': {'out': [0]}}}, 'output, input, kernel'),
    ],
)
def test_a_wrong_candidate_is_named(kind, candidate, word):
    good = {'tile': {'output_bounds': [1]}, 'layout': {'layouts': {'2': {}}}}[kind]
    _refused(hlo_modules.tuning(), [good, candidate], kind, 'number 1: ', word)


def _refused(tuning, given, kind, *words):
    make = lambda: candidates.make_tuning_data(tuning, given, kind)
    refusals.assert_refused(make, '--candidates: ', *words)


def test_files_of_candidates(tmp_path):
    path = tmp_path / 'c.json'
    path.write_text(json.dumps([{'output_bounds': [1]}]))
    [only] = candidates.read(str(path))
    assert only == {'output_bounds': [1]}
    _refused(hlo_modules.tuning(), [only], 'tile', '1 configuration')
    path.write_text('{}')
    refusals.assert_refused(lambda: candidates.read(str(path)), str(path))


def test_candidates_have_the_bounds_of_the_module_s_runs():
    runs = [hlo_modules.tile_run(1, output_bounds=[8, 128])] * 2
    tuning = hlo_modules.tuning(runs=runs)
    good = {'output_bounds': [16, 128]}
    assert len(candidates.make_tuning_data(tuning, [good, good], 'tile').runs) == 2
    for bad, *words in (
        ({'output_bounds': [16]}, 'output_bounds has 1 bound', '2'),
        ({**good, 'kernel_bounds': [4]}, 'kernel_bounds has 1 bound', '0'),
    ):
        _refused(tuning, [good, bad], 'tile', 'number 1: ', *words)
