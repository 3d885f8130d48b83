"""Formats numbers, names, tables, JSON and errors."""

from collections.abc import Iterator, Mapping, Sequence
import contextlib
import errno
import hashlib
import html
import json
import re
import sys
import textwrap
from typing import Any

WIDTH = 100  # characters of a line
TERMINAL = 80  # of a training, which is watched
_MOST = 200  # characters that are shown of a text from a file
_MOST_LINE = 1000  # of a message, which may quote several
_NAMED = 5
_NO_LINE = re.compile(r'[^\n\t]+')
# JSON as `json.dumps` takes it, and `json.loads` returns it.
JsonObject = dict[str, Any]
# The folders of an absolute path, where a path may begin.
_FOLDERS = re.compile(r"""(^|[\s='":;,(\[{])~?/(?!/)(?:[^\s'"]*/)?""")
# Errors of the system on a user's path -> advice.
_ADVICE = {
    errno.ENOENT: 'check the path',
    errno.EISDIR: 'name a file',
    **dict.fromkeys((errno.EEXIST, errno.ENOTDIR), 'name a folder, or a new path'),
    **dict.fromkeys(
        (errno.EACCES, errno.EPERM, errno.EROFS),
        'name another path, or change its permissions',
    ),
    errno.ENOSPC: 'free some space, or name a path on another disk',
}


def format_table(
    rows: Sequence[Sequence[str]],
    align: str = '<>',
    *,
    rules: Sequence[int] = (),
    indent: int = 0,
    width: int | None = None,
) -> list[str]:
    """Lays out rows of one length in columns, two spaces apart.

    Args:
        rows: the cells; see `printable`.
        align: '<' or '>' for each column; the last one is for all that follow.
        rules: numbers of rows; a line of dashes precedes each.
        width: the most characters of a line; the first column is shortened to it.

    Returns:
        Lines, without spaces at their ends.
    """
    # Escaped before widths are taken: an escape sequence has no width, its text has.
    rows = [[*map(printable, row)] for row in rows]
    # The first column, of names, gives way when the line would be too long.
    widths = [max(map(len, column)) for column in zip(*rows)]
    if width:
        widths[0] = min(widths[0], width - sum(widths[1:]) - 2 * len(widths[1:]))
    align += align[-1] * len(widths)
    lines = []
    for first, *others in rows:
        cut = zip([shorten(first, widths[0]), *others], widths, align)
        cells = [c.ljust(w) if a == '<' else c.rjust(w) for c, w, a in cut]
        lines.append((' ' * indent + '  '.join(cells)).rstrip())
    dashes = '-' * max(map(len, lines))
    for place in sorted(rules, reverse=True):  # from below: places above stay
        lines.insert(place, dashes)
    return lines


def make_html_table(rows: Sequence[Sequence[str]], most: int | None = None) -> str:
    """Lays out rows of one length as a table of HTML.

    Args:
        rows: the cells, any text; those of the first row are headings.
        most: the most rows below the headings; a line counts the others.
    """

    def line(cells: Sequence[str], tag: str) -> str:
        row = ''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in cells)
        return f'<tr>{row}</tr>'

    head, *others = rows
    shown = others[:most]
    lines = [line(head, 'th'), *(line(cells, 'td') for cells in shown)]
    more = f'<p>and {len(others) - len(shown):,} more</p>' * (len(others) > len(shown))
    return f'<table>{"".join(lines)}</table>{more}'


def to_json(content: object) -> str:
    """Returns a result as JSON; values that are not defined are None in it.

    Raises:
        ValueError: a number is NaN or infinite, which JSON does not have.
    """
    return json.dumps(content, indent=2, allow_nan=False)


def hash_json(value: object) -> str:
    """Hashes a JSON value, whatever the order of its keys: 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def wrap_line(line: str, indent: int = 0) -> str:
    """Breaks a line at spaces for a terminal; all lines but the first are indented."""
    return textwrap.fill(
        line,
        TERMINAL,
        subsequent_indent=' ' * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def is_interrupt(error: BaseException | None) -> bool:
    """Returns whether Ctrl-C led to an error, perhaps as a library cleaned up."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


class Interrupted(KeyboardInterrupt):
    """Raised for Ctrl-C in work whose result so far is kept.

    Args:
        kept: a line on the results that are kept.
        *flags: flags with which the same command continues.
    """

    def __init__(self, kept: str, *flags: str):
        super().__init__(kept)
        self.flags = flags


@contextlib.contextmanager
def mark_interrupts(kept: str, *flags: str) -> Iterator[None]:
    """Raises `Interrupted` for Ctrl-C in the block, or a bare one if `kept` is ''."""
    try:
        yield
    except BaseException as error:
        if not is_interrupt(error):
            raise
        raise (Interrupted(kept, *flags) if kept else KeyboardInterrupt()) from None


@contextlib.contextmanager
def locate_errors(where: str) -> Iterator[None]:
    """Puts `where` before the message of a ValueError that the block raises."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f'{where}: {error}') from None


def note(message: str) -> None:
    """Prints a note on stderr; see `printable`."""
    print(f'note: {printable(message, _MOST_LINE)}', file=sys.stderr)


def format_value(value: float | None, show: str) -> str:
    """Returns a number as `format` writes it; '-' for None."""
    return '-' if value is None else format(value, show)


def shorten(name: str, width: int) -> str:
    """Returns a name, without its middle where it is longer than `width`."""
    if len(name) <= width:
        return name
    tail = (width - 3) // 3
    return f'{name[: width - 3 - tail]}...{name[-tail:]}'


def format_duration(nanoseconds: float) -> str:
    """Returns a time in s, ms, us or ns, to four digits."""
    for unit, size in (('s', 1e9), ('ms', 1e6), ('us', 1e3)):
        if nanoseconds >= size:
            return f'{nanoseconds / size:.4g} {unit}'
    return f'{nanoseconds:.0f} ns'


def count(number: int, noun: str) -> str:
    """Returns '1 module', '2,000 modules'."""
    return f'{number:,} {noun}{"" if number == 1 else "s"}'


def list_names(names: Sequence[str], most: int = _NAMED) -> str:
    """Lists the first `most` names, and the number of the others."""
    more = f' and {len(names) - most} more' if len(names) > most else ''
    return ', '.join(names[:most]) + more


def list_most_common(counts: Mapping[str, int]) -> str:
    """Lists the largest counts with their names, the largest first."""
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return list_names([f'{quoted(name)} {number}' for name, number in ordered])


def list_skipped(skipped: Mapping[str, Sequence[str]]) -> str:
    """Lists omissions, reason -> names, in one line."""
    parts = [f'{list_names(names)}: {reason}' for reason, names in skipped.items()]
    return '; '.join(parts) or 'no modules'


def one_line(error: BaseException, where: str = '') -> str:
    """Returns an error's text as one `printable` line that begins with `where`."""
    message = str(error)
    if isinstance(error, OSError) and error.errno in _ADVICE:
        message = add_advice(error)
        if error.filename is not None:
            message = f'{error.filename}: {message}'
    line = printable(' '.join(shorten(message, 2 * _MOST_LINE).split()), _MOST_LINE)
    line = line or type(error).__name__
    return line if where in line else f'{where}: {line}'


def add_advice(error: OSError) -> str:
    """Returns the system's text of an error, and what the user can do about it."""
    message, advice = error.strerror or str(error), _ADVICE.get(error.errno or 0)
    return f'{message}; {advice}' if advice else message


def get_message(error: BaseException) -> str | None:
    """Returns the text of an error; None where the code of its class fails."""
    try:
        return str(error)
    except Exception:  # the class of a user's own error can be faulty
        return None


def hide_folders(content: str) -> str:
    """Returns escaped text with '...' instead of the folders of absolute paths.

    For text that leaves this machine: '--data_root=/home/me/data' becomes
    '--data_root=.../data'.
    """
    return _FOLDERS.sub(r'\1.../', _escape(content))


def printable(content: object, most: int = _MOST) -> str:
    """Returns text from a file for a message or a table: escaped, and cut to `most`.

    A name in a file may be of any length, and may hold line ends and escape sequences.
    """
    # Cut before, as a file may hold gigabytes, and after, as escapes are longer.
    return shorten(_escape(shorten(str(content), most)), most)


def quoted(content: object) -> str:
    """Returns the `repr` of a value from a file; see `printable`."""
    return printable(repr(content))


def _escape(content: str) -> str:
    """Escapes everything but letters, digits, punctuation and spaces."""
    if content.isprintable():
        return content
    return ''.join(
        c if c.isprintable() else c.encode('unicode_escape').decode() for c in content
    )


def escape_lines(content: str) -> str:
    """Escapes as `printable` does, but keeps line ends and tabs, and cuts nothing."""
    return _NO_LINE.sub(lambda line: _escape(line[0]), content)
