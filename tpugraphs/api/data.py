"""Opens splits of the collections as lists of records, which are read on demand."""

from collections.abc import Sequence
import contextlib
import glob
import os
from typing import Any

from baselines import config
from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.data import collections
from baselines.tasks import lookup
from tpugraphs.inspect import contents

# Either name means the measured data that ship.
PACKAGED = ('sample', 'measured')

_MOST_ROWS = 20  # of a table in a notebook


class Records(Sequence):
    """The graphs of a split, whose records are read on demand.

    Attributes:
        ids: names of the graphs, sorted.

    `records[3]`, `records[-1]` and `records['<graph id>']` are a `TileRecord` or a
    `LayoutRecord`, `records[:10]` is a list of them.
    """

    def __init__(self, store: Any):
        self._store = store
        self.ids = list(store.graph_ids)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, which: int | str | slice) -> Any:
        if isinstance(which, slice):
            return [self._store.record(n) for n in range(len(self))[which]]
        if isinstance(which, str):
            if which not in self.ids:
                raise KeyError(
                    f'no graph {which!r}{registry.suggest_name(which, self.ids)}'
                )
            which = self.ids.index(which)
        return self._store.record(range(len(self))[which])

    def __repr__(self) -> str:
        return f'<{len(self):,} records of {self._store.source}>'

    def _repr_html_(self) -> str:
        offsets, counts = self._store.node_offsets, self._store.config_counts
        nodes = offsets[1:] - offsets[:-1]
        rows = [
            [name, f'{n:,}', f'{c:,}'] for name, n, c in zip(self.ids, nodes, counts)
        ]
        head = ['graph', 'nodes', 'configurations']
        return text.make_html_table([head, *rows], _MOST_ROWS)


def open_records(
    root: str | os.PathLike[str],
    split: str = 'train',
    *,
    task: str = '',
    source: str = 'xla',
    search: str = 'random',
    cache_dir: str = '',
) -> Records:
    """Opens a split; it is packed on first use, and memory-mapped from then on.

    Args:
        root: 'sample' (the measured data that ship) or the folder with the splits, such
            as ~/data/tpugraphs/npz/tile/xla or .../npz/layout/xla/random.
        split: 'train', 'valid' or 'test'.
        task: 'tile' or 'layout'; by default that of the folder's files, and tile for
            'sample'.
        source: compiler of layout programs: 'xla' or 'nlp'; 'sample' has 'xla' alone.
        search: the search that chose their configurations: 'random' or 'default';
            'sample' has 'random' alone.
        cache_dir: folder of packed splits; by default ~/data/tpugraphs/cache.

    Raises:
        ValueError: there is no such split, or a file in it is damaged.
        OSError: the cache cannot be written.
    """
    check_split(split)
    options = make_data_settings(root)
    if 'data_root' in options:
        folder = os.path.join(files.expand(options['data_root']), split)
        task = task or _detect_task(folder)
    task = task or 'tile'
    kind = registry.resolve(task, config.CONFIGS, 'task')
    # A tile collection has no such flags.
    flags = {'source': source, 'search': search} if task == 'layout' else {}
    collection = collections.select_collection(flags)
    if 'data_root' in options:
        # The folder that was named holds the splits themselves.
        collection = collection._replace(subfolder='')
    settings = kind(cache_dir=cache_dir or kind.cache_dir, **options)
    return Records(
        lookup.TASKS[collection.task].store_class.open_collection(
            collection, settings, split
        )
    )


def make_data_settings(data: str | os.PathLike[str] | None) -> text.JsonObject:
    """Returns the settings of data: 'sample', also called 'measured', or a folder."""
    if data is None:
        return {}
    if data in PACKAGED:
        return {'sample_data': True}
    return {'data_root': convert_path('data', data)}


def convert_path(argument: str, value: object) -> str:
    """Returns a path as text; raises ValueError, which names the argument."""
    if not isinstance(value, (str, os.PathLike)):
        raise ValueError(f'{argument} must be a path or a name, not {value!r}')
    return os.fspath(value)


def check_split(split: str) -> None:
    """Raises ValueError unless there is a split of that name."""
    registry.resolve(split, dict.fromkeys(collections.SPLITS), 'split')


def _detect_task(folder: str) -> str:
    """Returns the task of the first file of a split; '' if it is damaged."""
    for path in sorted(glob.glob(os.path.join(glob.escape(folder), '*.npz')))[:1]:
        with contextlib.suppress(ValueError, OSError):  # opening it raises them again
            return contents.detect_task(path)
    return ''
