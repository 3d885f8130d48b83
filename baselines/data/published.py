"""The configurations on which layouts are published: 1,000 of each validation graph.

The lists are those of google-research-datasets/tpu_graphs (Apache-2.0), whose
evaluation scores only these.  They are in the published order; if a graph has fewer
configurations, some are repeated.
"""

import pathlib

import numpy as np


def validation_lists(collection: str) -> dict[str, np.ndarray]:
    """Returns int32 [1000], numbers of configurations, by the id of a graph.

    Args:
        collection: such as 'layout:xla:random'; of tiles there are none.
    """
    lists = {}
    path = pathlib.Path(__file__).with_name('published_lists.npz')
    with np.load(path, allow_pickle=False) as stored:
        for key in stored.files:
            name, _, graph_id = key.partition('/')
            if name == collection:
                lists[graph_id] = stored[key]
    return lists
