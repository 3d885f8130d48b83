"""Checks for jaxlib, which the extra [measure] installs."""

import importlib.metadata

INSTALL = 'pip install -e .[measure]'


def version(package: str) -> str:
    """Returns the version of a package without importing it; '' if it is missing."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ''


def require(purpose: str = 'measuring') -> None:
    """Raises ValueError, which names the purpose, if jaxlib is not installed."""
    if not version('jaxlib'):
        raise ValueError(
            f'{purpose} needs jaxlib, which is not installed; run {INSTALL}'
        )
