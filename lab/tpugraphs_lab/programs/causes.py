"""Names the causes of other libraries' errors in one line."""

import re

from baselines.core import text

_NAMED_ERROR = re.compile(r'[\w.]*(Error|Exit|Exception): ')
_MOST = 400  # characters, as a cause may quote a path and a text


def name_cause(error: BaseException) -> str:
    """Returns the line of an error that states its cause, with its type.

    Libraries write the location before the cause, and advice after it.
    """
    lines = [line.strip() for line in (text.get_message(error) or '').splitlines()]
    lines = list(filter(None, lines))
    if not lines:
        return type(error).__name__
    named = [line for line in lines if _NAMED_ERROR.match(line)]
    if named:
        return text.printable(named[-1], _MOST)
    kind = '' if isinstance(error, ValueError) else f'{type(error).__name__}: '
    return text.printable(kind + lines[0], _MOST)
