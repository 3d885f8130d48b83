"""The run that ships."""

import json
import os

import numpy as np
import pytest

from baselines.data import shipped
from baselines.hlo import graph
from baselines.runs import finding
from baselines.scoring import prediction
from lab.benchmarks import judging
from lab.tests.helpers import lab_commands
from tests.helpers import places
from tests.helpers import processes
from tests.helpers import tile_records
import tpugraphs
from tpugraphs_lab import pretrained_run

_KERNELS = places.ROOT / 'examples/kernels.pb'


def test_it_ranks_as_when_it_was_made(tmp_path):
    with open(os.path.join(pretrained_run.folder(), 'about.json')) as stream:
        expected = json.load(stream)['scores']
    archive = judging.path_of('by_others_real')
    root = shipped.find_folder(archive, str(tmp_path))
    options = prediction.Options(data_root=root, cache_dir=str(tmp_path / 'cache'))
    predictor = prediction.load(finding.PRETRAINED, options)
    store = predictor.open_split('test')
    scores = dict(zip(store.graph_ids, predictor.score(store)))
    assert len(expected) == 3
    for name, row in expected.items():
        # about.json has six digits behind the point.
        np.testing.assert_allclose(scores[name], row, atol=1e-6)


def test_programs_are_extracted_with_what_a_model_reads(monkeypatch):
    extracted = []
    extract_graph = graph.extract_graph

    def spy(module, pad, extra):
        extracted.append(extra)
        return extract_graph(module, pad, extra)

    monkeypatch.setattr(graph, 'extract_graph', spy)
    for run, reads_extra in ((finding.PRETRAINED, True), ('estimate', False)):
        assert processes.command('rank', _KERNELS, '--dir', run, '--top', 1) == 0
        assert extracted == [reads_extra] * 4  # modules in the file
        extracted.clear()


def test_it_ranks_where_no_run_is_named(capsys):
    assert lab_commands.run('rank', [_KERNELS, '--top', 1]) == 0
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f'note: {pretrained_run.describe()}'
    assert 'kernels of unseen programs its first choice saves' in first
    ranked = tpugraphs.load('pretrained').rank(str(_KERNELS))
    assert len(ranked) == 4


def test_commands_take_its_name(tmp_path, capsys):
    tile_records.write_splits(tmp_path / 'data')
    data = '--data_root', tmp_path / 'data', '--cache_dir', tmp_path / 'cache'
    csv = tmp_path / 'ranked.csv'
    assert processes.command('evaluate', '--dir', 'pretrained', *data) == 0
    words = '--dir', 'pretrained', '--output', csv
    assert processes.command('predict', *words, *data) == 0
    assert csv.read_text().startswith('ID,TopConfigs\n')
    assert processes.command('export', 'pretrained', tmp_path / 'exported') == 0
    assert (tmp_path / 'exported' / 'trees.txt').exists()
    assert 'Trees' in capsys.readouterr().out


@pytest.mark.parametrize('content', [b'[]', b'{"model": 1}', None])
def test_a_damaged_installation_says_to_install_again(content, tmp_path, monkeypatch):
    monkeypatch.setattr(pretrained_run, 'folder', lambda: str(tmp_path))
    if content is not None:
        (tmp_path / 'about.json').write_bytes(content)
    message = f'{tmp_path}/about.json: damaged; install tpugraphs-lab again'
    with pytest.raises(ValueError, match=message):
        pretrained_run.describe()
    with pytest.raises(ValueError, match=f'no runs .*{tmp_path}'):
        finding.find(finding.PRETRAINED)
