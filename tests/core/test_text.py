"""Text from files is escaped and cut, wherever it is shown."""

from baselines.core import text
from tests.helpers import hlo_modules
from tests.helpers import processes

_LONG = 'a\n\x1b[2J' + 'x' * 500_000
_SHOWN = f'a\\n\\x1b[2J{"x" * 122}...{"x" * 65}'


def test_printable_is_one_short_line():
    assert text.printable('é\u202e\n') == 'é\\u202e\\n'
    assert text.printable(_LONG) == _SHOWN and len(_SHOWN) == 200
    assert text.printable({'a': 1}) == "{'a': 1}"


def test_errors_notes_and_tables_are_cut(capsys):
    line = text.one_line(ValueError(_LONG), 'f.pb')
    assert line.startswith('f.pb: a \\x1b[2Jxxx') and len(line) == 1000 + len('f.pb: ')
    text.note(_LONG)
    assert len(capsys.readouterr().err) == len('note: \n') + 1000
    assert text.format_table([['name'], [_LONG]])[1] == _SHOWN


def test_names_of_modules(tmp_path, capsys):
    tuning = hlo_modules.good_tile()
    tuning.module.name = _LONG
    path = tmp_path / 'f.pb'
    path.write_bytes(hlo_modules.tile_file(tuning))
    del tuning.runs[1:]  # nothing to choose
    alone = tmp_path / 'alone.pb'
    alone.write_bytes(hlo_modules.tile_file(tuning))
    for words in (['show', path], ['extract', alone, tmp_path / 'out']):
        processes.command(*words)
        printed = capsys.readouterr()
        assert '\x1b' not in printed.out + printed.err
        for line in (printed.out + printed.err).splitlines():
            assert len(line) < 400, line
