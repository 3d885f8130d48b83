"""Checks for packages that may be missing, and names the command that installs them."""

from collections.abc import Iterator
import contextlib
import importlib.util
import re

import baselines

INSTALL = 'pip install ./lab'
# Package -> the command that installs it.
_COMMANDS = {
    'jax': f'{INSTALL} jax',
    'jaxlib': INSTALL,
    'tensorflow': 'pip install -e .',
}
_MISSING = re.compile(rf'ModuleNotFoundError: .*\b({"|".join(_COMMANDS)})\b')


def has_jaxlib() -> bool:
    """Returns whether jaxlib can be imported, without importing it."""
    return importlib.util.find_spec('jaxlib') is not None


def require(purpose: str = 'measuring') -> None:
    """Raises ValueError, which names the purpose, if jaxlib is not installed."""
    if not has_jaxlib():
        raise ValueError(
            f'{purpose} needs jaxlib, which is not installed; run {INSTALL}'
        )


@contextlib.contextmanager
def naming_the_command() -> Iterator[None]:
    """Adds the command that installs a missing package to errors about it.

    Raises:
        ValueError: instead of an ImportError of such a package, or of a ValueError
            that quotes one.
    """
    try:
        yield
    except (ImportError, ValueError) as error:
        message = str(error)
        if isinstance(error, ImportError):
            # As the errors of child processes quote it.
            message = f'ModuleNotFoundError: {message}'
        missing = _MISSING.search(message)
        if not missing:
            raise
        command, jaxlib = _COMMANDS[missing.group(1)], baselines.version('jaxlib')
        if missing.group(1) == 'jax' and jaxlib:
            command = f'pip install jax=={jaxlib}'  # they go together
        raise ValueError(f'{message}; run {command}') from error
