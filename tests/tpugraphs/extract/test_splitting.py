"""Extracted files, cut into splits by what belongs together."""

import pytest

from tests.helpers import hlo_modules
from tests.helpers import processes
from tests.helpers import refusals
from tests.helpers.hlo_modules import tile_file
from tpugraphs.extract import splitting


@pytest.mark.parametrize(
    'by, modules, word',
    [
        ('program', {'a': ['a_0'], 'b': ['a_1', 'a_2']}, '1 program'),
        ('file', {'a': ['a_0', 'b_0', 'c_0']}, '1 file'),
        ('module', {'a': ['a_0'], 'b': ['b_0']}, '2 modules'),
    ],
)
def test_too_few_groups(tmp_path, by, modules, word):
    split = lambda: splitting.move_files(str(tmp_path), (0.8, 0.1, 0.1), by, modules)
    refusals.assert_refused(split, '--split', word, '3 splits')


def _names(folder):
    return [name for name in processes.list_files(folder) if name.endswith('.npz')]


def test_extract_and_split_and_split_again(tmp_path, capsys):
    files = [tmp_path / f'{number}.pb' for number in range(4)]
    for number, file in enumerate(files):
        name, first = f'net{number % 2}', 16 * number
        kernels = [hlo_modules.good_tile(name, first + k) for k in range(2)]
        file.write_bytes(tile_file(*kernels))
    out = tmp_path / 'out'
    words = ('extract', *files, out, '--split', '50/25/25')
    assert processes.command(*words, '--by', 'module') == 0
    assert 'train 4 of 4 modules' in capsys.readouterr().out
    # Nothing is extracted again, and the two kernels of a file stay together.
    assert processes.command(*words, '--by', 'file') == 0
    printed = capsys.readouterr().out
    assert '0 written, 8 already there' in printed
    assert 'train 4 of 2 files' in printed
    for split, count in (('train', 4), ('valid', 2), ('test', 2)):
        assert len(_names(out / split)) == count
    assert len(_names(out)) == 8
    # By name there are two programs alone.
    assert processes.command(*words) == 1
    assert '2 programs for 3 splits' in capsys.readouterr().err
    # Too few files are refused before anything is written.
    words = ('extract', files[0], tmp_path / 'new', '--split', '50/0/50', '--by=file')
    assert processes.command(*words) == 1
    assert '1 file for 2 splits' in capsys.readouterr().err
    assert not (tmp_path / 'new').exists()


@pytest.mark.parametrize('other', ['train/other.npz', 'other.npz'])
def test_modules_are_not_mixed_with_others(tmp_path, capsys, other):
    file = tmp_path / 'a.pb'
    kernels = [hlo_modules.good_tile(f'net{k}', k) for k in range(3)]
    file.write_bytes(tile_file(*kernels))
    out = tmp_path / 'out'
    (out / other).parent.mkdir(parents=True)
    (out / other).write_bytes(b'of others')
    words = ('extract', file, out, '--split', '1/1/1')
    assert processes.command(*words) == 1
    assert f'{out}/{other}' in capsys.readouterr().err
    assert _names(out) == [other]
    (out / other).unlink()
    assert processes.command(*words) == 0
    names = _names(out)
    assert len(names) == 3
    # A call that fails, or replaces files, leaves the splits.
    for again, code in (('--pad=-1',), 1), (('--by', 'file'), 1), (('--overwrite',), 0):
        assert processes.command(*words, *again) == code
        assert _names(out) == names
