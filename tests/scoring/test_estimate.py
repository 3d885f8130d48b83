"""`--dir estimate`: a ranking without a run, derived by hand."""

import dataclasses
import json
import types

import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import schema
from baselines.layout import estimate as layout_estimate
from baselines.layout import task as layout
from baselines.runs import finding
from baselines.scoring import measuring
from baselines.scoring import prediction
from baselines.scoring import scorer as scorer_lib
from baselines.tasks import lookup
from tests.helpers import hlo_kernels
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers.refusals import assert_refused
import tpugraphs
from tpugraphs import commands

_REAL = places.SHARED / 'real/npz/layout'


def test_tiles_are_ranked_by_estimated_time():
    # 16 x 256 numbers and as many: in four tiles of a register, and whole.
    configs = hlo_kernels.configs(([1, 1], []), ([2, 2], []))
    record = hlo_kernels.addition([16, 256], configs)
    scores = prediction.load('estimate', prediction.Options()).score_record(record)
    # Two arrays read and one written at 450 bytes/ns, and 250 ns for each tile.
    moved = 3 * 16 * 256 * 4 / 450
    np.testing.assert_allclose(np.exp(scores), [moved + 1000, moved + 250], rtol=1e-5)
    run = tpugraphs.load('estimate')
    assert repr(run) == '<Run estimate on tile:xla, untrained>'
    [ranked] = run.rank(record)
    assert ranked.order.tolist() == [1, 0]
    wide = np.pad(record.node_feat, [(0, 0), (0, 1)])
    wide = dataclasses.replace(record, node_feat=wide)
    assert_refused(lambda: run.rank(wide), ' 141 ', ' 140 ')


def test_the_formula_ranks_programs_that_are_unlike_the_training(capsys):
    # 4 x 8 x 200 + 4 x 200 x 16 multiply-adds; with one row instead of four, 4,800.
    large = layout_files.two_dots()
    features = large.node_feat.copy()
    features[[0, 2, 3], schema.DIMENSIONS.start] = 1
    small = dataclasses.replace(large, graph_id='small', node_feat=features)
    names = ('large', 'small', 'larger')
    records = [dataclasses.replace(large, graph_id=name) for name in names]
    records[1] = small
    store = layout_store.LayoutStore.from_records('here', records)
    learned = np.arange(4.0)
    models = scorer_lib.Scorer(
        lookup.TASKS['layout'],
        splits.Variant.from_store(store),
        types.SimpleNamespace(scores=lambda graphs, chosen: [learned] * len(chosen)),
        most_multiply_adds=480.1,
    )
    formula = list(models.task.estimates(store))
    expected = [formula[0], learned, formula[2]]
    found = [scores for [scores] in models.members(store, None)]
    np.testing.assert_array_equal(found, expected)
    last = models.members(store, None, np.array([1, 2]))
    np.testing.assert_array_equal([scores for [scores] in last], expected[1:])
    said = capsys.readouterr().err
    assert 'note: large and 1 more: over 10 times the multiply-adds of any' in said
    like = dataclasses.replace(models, most_multiply_adds=1920.1)
    assert [scores.tolist() for [scores] in like.members(store, None)] == [
        learned.tolist()
    ] * 3
    assert not capsys.readouterr().err


def test_layouts_are_ranked_by_padded_work(monkeypatch):
    record = layout_files.two_dots()
    # As in `test_layout_table`: a third of the work is padded 1.28 * 8 or 32 times,
    # and two thirds 64 times, whatever the configuration.
    expected = np.array([1.28 * 8, 32, 32, 1.28 * 8]) / 3 + 64 * 2 / 3
    run = tpugraphs.load('estimate', collection='layout:nlp:default')
    np.testing.assert_allclose(run.ranker()(record), expected, rtol=1e-5)
    monkeypatch.setattr('baselines.layout.layout_table.PAIRS', 1)  # one at a time
    store = layout_store.LayoutStore.from_records('here', [record])
    np.testing.assert_allclose(layout_estimate.estimate(store, 0), expected, rtol=1e-5)


def test_models_may_begin_with_the_formula():
    store = layout_store.LayoutStore.from_records('here', [layout_files.two_dots()])
    normalizer = normalizer_lib.Normalizer.fit(store)
    [plain] = layout.Layout().graphs(store, normalizer, False, False)
    assert plain.prior is None
    [program] = layout.Layout().graphs(store, normalizer, False, True)
    # Of four, two share rank 1.5 and two 3.5: normal scores of 1/4 and 3/4.
    scores = program.prior[program.group]
    assert scores[1] > 0
    np.testing.assert_allclose(scores / scores[1], [-1, 1, 1, -1], atol=1e-6)


def test_predict_and_evaluate(tmp_path, capsys):
    tile_records.write_splits(tmp_path / 'data')
    data = [f'--data_root={tmp_path}/data', f'--cache_dir={tmp_path}/cache']
    output = tmp_path / 'out.csv'
    words = ['--dir', 'estimate', *data]
    assert commands.run('predict', [*words, f'--output={output}']) == 0
    assert output.read_text().startswith('ID,TopConfigs\ntile:xla:')
    capsys.readouterr()
    assert commands.run('evaluate', words) == 0
    printed = capsys.readouterr().out
    assert printed.startswith('estimate on valid of tile:xla: ')
    assert 'estimate, untrained' not in printed  # it is not listed twice
    for command, wrong, word in (
        ('predict', [*words, '--runner=DirectRunner'], '--runner'),
        ('predict', ['--dir', 'estimate', '--collection=layout:xla:rand'], ":rand'"),
        ('ensemble', ['estimate', 'latest'], "'estimate'"),
    ):
        assert commands.run(command, wrong) == 1
        error = capsys.readouterr().err
        assert word in error and error.count('\n') == 1


def test_a_run_has_a_collection_of_its_own(tmp_path):
    model_dir = made_runs.make_layout_run(tmp_path)
    run = finding.load(model_dir)
    assert run.collection.select_part('', run.model_dir).name == 'layout:xla:random'
    load = lambda: tpugraphs.load(model_dir, collection='tile:xla')
    assert_refused(load, '--collection=tile:xla', model_dir, 'layout:xla:random')


def test_a_run_of_that_name_has_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model_dir = tmp_path / 'estimate/model_1'
    model_dir.mkdir(parents=True)
    (tmp_path / 'estimate/run_1.jsonz').touch()
    assert finding.find('./estimate') == [str(model_dir)]
    assert_refused(lambda: finding.find('estimate'), './estimate')


@pytest.mark.parametrize(
    'search, split, tau', [('default', 'train', 0.389), ('random', 'valid', 0.790)]
)
def test_tau_on_real_programs(search, split, tau, tmp_path):
    if not _REAL.is_dir():
        pytest.skip(f'no real programs: {_REAL} is missing')
    options = prediction.Options(
        str(_REAL), str(tmp_path), collection=f'layout:xla:{search}'
    )
    predictor = prediction.load('estimate', options)
    summary, _ = measuring.measure(predictor, split)
    json.dumps(summary, allow_nan=False)
    assert summary['overall']['kendall_tau']['mean'] == pytest.approx(tau, abs=5e-4)
