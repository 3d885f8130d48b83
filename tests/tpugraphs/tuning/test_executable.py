"""Tuned programs as folders and as functions."""

import json
import os
import types

import numpy as np
import pytest

from tests.helpers import measured_programs
import tpugraphs
from tpugraphs.kernels import building
from tpugraphs.tuning import executable
from tpugraphs.tuning import signatures


def saved(folder, **about):
    """Writes the negative of an array, called with a dict and returning a list."""
    module = measured_programs.pointwise(2, 3)
    signature = signatures.Signature([{'dict': [['x', 0]]}], {'list': [0]})
    made = executable.Executable(module, signature, about=about)
    return made.save(str(folder))


def test_a_program_is_saved_loaded_and_called(tmp_path):
    pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    folder = saved(tmp_path / 'out', name='negate', program={'speedup': 1.5})
    program = tpugraphs.load_program(folder)
    assert repr(program) == '<negate(f32[2,3]): 1.50 x the speed>'
    assert program.about['program'] == {'speedup': 1.5}
    x = np.arange(6).reshape(2, 3) / 2  # float64 is cast as NumPy does
    for function in (program, program.original):
        [result] = function({'x': x})
        assert result.dtype == np.float32 and (result == -x).all()
    with pytest.raises(ValueError, match=r'argument 0 is float64\[3, 2\]; float32\[2,'):
        program({'x': x.T})
    with pytest.raises(ValueError, match='argument 0 is complex128'):
        program({'x': x * 1j})


def test_what_is_bound_is_kept(tmp_path):
    pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    module = building.Module('program')
    entry = module.computation('entry')
    x, y = (entry.parameter(building.shape_of('f32', [3])) for _ in range(2))
    entry.add('subtract', x.shape, [x, y])
    signature = signatures.Signature([0], 0, [np.array([1, 2, 3], np.float32)])
    made = executable.Executable(module.finish(entry), signature)
    folder = made.save(tmp_path / 'out')
    again = tpugraphs.load_program(folder)
    assert again([5, 5, 5]).tolist() == made([5, 5, 5]).tolist() == [4, 3, 2]
    # An array less or more would give an argument's place to another.
    about = tmp_path / 'out' / 'program.json'
    for bound, arrays in (
        (2, [np.ones(3)]),
        (1, [np.ones(3)] * 2),
        (1, [np.ones((3, 1))]),
    ):
        np.savez(tmp_path / 'out' / 'bound.npz', *arrays)
        about.write_text(json.dumps({**json.loads(about.read_text()), 'bound': bound}))
        with pytest.raises(ValueError, match='bound.npz has . arrays? of other shapes'):
            tpugraphs.load_program(folder)


@pytest.mark.parametrize(
    'kind, fits, beyond',
    [
        ('s32', 2**31 - 1, 2**31),
        ('s8', -128, -129),
        ('u8', np.uint64(255), np.uint64(256)),
        ('f32', 1e38, 1e39),
        ('f16', np.float32(-65504), np.float32(-1e5)),
    ],
)
def test_a_value_beyond_the_type_is_refused(kind, fits, beyond):
    pytest.importorskip('jaxlib', reason='jaxlib is not installed ([measure])')
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of(kind, [2]))
    entry.add('add', x.shape, [x, x])
    program = executable.Executable(module.finish(entry))
    program([0, fits] if kind[0] == 's' else np.array([0, fits], type(fits)))
    with pytest.raises(ValueError, match=r'argument 0 has the value .* too large for'):
        program([0, beyond] if kind[0] == 's' else np.array([0, beyond], type(beyond)))


@pytest.mark.parametrize(
    'edit, message',
    [
        ({'format': 2}, 'program.json: format 2, and this version reads 1'),
        ({'platform': 'abacus'}, "program.json: platform is 'abacus'"),
        ({'outputs': {'list': []}}, 'does not fit program.hlo.pb: no tree of 1 arr'),
        ({'bound': 1}, 'bound.npz'),
        ({'bound': 2}, 'program.json: does not fit program.hlo.pb: bound is 2'),
        ({'program': {'speedup': 10**400}}, 'program.json: name or program.speedup is'),
        (
            {'name': '\x1b[2J'},
            'program.json: name or program.speedup is of a wrong type',
        ),
    ],
)
def test_edited_by_a_stranger(edit, message, tmp_path):
    folder = saved(tmp_path / 'out')
    path = tmp_path / 'out' / 'program.json'
    path.write_text(json.dumps({**json.loads(path.read_text()), **edit}))
    with pytest.raises((ValueError, FileNotFoundError), match=message) as caught:
        tpugraphs.load_program(folder)
    assert '\n' not in str(caught.value)


def test_untrusted_files(tmp_path):
    folder = saved(tmp_path / 'out')
    for content in (b'', b'[1]', b'[' * 9999, b'{"format": 1'):
        (tmp_path / 'out' / 'program.json').write_bytes(content)
        with pytest.raises(ValueError, match='program.json: `tpugraphs tune` did'):
            tpugraphs.load_program(folder)
    saved(tmp_path / 'out')
    program = tmp_path / 'out' / 'program.hlo.pb'
    huge = measured_programs.pointwise(1 << 40)
    program.write_bytes(huge.SerializeToString())
    with pytest.raises(ValueError, match='is an array of 4,096 GiB, and this machine'):
        tpugraphs.load_program(folder)
    other = measured_programs.pointwise(4, 3)
    program.write_bytes(other.SerializeToString())
    with pytest.raises(ValueError, match='differ in parameters or results'):
        tpugraphs.load_program(folder)
    root = other.computations[0].instructions[-1]
    root.opcode, root.custom_call_target = 'custom-call', 'puts'
    program.write_bytes(other.SerializeToString())
    with pytest.raises(ValueError, match="cannot run here: 1 custom call of 'puts'"):
        tpugraphs.load_program(folder)
    with pytest.raises(FileNotFoundError, match='nowhere'):
        tpugraphs.load_program(tmp_path / 'nowhere')


def test_a_module_is_no_larger_than_what_is_read(tmp_path):
    folder = saved(tmp_path / 'out')
    os.truncate(tmp_path / 'out' / executable.PROGRAM, (1 << 30) + 1)  # no real space
    with pytest.raises(ValueError, match='hlo.pb: 1,073,741,825 bytes are more'):
        tpugraphs.load_program(folder)
    large = types.SimpleNamespace(ByteSize=lambda: (1 << 30) + 1)
    message = 'mine: 1,073,741,825 bytes of HLO are more than the 1,073,741,824 that'
    with pytest.raises(ValueError, match=message):
        executable.check_size(large, 'mine')
