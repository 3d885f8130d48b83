"""jaxlib, which the [measure] extra installs: whether it is there."""

import importlib.metadata

INSTALL = 'pip install -e .[measure]'


def version(package: str) -> str:
    """Returns the version of a package, importing none of it; '' without it."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ''


def require(purpose: str = 'measuring') -> None:
    """Raises ValueError if jaxlib is not installed; says what needs it."""
    if not version('jaxlib'):
        raise ValueError(
            f'{purpose} needs jaxlib, which is not installed; run {INSTALL}'
        )
