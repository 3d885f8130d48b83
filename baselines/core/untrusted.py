"""Reads untrusted JSON: strictly, and of expected types."""

import json
import re
from typing import Any, Callable, Dict, List, Mapping, Tuple, Union

_MOST_NUMBER = 1 << 53  # where JSON's readers begin to round

# Errors of reading JSON, and of taking out fields that may be missing.
DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)

# A test of values, and the noun for those that pass it.
Rule = Tuple[Callable[[Any], bool], str]


def loads(content: Union[bytes, str]) -> Any:
    """Parses JSON.

    Raises:
        ValueError: it is not JSON, holds infinity or NaN, has a key that occurs
            twice, or is nested too deeply.
    """
    if isinstance(content, bytes):
        content = content.decode(json.detect_encoding(content))
    try:
        return _DECODER.decode(content)
    except RecursionError:
        raise ValueError('nested too deeply') from None


def _object_of(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Makes an object from pairs; raises ValueError for a duplicate key."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError('a key occurs twice')
    return fields


def _refuse_constant(name: str) -> None:
    raise ValueError(f'{name} is no number')


# Made once: a file of records has as many JSON texts as lines.
_DECODER = json.JSONDecoder(
    object_pairs_hook=_object_of, parse_constant=_refuse_constant
)


def check(fields: Any, rules: Mapping[str, Rule]) -> None:
    """Raises ValueError unless `fields` is an object that satisfies all rules."""
    if not isinstance(fields, dict):
        raise ValueError('is not an object')
    for name, (holds, kind) in rules.items():
        if name not in fields or not holds(fields[name]):
            raise ValueError(f'{name} is not {kind}')


def is_bool(value: Any) -> bool:
    """Returns whether a value is a bool."""
    return isinstance(value, bool)


def is_int(value: Any, least: int = 0) -> bool:
    """Returns whether a value is an integer >= `least` that JSON's readers agree on."""
    return type(value) is int and least <= value < _MOST_NUMBER


def are_ints(value: Any, least: int = 0) -> bool:
    """Returns whether a value is a list of integers; see `is_int`."""
    # Without a call for each: a file of records has millions.
    return isinstance(value, list) and all(
        type(n) is int and least <= n < _MOST_NUMBER for n in value
    )


def is_number(value: Any, least: float = -_MOST_NUMBER) -> bool:
    """Returns whether a value is a finite number, at least `least`."""
    return type(value) in (int, float) and least <= value < _MOST_NUMBER


def matches(pattern: str) -> Callable[[Any], bool]:
    """Returns a test of values: text that a pattern matches as a whole."""
    return lambda value: isinstance(value, str) and bool(re.fullmatch(pattern, value))


NAME = matches(r'\w[\w.-]{0,199}'), 'a name of letters, digits, ".", "_" and "-"'
OBJECT = (lambda value: isinstance(value, dict)), 'an object'
