"""Every form of a program x the commands that take programs."""

import functools
import importlib
import types

import pytest

from lab.tests.helpers import lab_commands
from lab.tests.helpers import program_forms
from tpugraphs_lab.kernels import preparation
from tpugraphs_lab.measure.clock import session
from tpugraphs_lab.programs import conversion
from tpugraphs_lab.programs import functions
from tpugraphs_lab.programs import isolated

# TensorFlow traces, or JAX is imported.
_SLOW = ('function', 'tf.', 'model', 'Model')


@pytest.fixture
def source(request, tmp_path):
    return program_forms.write(request.param, tmp_path)


def _call_here(function, arguments, data=b'', *unused_limits):
    """Stands for `isolated.call`, which has its own tests."""
    module, _, name = function.rpartition('.')
    return getattr(importlib.import_module(module), name)(*arguments, data)


@pytest.fixture
def _kernels_as_they_stand(monkeypatch, request):
    """XLA does not optimise: instructions are taken for kernels."""
    if 'jax' not in request.node.callspec.params['source']:  # TensorFlow runs anyway
        stand_in = types.SimpleNamespace(**{**vars(isolated), 'call': _call_here})
        monkeypatch.setattr(functions, 'isolated', stand_in)
    # Once each, not in a process for each command: jaxlib parses, TensorFlow traces.
    for module, name in ((conversion, 'module_of'), (functions, 'from_file')):
        monkeypatch.setattr(module, name, functools.lru_cache(getattr(module, name)))
    optimised = lambda program, _=None, seconds=0: preparation.prepare(program).module
    monkeypatch.setattr(preparation, 'optimise', optimised)
    monkeypatch.setattr(preparation.extras, 'has_jaxlib', lambda: True)


@pytest.mark.parametrize(
    'source',
    [
        pytest.param(form, marks=[pytest.mark.slow] * any(s in form for s in _SLOW))
        for form in program_forms.FORMS
    ],
    indirect=True,
    ids=lambda form: form.replace(' ', '_'),
)
def test_every_command_takes_it(
    source, tmp_path, monkeypatch, capsys, _kernels_as_they_stand
):
    assert lab_commands.run('show', [source]) == 0
    shown = capsys.readouterr().out
    if '(tile)' not in shown:  # of tuning data: the kernels as ever
        # 64 rows, 96 columns, and 128 products for each.
        assert '786,432 multiply-adds' in shown
        assert 'f32[64,96]' in shown and '100.0 %' in shown
        assert 'parameters      2: f32[64,128], f32[128,96]' in shown
    assert lab_commands.run('rank', [source, '--dir', 'estimate', '--top', '2']) == 0
    ranked = capsys.readouterr().out
    own = 'output ' in ranked and "XLA's own choice: place " in ranked
    assert own or 'slowdown' in ranked
    _check_measuring(source, tmp_path, monkeypatch, capsys)


def _check_measuring(source, tmp_path, monkeypatch, capsys):
    """Collects up to where the program is ready to be compiled."""
    read = []

    def optimise(program, session):
        read.append(program.module)
        raise ValueError('read')

    monkeypatch.setattr(preparation, 'optimise', optimise)
    monkeypatch.setattr(session.Session, '__enter__', lambda self: self)
    monkeypatch.setattr(session.Session, '__exit__', lambda self, *_: None)
    assert lab_commands.run('collect', [source, str(tmp_path / 'out')]) == 1
    assert 'read' in capsys.readouterr().err
    [module] = read
    instructions = [i for c in module.computations for i in c.instructions]
    assert {'tanh', 'dot'} <= {i.opcode for i in instructions}
    assert not any(i.backend_config for i in instructions)


@pytest.mark.slow  # starts XLA
@pytest.mark.parametrize('source', ['HLO text'], indirect=True)
def test_kernels_are_those_of_xla(source, capsys):
    assert lab_commands.run('show', [source]) == 0
    printed = capsys.readouterr().out
    assert "kernels         2, as XLA's CPU compiler makes them" in printed
    assert lab_commands.run('rank', [source, '--dir', 'estimate']) == 0
    # tanh and the dot, each with up to 200 candidates.
    assert '2 modules with ' in capsys.readouterr().out
