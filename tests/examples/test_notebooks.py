"""The notebooks in examples/ run from top to bottom, on a few small kernels."""

import json
import re
import runpy

import matplotlib
from matplotlib import pyplot as plt
import pytest

from baselines.tiles import models
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tiny_models

_NOTEBOOKS = sorted(places.ROOT.glob('examples/*.ipynb'))
_SMALL = {'epochs': '1', 'seeds': '(0,)'}


def _cells(path):
    return json.loads(path.read_text(encoding='utf-8'))['cells']


def test_outputs_are_those_of_one_run_without_a_warning():
    """Of the first look, whose text says what to see in them; others have none."""
    for path in _NOTEBOOKS:
        code = [cell for cell in _cells(path) if cell['cell_type'] == 'code']
        counts = [cell['execution_count'] for cell in code]
        outputs = [output for cell in code for output in cell['outputs']]
        if path.stem != 'first_look':
            assert not outputs and not any(counts)
            continue
        assert counts == [*range(1, len(code) + 1)]
        assert all(output.get('name') != 'stderr' for output in outputs)
        assert {output['output_type'] for output in outputs} <= {
            *('stream', 'display_data', 'execute_result')
        }
        assert '/root' not in json.dumps(outputs) and path.stat().st_size < 200_000


@pytest.fixture(name='data', scope='module')
def _data(tmp_path_factory):
    root = tmp_path_factory.mktemp('notebooks') / 'data'
    tile_records.write_splits(root, 14)
    return root


@pytest.mark.slow
@pytest.mark.parametrize('path', _NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_run(path, data, tmp_path, monkeypatch, capsys, weights_alone):
    """As one script, in this process: TensorFlow is imported once."""
    monkeypatch.setenv('HOME', str(tmp_path))
    # Models of these names that are compiled in a moment.
    for name in ('EarlyJoinSAGE', 'LateJoinResSAGE', 'MLP'):
        fields = {'__module__': models.__name__}
        tiny = type(name, (tiny_models.Tiny,), fields)
        monkeypatch.setattr(models, name, tiny, raising=False)
    small = {**_SMALL, 'data': repr(str(data)), 'out_dir': repr(str(tmp_path / 'out'))}
    script = tmp_path / 'notebook.py'
    with open(script, 'w', encoding='utf-8') as stream:
        for cell in _cells(path):
            source = ''.join(cell['source']) if cell['cell_type'] == 'code' else ''
            if 'parameters' in cell['metadata'].get('tags', ()):
                for name, value in small.items():
                    source = re.sub(rf'(?m)^{name} = .*$', f'{name} = {value}', source)
            print(source, file=stream)
    with matplotlib.rc_context():
        plt.switch_backend('agg')
        runpy.run_path(str(script))
        plt.close('all')
    assert '0.' in capsys.readouterr().out


def test_the_example_model_and_the_notebook_show_the_same_code():
    source = (places.ROOT / 'examples' / 'my_model.py').read_text(encoding='utf-8')
    [notebook] = [path for path in _NOTEBOOKS if path.stem == 'own_model']
    code = '\n'.join(''.join(c['source']) for c in _cells(notebook))
    for part in ('class MyModel', 'def forward', 'def my_loss'):
        block = source[source.index(part) :].split('\n\n')[0].rstrip()
        assert block in code, part
