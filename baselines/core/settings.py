"""Dataclasses whose fields are settings: declared once, with help and range."""

from collections.abc import Callable, Mapping, Sequence
import dataclasses
import json
import math
import os
import sys
from typing import Any

from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted

# The largest number that a flag accepts, unless its setting has a limit of its own:
# larger numbers would overflow or fill the memory.
MOST = 10**9
_MAX_TOML_BYTES = 1 << 20

TYPES = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'text'}


def setting(default: Any, about: str | Callable[[], str] = '', **rules: Any) -> Any:
    """Declares a setting.

    Args:
        default: its value, of the flag's type.
        about: the help text of the flag, or a function that returns it.
        **rules: the accepted values: `choices`, of which `several=True` accepts a
            list with commas; or at least `low`, more than `above`, at most `high`
            (default: `MOST`), and the single value `also`.
    """
    return dataclasses.field(default=default, metadata={'help': about, **rules})


def loose_setting(default: Any, about: str, **rules: Any) -> Any:
    """Declares a setting that does not change the model; see `setting`.

    A run may be resumed with another value of it.
    """
    return setting(default, about, shapes=False, **rules)


def get_help(config_class: Any, name: str) -> str:
    """Returns the help text of one setting."""
    about = config_class.__dataclass_fields__[name].metadata['help']
    return about() if callable(about) else about


def check_ranges(settings: Any, prefix: str = '') -> None:
    """Raises ValueError for a value that its `setting` does not accept.

    Args:
        prefix: text before a setting's name in the message.
    """
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata
        # Only a value that breaks a rule gets past the chain, with the rule in words.
        if rule.get('several'):
            accepted = _describe_accepted(value.split(','), rule['choices'])
            if not accepted:
                continue
        elif 'choices' in rule and value not in rule['choices']:
            accepted = f'one of {", ".join(filter(None, rule["choices"]))}'
        elif 'low' in rule and not value >= rule['low'] and value != rule.get('also'):
            also = f', or {rule["also"]}' if 'also' in rule else ''
            accepted = f'at least {rule["low"]}{also}'
        elif type(value) in (int, float) and value > rule.get('high', MOST):
            accepted = f'at most {rule.get("high", MOST):,}'
        elif 'above' in rule and not value > rule['above']:
            accepted = f'more than {rule["above"]}'
        else:
            continue
        raise ValueError(
            f'{prefix}{field.name} must be {accepted}, not {text.quoted(value)}'
        )


def _describe_accepted(values: Sequence[str], choices: Sequence[str]) -> str:
    """Describes the values that a list setting accepts; '' if it accepts these."""
    if not {*values} <= {*choices}:
        return f'one of {", ".join(choices)}, or several, separated by commas'
    return 'values that differ' if len({*values}) < len(values) else ''


def convert_types(
    config_class: type, values: Mapping[str, Any], noun: str = 'setting'
) -> text.JsonObject:
    """Converts values of settings to their types: 1 to 1.0, paths to text.

    Args:
        values: by name; model_kwargs_json may be a dict.

    Raises:
        ValueError: there is no such setting, or a value is of another type.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(config_class)}
    result = {}
    for name, value in values.items():
        if name not in defaults:
            meant = registry.suggest_nearest(name, defaults)
            raise ValueError(f'there is no {noun} {text.quoted(name)}{meant}')
        kind: type = type(defaults[name])  # not isinstance: True would be an int
        if name == 'model_kwargs_json' and isinstance(value, dict):
            try:
                value = json.dumps(value)
            except untrusted.DAMAGE as error:  # a date, say
                raise ValueError(f'{name} cannot be written as JSON: {error}') from None
        if kind is str and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f'{name} must be {TYPES[kind]}, not {text.quoted(value)}')
        result[name] = value
    return result


def make_from_options(kind: Any, options: Any, **others: Any) -> Any:
    """Makes a dataclass of the parsed options that have the names of its fields.

    Args:
        **others: fields that are not options, or differ from the parsed values.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    parsed = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return kind(**{**parsed, **others})


def read_toml(path: str, flag: str) -> text.JsonObject:
    """Reads a TOML file, which is untrusted.

    Raises:
        ValueError: it is not TOML, or too large.
        OSError: it cannot be read.
    """
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    with text.locate_errors(f'--{flag}'):
        content = untrusted.read(files.expand(path), _MAX_TOML_BYTES)
    with text.locate_errors(f'--{flag} {path} is not TOML'):
        try:
            return tomllib.loads(content.decode())
        except RecursionError:
            raise ValueError('too many nested brackets') from None


def parse_averaging(spec: str) -> float | None:
    """Reads --averaging.

    Args:
        spec: '', or 'ema:d': an exponential moving average with decay d per step.

    Returns:
        The decay; None for no average.

    Raises:
        ValueError: it is neither.
    """
    if not spec:
        return None
    kind, _, number = spec.partition(':')
    try:
        decay = float(number)
    except ValueError:
        decay = math.nan
    if kind != 'ema' or not 0 <= decay < 1:
        raise ValueError(
            '--averaging must be empty, or ema:<decay> such as ema:0.999, below 1; '
            f'not {spec!r}'
        )
    return decay


def check_data(data_root: str, sample_data: bool) -> None:
    """Raises ValueError if both a folder and the sample data are requested."""
    if data_root and sample_data:
        raise ValueError(
            f'--sample_data replaces --data_root={data_root}: drop one of them, '
            '--sample_data to use the folder'
        )


def parse_model_kwargs(options: str) -> text.JsonObject:
    """Parses --model_kwargs_json; raises ValueError unless it is a JSON object."""
    try:
        kwargs = untrusted.loads(options)
    except ValueError as error:
        raise ValueError(
            f'--model_kwargs_json is not JSON: {text.quoted(options)} ({error})'
        ) from None
    if not isinstance(kwargs, dict):
        raise ValueError(
            '--model_kwargs_json must be an object such as '
            f'\'{{"num_gnns": 2}}\', not {options!r}'
        )
    return kwargs
