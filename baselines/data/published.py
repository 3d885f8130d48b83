"""The configurations on which layouts are published: 1,000 of each validation graph.

The lists are those of google-research-datasets/tpu_graphs (Apache-2.0), whose
evaluation scores only these.  They are in the published order; if a graph has fewer
configurations, some are repeated.
"""

import pathlib

import numpy as np


def read_validation_lists(collection: str) -> dict[str, np.ndarray]:
    """Returns int32 [1000], numbers of configurations, by the id of a graph.

    Args:
        collection: such as 'layout:xla:random'; of tiles there are none.
    """
    path = pathlib.Path(__file__).with_name('published_lists.npz')
    with np.load(path, allow_pickle=False) as stored:
        keys = [key for key in stored.files if key.startswith(f'{collection}/')]
        return {key.partition('/')[2]: stored[key] for key in keys}
