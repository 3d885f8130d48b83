"""Tuning that ends early, and models that cannot propose."""

import time

import numpy as np
import pytest

from tests.helpers import made_runs
from tests.helpers import measured_programs
from tests.helpers import program_forms
import tpugraphs
from tpugraphs import commands
from tpugraphs.clock import machine
from tpugraphs.ranking import tile_scores
from tpugraphs.tuning import program_search

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


@pytest.fixture
def program(tmp_path):
    return measured_programs.write(tmp_path / 'mine.pb', measured_programs.product())


@pytest.mark.slow
def test_without_time_the_original_is_kept(program, tmp_path, capsys):
    words = ['--budget-minutes', '1e-9', '--output', str(tmp_path / 'out')]
    assert commands.run('tune', [program, *words]) == 0
    assert 'program: not measured: no time left' in capsys.readouterr().out
    written = [(tmp_path / 'out' / f'{n}.hlo.pb') for n in ('program', 'original')]
    assert written[0].read_bytes() == written[1].read_bytes()


@pytest.mark.slow
def test_an_endless_program_ends_with_the_budget(tmp_path, capsys):
    path = tmp_path / 'endless.hlo'
    path.write_text(measured_programs.ENDLESS)
    began = time.monotonic()
    words = [str(path), '--budget-minutes', '0.1', '--records', '']
    assert commands.run('tune', words) == 0
    assert time.monotonic() - began < 6 + 10
    printed = capsys.readouterr().out
    assert 'program: not measured: took more than ' in printed


@pytest.mark.slow
def test_of_an_optimised_program_the_kernels_alone_are_tuned(tmp_path, capsys):
    path = measured_programs.write(tmp_path / 'fused.pb', program_forms.fused(''))
    out = str(tmp_path / 'out')
    flags = ['--measure', '1', '--candidates', '2', '--output', out]
    assert commands.run('tune', [path, *flags]) == 0
    printed = capsys.readouterr().out
    assert 'program: not measured: it is optimised already; give it as' in printed
    assert f'written: {out}, its kernels in kernels/' in printed
    arrays = [np.ones(shape, np.float32) for shape in [(64, 128), (128, 96)]]
    with pytest.raises(ValueError, match='an optimised program cannot be run; tune'):
        tpugraphs.load_program(out)(*arrays)


@pytest.mark.parametrize(
    'flag, message',
    [
        ('--output', 'mine.pb cannot be written'),
        ('--records', 'mine.pb cannot be written'),
        ('--json', 'folder is a folder: name'),
    ],
)
def test_a_place_that_cannot_be_written_is_refused_first(
    flag, message, program, tmp_path, monkeypatch, capsys
):
    monkeypatch.delattr(program_search, 'tune')
    (tmp_path / 'folder').mkdir()
    folder = f'{tmp_path}/folder'
    place = {'--output': program, '--records': f'{program}/x', '--json': folder}[flag]
    assert commands.run('tune', [program, flag, place]) == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    'flags, printed',
    [
        (('--records', 'mine'), 'kept the configurations in mine; go on with: '),
        (('--records', 'mine', '--fresh'), ' in mine, for a call without --fresh; go '),
        (('--records', ''), 'interrupted\n'),
    ],
)
def test_ctrl_c_says_what_is_kept(
    flags, printed, program, tmp_path, monkeypatch, capsys
):
    def interrupted(session):
        raise KeyboardInterrupt

    monkeypatch.setattr(program_search.session_lib.Session, '__enter__', interrupted)
    monkeypatch.chdir(tmp_path)
    assert commands.run('tune', [program, *flags]) == 130
    assert printed in capsys.readouterr().err


def test_a_model_of_other_hardware_is_a_warning():
    here = machine.describe(-1)['cpu']
    assert tile_scores.other_hardware('m', here, 'cpu') == ''
    assert tile_scores.other_hardware('m', 'gpu', 'gpu') == ''
    printed = tile_scores.other_hardware('m', 'Other CPU', 'cpu')
    assert printed.startswith(f'warning: m is for Other CPU, and this is {here}; its ')
    assert 'm does not name its hardware' in tile_scores.other_hardware('m', '', 'cpu')


@pytest.mark.parametrize(
    'make, settings, message',
    [
        (made_runs.make_layout_run, {}, 'a model of layouts; give one of tiles'),
        (
            made_runs.make_tile_run,
            {'node_features': 303},
            'mine: node_feat has 140 columns, but 303 in what the model was',
        ),
    ],
)
def test_a_model_of_other_data_is_refused(
    make, settings, message, program, tmp_path, capsys
):
    model_dir = str(make(tmp_path, **settings))
    assert commands.run('tune', [program, '--dir', model_dir, '--candidates', '4']) == 1
    *_, line = capsys.readouterr().err.splitlines()
    assert message in line and line.startswith('error: ')
