"""The form of a program is detected by its content, and the program is read."""

import pytest

from baselines.hlo import forms
from tests.helpers import places
from tpugraphs_lab.programs import conversion
from tpugraphs_lab.programs import xla

# The smallest inputs of kinds that public programs have.
_FOLDER = places.ROOT / 'lab/tests/data/programs'
_FILES = sorted(path.name for path in _FOLDER.iterdir())
_ENDINGS = {
    '.hlo': forms.HLO_TEXT,
    '.mlir': forms.MLIR_TEXT,
    '.bc': forms.MLIR_BYTECODE,
}
_REFUSED = {
    'cut_off.hlo': 'brackets are open',
    'two_functions.mlir': 'FILE:NAME',
    'vhlo_bytecode.mlir.bc': 'is VHLO',
}
_FUNCTION = """func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.tanh %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
_ATTRIBUTES = 'attributes {\n  jax.uses = 1 : i32\n} {\n'


@pytest.mark.parametrize('name', _FILES)
def test_files(name):
    content = (_FOLDER / name).read_bytes()
    form = _ENDINGS[(_FOLDER / name).suffix]
    assert forms.detect_form(content) == form
    if name in _REFUSED:
        with pytest.raises(ValueError, match=_REFUSED[name]):
            conversion.convert(form, 'm', '', content)
        return
    try:
        assert conversion.convert(form, 'm', '', content)[1]
    except ValueError as error:
        assert not xla.has_sdy() and 'jaxlib 0' in str(error)  # this jaxlib is old


@pytest.mark.parametrize(
    'text',
    [
        _FUNCTION,
        _FUNCTION.replace('@', 'public @'),
        f'module @m {_ATTRIBUTES}{_FUNCTION}}}',
        f'module @m\n  {_ATTRIBUTES}{_FUNCTION}}}',
        f'#loc = loc("f.py":1:2)\n// a comment\nmodule {{\n{_FUNCTION}}}',
        f'"builtin.module"() ({{\n{_FUNCTION}}}) : () -> ()',
    ],
)
def test_forms_of_mlir(text):
    assert forms.detect_form(text.encode()) == forms.MLIR_TEXT
    assert conversion.convert(forms.MLIR_TEXT, 'm', '', text.encode())[1]


@pytest.mark.parametrize('name', ['module.3', '%func.func', 'builtin.module.clone'])
def test_computations_with_names_of_mlir_are_hlo(name):
    text = f'{name} (p: f32[4]) -> f32[4] {{\n  ROOT p = f32[4] parameter(0)\n}}'
    assert forms.detect_form(text.encode()) == forms.HLO_TEXT
