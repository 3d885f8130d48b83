"""`tpugraphs rank`: raw file in, ranked configurations out.

Most models here have random weights: what matters is that the list follows the
scores that prediction gives.
"""

import csv
import dataclasses
import gzip
import json
import pathlib
import shutil

import numpy as np
import pytest

from baselines.core import arrays
from baselines.data.tile import store as tile_store
from baselines.evaluation import choices
from baselines.scoring import prediction
from tests.helpers import hlo_modules
from tests.helpers import made_runs
from tests.helpers import processes
from tests.helpers import shapes
from tests.helpers.hlo_modules import tile_file
from tpugraphs import commands


@pytest.fixture(scope='module')
def run_dir(tmp_path_factory):
    return made_runs.make_tile_run(tmp_path_factory.mktemp('run'))


def _rank(*words):
    return commands.run('rank', [str(word) for word in words])


def _write(path, data):
    path.write_bytes(data)
    return path


@pytest.fixture
def raw(tmp_path):
    return _write(tmp_path / 'raw.pb', tile_file(made_runs.FIRST, made_runs.SECOND))


def _scores(model_dir, modules, pad=0):
    """What prediction says of the same modules, in stored order."""
    predictor = prediction.load(model_dir, prediction.Options('x', 'x'))
    records = made_runs.kernel_records(modules, pad)
    store = tile_store.TileStore.from_records('here', records)
    return list(predictor.score(store))


def test_a_file_is_read_before_a_model(raw, tmp_path, monkeypatch, capsys):
    """A graph model takes ten seconds to load."""
    monkeypatch.delattr(prediction, 'load')
    bad = [_write(tmp_path / name, raw.read_bytes()[:-1]) for name in 'ab']
    assert _rank(*bad, '--dir', 'estimate') == 1
    error = capsys.readouterr().err
    assert error.count('\n') == 1 and str(bad[0]) in error and '1 other' in error


def test_programs_are_in_the_laboratory(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'f.hlo').write_text('HloModule m')
    (tmp_path / 'f.mlir').write_text('module {}')
    for name in ('f.py:step', 'f.hlo', 'f.mlir'):
        for command in ('rank', 'show'):
            assert commands.run(command, [name]) == 1
            [line] = capsys.readouterr().err.splitlines()
            assert name in line and line.endswith('pip install ./lab')
    for command, flag in (('rank', '--measure'), ('show', '--seconds')):
        with pytest.raises(SystemExit, match='2'):
            commands.run(command, ['f.pb', flag, '3'])
        [line] = capsys.readouterr().err.splitlines()
        assert flag in line and line.endswith('pip install ./lab')


def test_without_a_run_the_estimate_ranks(raw, tmp_path, capsys):
    """Runs of another task, and damaged ones, are left out."""
    for number, task in (('aaaa', 'source'), ('bbbb', '')):
        (tmp_path / f'model_{number}').mkdir()
        info = {'args': {'model': 'M', task: 'xla'}} if task else []
        content = gzip.compress(json.dumps(info).encode())
        (tmp_path / f'run_{number}.jsonz').write_bytes(content)
    assert _rank(raw, '--out_dir', tmp_path, '--top', '0') == 0
    assert capsys.readouterr().err.startswith('note: estimate')


@pytest.mark.slow
def test_the_latest_usable_run_ranks(raw, run_dir, tmp_path, capsys):
    folder = tmp_path / 'runs'
    shutil.copytree(pathlib.Path(run_dir).parent, folder)
    [run_file] = folder.glob('run_*')
    info = json.loads(gzip.decompress(run_file.read_bytes()))
    info['finished'] = '2999-01-01T00:00:00'
    # It reads columns of a distribution that is not installed.
    for end in ('min', 'max'):
        info['normalizer'][f'loop_{end}'] = [0.0]
    shutil.copytree(run_dir, folder / 'model_ffff')
    (folder / 'run_ffff.jsonz').write_bytes(gzip.compress(json.dumps(info).encode()))
    assert _rank(raw, '--out_dir', folder, '--top', '0') == 0
    first, second = capsys.readouterr().err.splitlines()[:2]
    assert 'model_ffff' in first and first.endswith('pip install ./lab')
    assert pathlib.Path(run_dir).name in second


@pytest.mark.slow
def test_the_table(raw, run_dir, capsys):
    assert _rank(raw, '--dir', run_dir) == 0
    scores = _scores(run_dir, [made_runs.FIRST])[0]
    times, bounds = [40, 10, 20], ['1x0', '2x8', '3x16']
    expected = [
        f'{rank} {i} {scores[i]:.4f} {times[i]} ns {times[i] / 10:.3f} '
        f'output -, kernel {bounds[i]}, input -{" (default)" * (i == 0)}'
        for rank, i in enumerate(arrays.order_by_score(scores), 1)
    ]
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == 'fusion_1_000000000000000a  3 nodes, 3 configurations'
    assert [' '.join(line.split()) for line in lines[2:5]] == expected
    first = times[arrays.order_by_score(scores)[0]]
    assert f' {first / 10:.3f} / 1.000 / 1.000 ' in lines[5]
    assert f' {first / 40:.3f} ' in lines[5]
    # 70/30 and 80/12/4 for a random choice, 40/10 and 5/4 for the default.
    summary = [line.split() for line in out.splitlines()[-5:]]
    assert summary[2][:3] == ['random', 'choice', f'{(7 / 3 + 5 / 3) / 2:.3f}']
    assert summary[3] == ["compiler's", 'default', '2.625']


def _listed(text):
    """The run numbers of the only module in a table."""
    lines = text.splitlines()
    end = next(i for i, line in enumerate(lines) if 'best of' in line)
    return [int(line.split()[1]) for line in lines[2:end]]


def test_ten_rows_and_the_default_or_as_many_as_asked_for(raw, capsys):
    assert _rank(raw, '--dir', 'estimate', '--module', 'copy.2') == 0
    text = capsys.readouterr().out
    assert 'copy_2' in text and 'fusion_1' not in text
    # The default stands last where it is not among the first.
    about = dict(
        module='m', source='', nodes=1, as_json=lambda run: {}, as_text=str, default=3
    )
    arrays = dict(run_index=np.arange(12), runtimes=np.arange(1, 13))
    scores = np.arange(12.0)[::-1]
    ranked = choices.RankedModule(scores=scores, **about, **arrays)
    order = list(range(11, -1, -1))
    assert _listed(choices.format_module(ranked, 10)) == order[:10]
    assert _listed(choices.format_module(ranked, 2)) == [11, 10, 3]
    assert _listed(choices.format_module(ranked, 50)) == order
    assert len(_listed(text)) in (10, 11)
    unsure = dataclasses.replace(ranked, agreement=0.75)
    line = choices.format_module(unsure, 2).splitlines()[-1]
    assert line.startswith('  unsure: ') and ' 75% ' in line


def test_csv_holds_every_configuration(raw, tmp_path, capsys):
    path = tmp_path / 'new' / 'out.csv'
    assert _rank(raw, '--dir', 'estimate', '--top=0', '--output', path) == 0
    assert f'written: {path}' in capsys.readouterr().out
    with open(path, encoding='utf-8', newline='') as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == 15
    scores, times = _scores('estimate', [made_runs.FIRST])[0], [40, 10, 20]
    ours = [row for row in rows if row['module'] == 'fusion_1_000000000000000a']
    order = arrays.order_by_score(scores).tolist()
    assert [int(row['run_index']) for row in ours] == order
    for rank, (i, row) in enumerate(zip(order, ours), 1):
        assert (row['source'], int(row['rank'])) == (str(raw), rank)
        assert float(row['score']) == pytest.approx(scores[i], abs=1e-5)
        assert int(row['runtime_ns']) == times[i]
        assert float(row['slowdown']) == times[i] / 10
        assert row['is_default'] == str(int(i == 0))
        assert row['config'] == f'output -, kernel {i + 1}x{8 * i}, input -'


def test_candidates_that_were_never_measured(tmp_path, capsys):
    module = hlo_modules.good_tile(times=[0, 0, 0])
    module.runs[1].error = True
    path = _write(tmp_path / 'raw.pb', tile_file(module))
    output = tmp_path / 'out.json'
    assert _rank(path, '--dir', 'estimate', '--output', output) == 0
    header = capsys.readouterr().out.splitlines()[1]
    assert header.split() == ['rank', 'run', 'score', 'configuration']
    found = json.loads(output.read_text())['modules'][0]
    assert found['figures'] is None
    for config in found['configurations']:
        assert config['runtime_ns'] is config['slowdown'] is None


@pytest.mark.slow
@pytest.mark.parametrize('changes', [{'pad': -1}, {'estimate': True}])
def test_features_are_extracted_as_the_model_was_trained(raw, tmp_path, changes):
    model_dir = made_runs.make_tile_run(tmp_path, **changes)
    output = tmp_path / 'out.json'
    assert _rank(raw, '--dir', model_dir, '--output', output) == 0
    modules = [made_runs.FIRST, made_runs.SECOND]
    expected = _scores(model_dir, modules, changes.get('pad', 0))
    for module, scores in zip(json.loads(output.read_text())['modules'], expected):
        configs = sorted(module['configurations'], key=lambda c: c['run_index'])
        np.testing.assert_allclose([c['score'] for c in configs], scores, atol=1e-5)
        assert len(set(scores)) > 2


def test_wrong_modules_are_named_and_others_ranked(raw, tmp_path, capsys):
    bad = hlo_modules.good_tile('bad.1')
    bad.module.computations[0].instructions[1].operand_ids[:] = [99]
    single = hlo_modules.good_tile('single.1', times=[5])
    path = _write(tmp_path / 'b.pb', tile_file(bad, single, made_runs.FIRST))
    layout = _write(tmp_path / 'c.pb', hlo_modules.good_layout().SerializeToString())
    garbage = _write(tmp_path / 'd.pb', b'no')
    assert _rank(path, layout, garbage, '--dir', 'estimate', '--top=0') == 1
    out, err = capsys.readouterr()
    assert '1 module with 3 configurations ranked' in out and "'single.1'" in out
    places = f"{path}: module 'bad.1': ", f'{layout}: ', f'{garbage}: '
    for line, place in zip(err.splitlines(), places, strict=True):
        assert line.startswith(f'error: {place}')


def test_mistakes_are_one_line(raw, tmp_path, capsys):
    module = _write(tmp_path / 'm.pb', made_runs.FIRST.module.SerializeToString())
    for words, value in [
        ((module,), '--candidates'),
        ((raw, '--output=x.txt'), '--output x.txt'),
        ((raw, '--top=-1'), '-1'),
        ((raw, '--module=fusion.2'), "'fusion.2'"),
        ((tmp_path / 'x.pb',), f'{tmp_path}/x.pb'),
    ]:
        assert _rank(*words, '--dir', 'estimate') == 1
        printed = capsys.readouterr()
        assert printed.out == '' and printed.err.count('\n') == 1
        assert printed.err.startswith('error: ') and value in printed.err


def test_layouts(tmp_path, capsys):
    model_dir = made_runs.make_layout_run(tmp_path)
    runs_of = [
        hlo_modules.layout_run([[[1, 0], [0, 1]]], 0),
        hlo_modules.layout_run([[[0, 1], [0, 1]]], 7, default=True),
        hlo_modules.layout_run([[[1, 0], []]], 9, error=True),
        hlo_modules.layout_run([[[0, 1], [1, 0]]], 5),
    ]
    module = hlo_modules.tuning(hlo_modules.chain('main.1'), runs_of, 0xCD, [2])
    path = _write(tmp_path / 'a.pb', module.SerializeToString())
    output = tmp_path / 'out.json'
    assert _rank(path, '--dir', model_dir, '--output', output) == 0
    (found,) = json.loads(output.read_text())['modules']
    assert found['module'] == 'main_1_00000000000000cd'
    keys = ('run_index', 'config', 'runtime_ns', 'is_default')
    assert sorted(tuple(c[k] for k in keys) for c in found['configurations']) == [
        (0, '2: output {1,0} input {0,1}', None, False),
        (1, 'as the default', 7, True),
        (3, '2: output {0,1} input {1,0}', 5, False),
    ]
    scores = [c['score'] for c in found['configurations']]
    assert scores == sorted(scores) and len(set(scores)) == 3
    assert found['figures']['default'] == 1.4


def test_json_for_a_compiler(raw, tmp_path, capsys):
    """Printed whole, and what is printed can be given back as candidates."""
    assert _rank(raw, '--dir', 'estimate', '--json', '--module', 'fusion.1') == 0
    captured = capsys.readouterr()
    assert captured.err == ''
    printed = shapes.check_shape('rank', captured.out)
    [module] = printed['modules']
    configs = module['configurations']
    assert (printed['model'], module['figures']['default']) == ('estimate', 4.0)
    in_order = sorted(configs, key=lambda c: c['run_index'])
    assert [c['kernel_bounds'] for c in in_order] == [[1, 0], [2, 8], [3, 16]]
    assert configs[0]['output_bounds'] == []
    candidates = _write(tmp_path / 'c.json', json.dumps(configs).encode())
    bare = _write(tmp_path / 'm.pb', made_runs.FIRST.module.SerializeToString())
    words = (bare, '--dir', 'estimate', '--candidates', candidates, '--json', '--top=2')
    assert _rank(*words) == 0
    [again] = json.loads(capsys.readouterr().out)['modules']
    scores = [c['score'] for c in configs[:2]]
    found = [c['score'] for c in again['configurations']]
    assert found == pytest.approx(scores, abs=1e-6)
    assert [c['run_index'] for c in again['configurations']] == [0, 1]


_MEMORY = """
import sys
from tpugraphs import commands
commands.run('rank', [sys.argv[1], '--dir', 'estimate', '--json', '--top', '1'])
# Of this program, and not of pytest before it.
print(open('/proc/self/status').read().split('VmHWM:')[1].split()[0], file=sys.stderr)
"""


@pytest.mark.slow
def test_100000_configurations_take_less_than_400_mb(tmp_path):
    runs = [
        hlo_modules.tile_run(output_bounds=[1 + n % 331, 1 + n // 331])
        for n in range(100_000)
    ]
    module = hlo_modules.tuning(runs=runs)
    raw = _write(tmp_path / 'many.pb', tile_file(module))
    done = processes.python('-c', _MEMORY, raw)
    assert json.loads(done.stdout)['summary']['configurations'] == 100_000
    assert int(done.stderr.split()[-1]) < 400 << 10
