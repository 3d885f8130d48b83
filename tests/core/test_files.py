"""Files appear whole or not at all, whatever goes wrong on the way."""

import errno
import fcntl
import os
import re
import stat

import pytest

from baselines.core import files
from tests.helpers import refusals


def _write(path, data='new'):
    mode = 'w' if isinstance(data, str) else 'wb'
    with files.write_atomically(str(path), mode) as stream:
        stream.write(data)


def test_expand(monkeypatch, tmp_path):
    monkeypatch.setenv('HOME', str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for path in ('~/a', './a/', f'{tmp_path}/b/../a', '~/a//'):
        assert files.expand(path) == str(tmp_path / 'a')


def test_text_and_bytes_in_folders_that_are_made(tmp_path):
    _write(tmp_path / 'x' / 'y' / 'text.csv', 'ä\n')
    assert (tmp_path / 'x' / 'y' / 'text.csv').read_text() == 'ä\n'
    _write(tmp_path / 'data', b'\x00\xff')
    assert (tmp_path / 'data').read_bytes() == b'\x00\xff'
    with files.write_atomically(str(tmp_path / 'crlf'), newline='\r\n') as stream:
        stream.write('a\n')
    assert (tmp_path / 'crlf').read_bytes() == b'a\r\n'


def test_name_is_taken_only_at_the_end(tmp_path):
    path = tmp_path / 'file'
    path.write_text('old')
    with files.write_atomically(str(path)) as stream:
        stream.write('new')
        stream.flush()
        files.remove_leftovers(str(tmp_path), re.compile(r'\.file\..*'))
        assert path.read_text() == 'old'
    assert path.read_text() == 'new'
    assert os.listdir(tmp_path) == ['file']


@pytest.mark.parametrize('error', [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize('old', [None, 'old'])
def test_failure_midway_leaves_what_was_there(tmp_path, error, old):
    path = tmp_path / 'file'
    if old:
        path.write_text(old)
    with pytest.raises(error):
        with files.write_atomically(str(path)) as stream:
            stream.write('half')
            stream.flush()
            raise error
    assert os.listdir(tmp_path) == (['file'] if old else [])
    assert not old or path.read_text() == old


def test_ctrl_c_as_the_file_is_made_leaves_none(tmp_path, monkeypatch):
    def interrupt(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(files, 'mark_in_use', interrupt)
    with pytest.raises(KeyboardInterrupt):
        _write(tmp_path / 'data')
    assert not list(tmp_path.iterdir())


def test_an_error_about_another_file_keeps_its_name(tmp_path):
    with pytest.raises(FileNotFoundError) as caught:
        with files.write_atomically(str(tmp_path / 'file')):
            open(tmp_path / 'missing', encoding='utf-8')
    assert caught.value.filename == str(tmp_path / 'missing')


@pytest.mark.parametrize('umask', [0o022, 0o077])
def test_permissions_are_what_the_umask_allows(tmp_path, umask):
    before = os.umask(umask)
    _write(tmp_path / 'file')
    os.umask(before)
    assert stat.S_IMODE((tmp_path / 'file').stat().st_mode) == 0o666 & ~umask


def test_files_and_folders_where_the_other_should_be(tmp_path):
    (tmp_path / 'regular').write_text('text')
    for below in ('regular/file', 'regular/x/file'):
        with pytest.raises((NotADirectoryError, FileExistsError)) as caught:
            _write(tmp_path / below)
        assert str(tmp_path / 'regular') in str(caught.value)
    with pytest.raises(IsADirectoryError) as caught:
        _write(tmp_path)
    assert caught.value.filename == str(tmp_path)
    assert (tmp_path / 'regular').read_text() == 'text'


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    # `--output=/dev/stdout`; run as root, a rename would replace the device.
    (tmp_path / 'null').symlink_to('/dev/null')
    _write(tmp_path / 'null')
    assert (tmp_path / 'null').is_symlink()
    assert os.listdir(tmp_path) == ['null']


def test_a_device_in_front_of_a_file_is_appended_to(tmp_path):
    with open(tmp_path / 'file', 'w', encoding='utf-8') as stream:
        stream.write('printed;')
        stream.flush()
        _write(f'/dev/fd/{stream.fileno()}', 'written')
    assert (tmp_path / 'file').read_text() == 'printed;written'


def test_mode_and_links_stay(tmp_path):
    (tmp_path / 'file').write_text('old')
    (tmp_path / 'file').chmod(0o640)
    (tmp_path / 'link').symlink_to('file')
    _write(tmp_path / 'link')
    assert os.readlink(tmp_path / 'link') == 'file'
    assert (tmp_path / 'file').read_text() == 'new'
    assert stat.S_IMODE((tmp_path / 'file').stat().st_mode) == 0o640


def _check(path, **rules):
    files.check_file_writable(str(path), 'output', ['ID,', '{'], **rules)


@pytest.mark.parametrize('content', ['', 'ID,TopConfigs\n', '{"a": 1}'])
def test_a_file_of_the_kind_may_be_replaced(tmp_path, content):
    (tmp_path / 'file').write_text(content)
    _check(tmp_path / 'file')
    assert (tmp_path / 'file').read_text() == content
    _check(tmp_path / 'new/file')
    _check('/dev/null')


def test_other_files_and_inputs_stay(tmp_path):
    (tmp_path / 'notes').write_text('text')
    (tmp_path / 'input').write_text('ID,')
    (tmp_path / 'link').symlink_to('input')
    for path in (tmp_path / 'notes', tmp_path / 'link', tmp_path):
        check = lambda path=path: _check(path, inputs=[str(tmp_path / 'input')])
        refusals.assert_refused(check, str(path))


def test_leftovers_go_unless_somebody_holds_them(tmp_path):
    names = re.compile(r'\.ours_\d')
    for name in ('.ours_1', '.ours_2', '.others_1', 'ours_1'):
        (tmp_path / name).write_text('x')
    (tmp_path / '.ours_3').mkdir()
    (tmp_path / '.ours_3' / 'file').write_text('x')
    (tmp_path / '.ours_4').mkdir()
    (tmp_path / '.ours_5').symlink_to('/nowhere')
    with open(tmp_path / '.ours_2', encoding='utf-8') as held:
        folder = os.open(tmp_path / '.ours_4', os.O_RDONLY)
        assert files.mark_in_use(held.fileno()) and files.mark_in_use(folder)
        files.remove_leftovers(str(tmp_path), names)
        kept = ['.others_1', '.ours_2', '.ours_4', '.ours_5', 'ours_1']
        assert sorted(os.listdir(tmp_path)) == kept
        os.close(folder)
    files.remove_leftovers(str(tmp_path), names)
    assert sorted(os.listdir(tmp_path)) == ['.others_1', '.ours_5', 'ours_1']
    files.remove_leftovers(str(tmp_path / 'gone'), names)


@pytest.mark.parametrize('replace', [True, False])
def test_folders_appear_whole_or_not_at_all(tmp_path, replace):
    def make(content, error=None):
        with files.make_folder_atomically(str(tmp_path / 'a' / 'x'), replace) as folder:
            with open(os.path.join(folder, 'file'), 'w', encoding='utf-8') as stream:
                stream.write(content)
            files.remove_leftovers(str(tmp_path / 'a'), re.compile(r'\.x\.\w{8}'))
            if error:
                raise error

    with pytest.raises(KeyboardInterrupt):
        make('half', KeyboardInterrupt)
    assert os.listdir(tmp_path / 'a') == []
    make('first')
    with pytest.raises(ValueError):
        make('half', ValueError)
    make('second')
    assert os.listdir(tmp_path / 'a') == ['x']
    expected = 'second' if replace else 'first'
    assert (tmp_path / 'a' / 'x' / 'file').read_text() == expected
    assert stat.S_IMODE((tmp_path / 'a' / 'x').stat().st_mode) != 0o700


def test_a_lock_names_who_holds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files.time, 'sleep', lambda seconds: None)
    path = str(tmp_path / 'lock')
    with files.hold_lock(path, 'busy'):
        with pytest.raises(ValueError, match=f'busy: process {os.getpid()} on '):
            with files.hold_lock(path, 'busy'):
                pass
    assert os.listdir(tmp_path) == []
    (tmp_path / 'lock').write_text('of a process that was killed')
    with files.hold_lock(path, 'busy'):
        assert f'process {os.getpid()}' in (tmp_path / 'lock').read_text()


def test_paths_are_shown_as_users_write_them(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    assert files.format_path('/home/me/out/a b') == '~/out/a b'
    assert files.format_path('/home/melanie') == '/home/melanie'
    assert files.format_path('/home/me') == '/home/me'


def test_a_file_system_without_locks_says_so(tmp_path, monkeypatch, capsys):
    def flock(*unused):
        raise OSError(errno.ENOLCK, 'No locks available')

    monkeypatch.setattr(fcntl, 'flock', flock)
    path = str(tmp_path / 'lock')
    with files.hold_lock(path, 'busy'), files.hold_lock(path, 'busy'):
        pass
    with files.write_atomically(str(tmp_path / 'file')) as stream:
        stream.write('x')
    assert capsys.readouterr().err.count(f'note: {path}: ') == 2
