"""What the sidecar of a measured data set tells: its processor, and its splits."""

from collections.abc import Sequence
import os
import re

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections
from baselines.data import shipped

# The name of every graphics processor: which one it was is not on record.
GPU = 'gpu'
SIDECAR = 'measured.json'  # of a folder that `tpugraphs collect` wrote
MOST_SIDECAR = 1 << 30  # bytes


def measured_on(root: str, shipped_task: str = '') -> str:
    """Returns the processor that a data set's runtimes were measured on.

    Args:
        shipped_task: the task of shipped data, 'tile' or 'layout'; '' for other data.

    Returns:
        Its name, GPU, or several with commas; '' where no sidecar tells.
    """
    if shipped_task:
        path = f'{os.path.splitext(shipped.archive_of(shipped_task))[0]}.json'
    else:
        path = os.path.join(files.expand(root), SIDECAR)
    try:
        sidecar = untrusted.loads(untrusted.read(path, MOST_SIDECAR))
        parts = sidecar.get('sources', [sidecar])
        return ', '.join(sorted({_processor(part) for part in parts} - {''}))
    except (OSError, *untrusted.DAMAGE):
        return ''


def splits_at(root: str, collection: collections.Collection) -> Sequence[str]:
    """Returns the splits that a training on a collection at a root reads.

    These are all, which need not exist; but train alone where `tpugraphs collect`
    measured it, and had too few kernels for other splits.

    Args:
        root: at or above the folder of the splits, expanded.
        collection: the collection, with one part.
    """
    of_train, *others = (collection.folder_of(root, s) for s in collections.SPLITS)
    top = os.path.dirname(of_train)
    for _ in filter(None, collection.subfolder.split('/')):
        top = os.path.dirname(top)
    if not os.path.isdir(of_train) or any(map(os.path.isdir, others)):
        return collections.SPLITS
    is_measured = os.path.exists(os.path.join(top, SIDECAR))
    return collections.SPLITS[: 1 if is_measured else None]


def release_number(version: str) -> int:
    """Returns a number for a release of jaxlib: 1000 x minor + patch.

    Args:
        version: such as '0.4.30' (4030) or '0.12.0.1' (12000); '' where not known.

    Returns:
        0 where `version` is not of that form.
    """
    match = re.match(r'0\.(\d{1,4})\.(\d{1,3})\b', version)
    return 1000 * int(match[1]) + int(match[2]) if match else 0


def release_name(number: int) -> str:
    """Returns the release of jaxlib of a number: 4030 -> '0.4.30'."""
    return f'0.{number // 1000}.{number % 1000}'


def _processor(part: text.JsonObject) -> str:
    """Returns the processor that a source in a sidecar names."""
    if part['collection'].get('platform') == 'gpu':
        return GPU
    return str(part['machine']['cpu'])[:100]
