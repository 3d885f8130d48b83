"""Rewrites messages about flags for callers in Python, who pass arguments."""

import functools
import re
from typing import Any, Callable, TypeVar, cast

_Function = TypeVar('_Function', bound=Callable[..., Any])

# Commands stay as they are; outside of them, a flag becomes an argument.
_COMMAND_OR_FLAG = re.compile(
    r'(`[^`]*`|\b(?:python|tpugraphs|pip) [^;,]*)|(?<![\w-])--(\w+)(?=([=:]?))'
)
# Flags whose arguments have other names.
_ARGUMENTS = {
    'dir': 'which',
    'losses': 'loss',
    'model_kwargs_json': 'model_kwargs',
    'models_file': 'model',
    'data_root': 'data',
    'sample_data': "data='sample'",
}


def in_python(function: _Function) -> _Function:
    """Decorates a function so that its ValueErrors name arguments in place of flags."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            error.args = (translated(str(error)),)
            raise

    return cast(_Function, wrapped)


def translated(message: str) -> str:
    """Rewrites flags as arguments: '--lr should be ...' -> 'lr should be ...'."""
    return _COMMAND_OR_FLAG.sub(_argument, message)


def _argument(match: 're.Match[str]') -> str:
    """Returns the replacement of a match of `_COMMAND_OR_FLAG`."""
    command, flag, sign = match.groups()
    if command:
        return command
    from baselines import config

    fields = {
        **config.LayoutConfig.__dataclass_fields__,
        **config.TileConfig.__dataclass_fields__,
    }
    name = _ARGUMENTS.get(flag, flag)
    if sign or flag not in fields or flag != name:
        return name
    # A switch to pass: 'pass --skip_bad_files'.
    return f'{flag}=True' if fields[flag].default is False else flag
