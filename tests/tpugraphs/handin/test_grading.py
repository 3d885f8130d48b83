"""`tpugraphs check` with a trained run: what the course's script makes of both."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import types

import numpy as np
import pytest

from baselines.training import run_training
from tests.faults import calls
from tests.helpers import elsewhere
from tests.helpers import finished_runs
from tests.helpers import places
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs import commands
from tpugraphs.handin import conformance
from tpugraphs.handin import grading
from tpugraphs.handin import published_script

pytestmark = pytest.mark.slow

_MODELS = places.ROOT / 'baselines' / 'tiles' / 'models.py'
_NAME = 'EarlyJoinSAGE'


@pytest.fixture(scope='module', name='trained')
def _trained(tmp_path_factory):
    """The model directory of a short training; one test kernel has no edges."""
    root = tmp_path_factory.mktemp('tile')
    tile_records.write_splits(root / 'data', 6)
    rng = np.random.default_rng(7)
    one = tile_records.make_record(rng, 'single', nodes=1, configs=3, is_test=True)
    tile_records.write_split(root / 'data' / 'test', [one])
    options = '{"num_gnns": 1, "hidden_dim": 16, "op_embed_dim": 4}'
    settings = tile_runs.settings(
        root, model=_NAME, model_kwargs_json=options, epochs=1, lr=0.01, batch=3
    )
    return pathlib.Path(run_training.train(settings))


@pytest.fixture(scope='module', name='variables')
def _variables(trained):
    return conformance.load_as_a_grader(str(trained))


@pytest.fixture(name='check')
def _check(trained, variables, tmp_path, monkeypatch, capsys):
    """Checks a copy of the run; its models are tried by other tests."""
    monkeypatch.setattr(conformance, 'check', lambda *unused: iter(()))
    monkeypatch.setattr(conformance, 'load_as_a_grader', lambda unused: variables)

    def check(*words, models='', info=lambda info: None):
        """Returns the exit code and the lines, or those of an error."""
        model_dir = tmp_path / trained.name
        if not model_dir.exists():
            shutil.copytree(trained, model_dir)
        changed = finished_runs.read_info(trained)
        info(changed)
        finished_runs.write_info(model_dir, changed)
        path = tmp_path / 'models.py'
        path.write_text(_MODELS.read_text(encoding='utf-8') + models)
        code = commands.run('check', [str(path), '--dir', str(model_dir), *words])
        printed = capsys.readouterr()
        return code, (printed.out or printed.err).splitlines()

    return check


def _as_published(info):
    """What a run file of the published code holds, ten choices of each kernel."""
    for key in ('normalizer', 'num_ops', 'digest'):
        del info[key]
    rows = info['test_predictions'].items()
    info['test_predictions'] = {
        row_id.rpartition(':')[2]: [*best, *([0] * 10)][:10] for row_id, best in rows
    }


def _with(**args):
    """Returns a function that changes settings of a run file."""
    return lambda info: info['args'].update(args)


def _interrupted(info):
    """As after a training that could be fitted, and not measured."""
    info['final_error'] = {}
    del info['test_predictions']


_EDGELESS = f"""
class {_NAME}({_NAME}):
    def forward(self, graph, *args, **kwargs):
        tf.debugging.assert_positive(graph.edge_sets['feed'].sizes)
        return super().forward(graph, *args, **kwargs)
"""
_REVERSED = f"""
class {_NAME}({_NAME}):
    def forward(self, graph, *args, **kwargs):
        return -super().forward(graph, *args, **kwargs)
"""


_needs_published_environment = pytest.mark.skipif(
    not all(map(importlib.util.find_spec, ('pandas', 'tensorflow_ranking'))),
    reason='the published code needs pandas and tensorflow_ranking',
)


@pytest.mark.parametrize(
    'said, rules',
    [
        ('', {}),
        ('', {'info': _as_published}),
        ('', {'info': _interrupted}),
        ('--sample_data', {'info': _with(sample_data=True)}),
        ('--toy_data', {'info': _with(toy_data=True)}),
        ('', {'info': _with(toy_data=True), 'words': ['--toy_data']}),
        ('--trees', {'info': _with(trees=True)}),
        ('--model=Trees', {'info': _with(model='Trees')}),
        ("'Gone'", {'info': _with(model='Gone')}),
        ('7 of 7 differ', {'models': _REVERSED}),
        ('kernel single: InvalidArgumentError', {'models': _EDGELESS}),
        ('trainable variables, and', {'info': _with(model_kwargs_json='{}')}),
    ],
)
def test_hand_ins(check, trained, said, rules):
    words = rules.pop('words', [])
    code, lines = check(f'--data_root={trained.parents[1] / "data"}', *words, **rules)
    fixes = [line for line in lines if line.startswith('FIX')]
    assert code == bool(said) == len(fixes), lines
    assert said in ''.join(fixes)
    assert lines[-1].startswith('verdict: ' + ('1 point' if said else 'hand in'))
    if not said:
        assert 'ranks the test kernels: 7' in lines[-3]
        assert 'ranks as the training did' in lines[-2]
        assert ('no ranking' in lines[-2]) == ('_interrupted' in str(rules))


@pytest.fixture(name='forked')
def _forked(monkeypatch):
    """Has the script run in forks of a process that has imported TensorFlow."""

    def run(words, cwd, **unused):
        code, out, err = calls.run(cwd, words[1:])
        return subprocess.CompletedProcess(words, code, out, err)

    monkeypatch.setattr(published_script.subprocess, 'run', run)


@_needs_published_environment
def test_kernels_that_only_the_script_scales_by(check, trained, tmp_path, request):
    """Those of the training split with fewer than --configs configurations."""
    shutil.copytree(trained.parents[1] / 'data', tmp_path / 'data')
    rng = np.random.default_rng(2)
    small = tile_records.make_record(rng, 'small', configs=9)
    small.node_feat[:] *= 10
    small.node_opcode[:] = 1
    tile_records.write_split(tmp_path / 'data' / 'train', [small])
    words = f'--data_root={tmp_path / "data"}', f'--published={tmp_path / "tree"}'
    code, lines = check(words[0])
    assert code == 0 and re.search('otherwise for [1-7],', lines[-2])
    elsewhere.write_published_tree(tmp_path / 'tree')
    code, lines = check(*words)
    assert (code, len(lines)) == (0, 2)
    assert '7 kernels, 0 of them otherwise' in lines[0]
    # Opcodes and columns of their own make a model of other sizes.
    small.node_opcode[:] = 250
    tile_records.write_split(tmp_path / 'data' / 'train', [small])
    request.getfixturevalue('forked')
    for given, cause in ((words[:1], 'is of shape'), (words, 'hape mismatch')):
        code, lines = check(*given)
        assert code == 1 and cause in lines[-2], lines


@_needs_published_environment
@pytest.mark.usefixtures('forked')
def test_the_published_code_has_what_this_package_lacks(check, trained, tmp_path):
    tree = elsewhere.write_published_tree(tmp_path / 'tree')
    data = f'--data_root={trained.parents[1] / "data"}'
    words = data, '--published', str(tree)
    theirs = '\nfrom tpu_graphs.baselines.tiles import metrics\n'
    code, lines = check(*words, models=theirs)
    assert code == 0 and 'metrics' in lines[0]
    code, lines = check(*words, models='\nimport baselines\n')
    assert code == 1 and 'ModuleNotFoundError' in lines[0]
    assert 'models.py, line' in lines[0]


@pytest.mark.parametrize(
    'named, words, rules',
    [
        ('--sample_data', [], {'info': _with(sample_data=True)}),
        ('models.py', ['--published=nowhere'], {}),
        ('--script', [f'--script={places.ROOT / grading.SCRIPT}'], {}),
        ('nowhere.py', ['--script=nowhere.py'], {}),
        ('no_such_library', [], {}),
    ],
)
def test_what_the_published_code_cannot_be_asked(
    check, tmp_path, monkeypatch, named, words, rules
):
    tree = elsewhere.write_published_tree(tmp_path / 'tree')
    if named == 'no_such_library':
        monkeypatch.setattr(published_script, '_LIBRARIES', (named,))
    code, lines = check(f'--published={tree}', *words, **rules)
    assert code == 1 and len(lines) == 1
    assert lines[0].startswith('error: --published') and named in lines[0]


def test_a_note_on_the_scripts_of_the_course(check, tmp_path, monkeypatch):
    package = types.SimpleNamespace(
        __file__=str(tmp_path / 'baselines' / '__init__.py')
    )
    monkeypatch.setattr(grading, 'baselines', package)
    shutil.copy(
        elsewhere.PUBLISHED_TREE / 'course_script.py', tmp_path / grading.SCRIPT
    )
    code, lines = check()
    assert code == 0 and lines[0].startswith(f'note {grading.SCRIPT}: ')
