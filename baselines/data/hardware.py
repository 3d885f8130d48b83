"""What the sidecar of a measured data set tells: its processor, and its splits."""

from collections.abc import Sequence
import contextlib
import functools
import os
import pathlib
import platform
import re

from baselines.core import extensions
from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections
from baselines.data import shipped

# The name of every graphics processor: which one it was is not on record.
GPU = 'gpu'
SIDECAR = 'measured.json'  # of a folder that `tpugraphs lab collect` wrote
MOST_SIDECAR = 1 << 30  # bytes
NEWEST_RELEASE = '0.12.0.1'  # of jaxlib, that the tests are run with


def read_measured_on(root: str, shipped_task: str = '') -> str:
    """Returns the processor that a data set's runtimes were measured on.

    Args:
        shipped_task: the task of shipped data, 'tile' or 'layout'; '' for other data.

    Returns:
        Its name, GPU, or several with commas; '' where no sidecar tells.
    """
    if shipped_task:
        path = f'{os.path.splitext(shipped.find_archive(shipped_task))[0]}.json'
    else:
        path = os.path.join(files.expand(root), SIDECAR)
    try:
        sidecar = untrusted.loads(untrusted.read(path, MOST_SIDECAR))
        parts = sidecar.get('sources', [sidecar])
        return ', '.join(sorted({_read_processor(part) for part in parts} - {''}))
    except (OSError, *untrusted.DAMAGE):
        return ''


def list_splits(root: str, collection: collections.Collection) -> Sequence[str]:
    """Returns the splits that a training on a collection at a root reads.

    These are all, which need not exist; but train alone where `tpugraphs lab collect`
    measured it, and had too few kernels for other splits.

    Args:
        root: at or above the folder of the splits, expanded.
        collection: the collection, with one part.
    """
    of_train, *others = (collection.locate_split(root, s) for s in collections.SPLITS)
    top = os.path.dirname(of_train)
    for _ in filter(None, collection.subfolder.split('/')):
        top = os.path.dirname(top)
    if not os.path.isdir(of_train) or any(map(os.path.isdir, others)):
        return collections.SPLITS
    is_measured = os.path.exists(os.path.join(top, SIDECAR))
    return collections.SPLITS[: 1 if is_measured else None]


def find_processor() -> str:
    """Returns the name of the processor of this machine."""
    with contextlib.suppress(OSError):  # there on Linux alone
        for line in pathlib.Path('/proc/cpuinfo').read_text().splitlines():
            if line.startswith('model name'):
                return line.partition(':')[2].strip()
    return platform.processor()


@functools.cache
def find_release() -> int:
    """Returns the number of the release of jaxlib that programs run on here.

    It is the newest one tried where none is installed.
    """
    return parse_release(extensions.find_version('jaxlib') or NEWEST_RELEASE)


def describe_difference(name: str, info: text.JsonObject) -> str:
    """Says how this machine is not that of a run's measurements; '' where it is.

    Args:
        name: the run's, for the message.
        info: the run file; runs of published data name no processor.
    """
    trained, here = str(info.get('measured_on') or ''), find_processor()
    if trained not in ('', GPU, here):
        return f'{name} is for {text.printable(trained)}, and this is {here}'
    releases, installed = info.get('xla_releases') or [], find_release()
    if releases and installed not in releases:
        numbers = ' and '.join(map(format_release, releases))
        here = format_release(installed)
        return f'{name} is for jaxlib {numbers}, and {here} is installed'
    return ''


def parse_release(version: str) -> int:
    """Returns a number for a release of jaxlib: 1000 x minor + patch.

    Args:
        version: such as '0.4.30' (4030) or '0.12.0.1' (12000); '' where not known.

    Returns:
        0 where `version` is not of that form.
    """
    match = re.match(r'0\.(\d{1,4})\.(\d{1,3})\b', version)
    return 1000 * int(match[1]) + int(match[2]) if match else 0


def format_release(number: int) -> str:
    """Returns the release of jaxlib of a number: 4030 -> '0.4.30'."""
    return f'0.{number // 1000}.{number % 1000}'


def _read_processor(part: text.JsonObject) -> str:
    """Returns the processor that a source in a sidecar names."""
    if part['collection'].get('platform') == 'gpu':
        return GPU
    return str(part['machine']['cpu'])[:100]
