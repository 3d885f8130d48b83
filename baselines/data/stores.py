"""Splits of any collection, opened from wherever the data are.  No TensorFlow."""

import os
from typing import Any, Dict, Type

from baselines import files
from baselines.data import collections
from baselines.data import shipped
from baselines.data.layout import store as layout_store
from baselines.data.packed import splits
from baselines.data.tile import store as tile_store

STORES: Dict[str, Type[splits.PackedSplit]] = {
    'tile': tile_store.TileStore,
    'layout': layout_store.LayoutStore,
}


def open_split(
    collection: collections.Collection, options: Any, split: str
) -> splits.PackedSplit:
    """Opens a split, packing it on first use.

    Args:
        collection: of the split.
        options: where the graphs are: `prediction.Options` or settings of a training.
        split: 'train', 'valid' or 'test'.

    Raises:
        ValueError: it is missing or damaged.
        OSError: the cache cannot be written.
    """
    if options.sample_data:
        root = shipped.folder(collection.task)
        if not os.path.isdir(os.path.join(root, collection.subfolder)):
            raise ValueError(
                f'no measured {collection.name} ships with this version; of layouts '
                'there are those of source xla and search random'
            )
    else:
        root = files.expand(options.data_root)
    return STORES[collection.task].open(
        os.path.join(root, collection.subfolder, split),
        options.cache_dir,
        skip_bad_files=options.skip_bad_files,
        limit=collection.toy_files if options.toy_data else None,
    )
