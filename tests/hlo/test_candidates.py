"""Candidates of a compiler, as JSON."""

import json

import pytest

from baselines.hlo import candidates
from baselines.hlo import config_text
from baselines.hlo import layout_configs
from tests.helpers import hlo_modules
from tests.helpers import refusals


def test_tiles_come_back_as_they_went_in():
    given = [
        {'output_bounds': [8, 128], 'kernel_bounds': [256], 'rank': 3},
        {'input_bounds': [4], 'is_default': True},
    ]
    tuning = candidates.tuning_data(hlo_modules.tuning(runs=[]), given, 'tile')
    assert tuning.fingerprint == 0xAB and tuning.module.name == 'fusion.1'
    assert [run.is_default for run in tuning.runs] == [False, True]
    assert config_text.tile_json(tuning.runs[0]) == {
        'output_bounds': [8, 128],
        'kernel_bounds': [256],
        'input_bounds': [],
    }


def test_layouts_come_back_as_they_went_in():
    given = [
        {'layouts': {'2': {'output': [1, 0]}, '0': {'output': [0], 'input': []}}},
        {'layouts': {'0': {}, '2': {'output': [0, 1]}}},
    ]
    tuning = candidates.tuning_data(hlo_modules.tuning(), given, 'layout')
    assert list(tuning.config_index_to_node) == [0, 2]
    assert [config_text.layout_json(run, [0, 2]) for run in tuning.runs] == given
    assert layout_configs.extract_configs(tuning, 3, False).node_config_feat.shape == (
        2,
        2,
        18,
    )


@pytest.mark.parametrize(
    'kind, candidate, message',
    [
        ('tile', [8, 128], 'number 1: it should be an object'),
        ('tile', {}, 'number 1: it has none of kernel_bounds, output_bounds, input_'),
        ('tile', {'output_bounds': 8}, 'should be a list of whole numbers, not 8'),
        ('tile', {'output_bounds': [-1]}, 'list of whole numbers, not [-1]'),
        ('tile', {'output_bounds': [True]}, 'list of whole numbers, not [True]'),
        ('tile', {'output_bounds': [2**63]}, 'should be a list of whole numbers'),
        ('tile', {'output_bound': [8]}, "'output_bound'; did you mean 'output_bounds'"),
        ('tile', {'output_bounds': [8, 9]}, '2 bounds, and 1 in a candidate before it'),
        ('layout', {'layout': {}}, "no key 'layout'; did you mean 'layouts'?"),
        ('layout', {}, 'number 1: it has no "layouts"'),
        ('layout', {'layouts': {'1': {}}}, 'its nodes are not those of the first'),
        ('layout', {'layouts': {'2': {'input': [0]}}}, 'has the arrays before it, too'),
        ('layout', {'layouts': {'2': {'out': [0]}}}, 'output, input, kernel alone'),
    ],
)
def test_a_wrong_candidate_is_named(kind, candidate, message):
    good = {'tile': {'output_bounds': [1]}, 'layout': {'layouts': {'2': {}}}}[kind]
    refusals.assert_refused(
        lambda: candidates.tuning_data(hlo_modules.tuning(), [good, candidate], kind),
        message,
    )


def test_candidates_have_the_bounds_of_the_module_s_runs():
    runs = [hlo_modules.tile_run(1, output_bounds=[8, 128])] * 2
    tuning = hlo_modules.tuning(runs=runs)
    good = {'output_bounds': [16, 128]}
    assert len(candidates.tuning_data(tuning, [good, good], 'tile').runs) == 2
    for bad, counts in (
        ({'output_bounds': [16]}, 'output_bounds has 1 bound, and 2'),
        ({**good, 'kernel_bounds': [4]}, 'kernel_bounds has 1 bound, and 0'),
    ):
        refusals.assert_refused(
            lambda bad=bad: candidates.tuning_data(tuning, [good, bad], 'tile'),
            f"--candidates: number 1: {counts} in the module's own runs: ",
        )


@pytest.mark.parametrize('number', ['0 configurations', '1 configuration'])
def test_there_has_to_be_a_choice(number):
    alone = [{'output_bounds': [1]}] * int(number[0])
    refusals.assert_refused(
        lambda: candidates.tuning_data(hlo_modules.tuning(), alone, 'tile'),
        f'--candidates: {number}, so there is nothing to choose',
    )


def test_files_of_candidates(tmp_path):
    path = tmp_path / 'c.json'
    path.write_text(json.dumps([{'output_bounds': [1]}]))
    assert candidates.read(str(path)) == [{'output_bounds': [1]}]
    for content, message in (('{', 'is not JSON'), ('{}', 'should be a list of')):
        path.write_text(content)
        refusals.assert_refused(lambda: candidates.read(str(path)), message)
