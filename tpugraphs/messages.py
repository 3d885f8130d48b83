"""Messages about flags, told as arguments to those who call Python."""

import functools
import re
from typing import Any, Callable, TypeVar, cast

_Function = TypeVar('_Function', bound=Callable[..., Any])

# A command stays as it is typed; else a flag is an argument.
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
    """Makes a function's ValueErrors name arguments in place of flags."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except ValueError as error:
            error.args = (translated(str(error)),)
            raise

    return cast(_Function, wrapped)


def translated(message: str) -> str:
    """Returns a message about arguments: '--lr should be ...' -> 'lr should be ...'."""
    return _COMMAND_OR_FLAG.sub(_argument, message)


def _argument(match: 're.Match[str]') -> str:
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
    # A switch that should be there: 'pass --skip_bad_files'.
    return f'{flag}=True' if fields[flag].default is False else flag
