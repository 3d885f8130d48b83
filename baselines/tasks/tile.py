"""The tile collection: open its data, make its models, rank with a run."""

import os
from typing import Any, Dict

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines.data import families
from baselines.data.tile import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import schema
from baselines.ranking import metrics
from baselines.ranking import report
from baselines.ranking import submission
from baselines.tasks import prediction
from baselines.tasks import training
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring

_TOY_FILES = 100


def make_model(
    name: str,
    kwargs: Dict[str, Any],
    models_file: str,
    num_configs: int,
    num_ops: int,
    normalizer: normalizer_lib.Normalizer,
) -> tf.keras.Model:
    """Makes a model and its variables, from its name.

    Raises:
        ValueError: the name or a keyword is unknown.
    """
    model_class = registry.resolve(name, registry.tile_models(models_file), 'model')
    model = registry.construct(model_class, num_configs, num_ops, kwargs)
    model.forward(graphs_lib.example_graph(normalizer), 2)
    return model


def open_split(options: Any, split: str) -> store_lib.TileStore:
    """Opens a split, packing it on first use.

    Args:
        options: DataOptions, or the settings of a training.
        split: 'train', 'valid' or 'test'.
    """
    if options.sample_data:
        from baselines.simulated.tile import dataset

        root = dataset.ensure_dataset()
    else:
        root = files.expand(options.data_root)
    return store_lib.open_tile_split(
        os.path.join(root, split),
        options.cache_dir,
        skip_bad_files=options.skip_bad_files,
        limit=_TOY_FILES if options.toy_data else None,
    )


def kernel_labels(store: store_lib.TileStore, kernel: int) -> np.ndarray:
    """Runtimes of a kernel divided by their normalisers, float64."""
    rows = slice(*store.config_offsets[kernel : kernel + 2])
    return np.asarray(store.config_runtime[rows]) / np.asarray(
        store.config_runtime_normalizers[rows]
    )


class Predictor(prediction.Predictor):
    """A run of a tile model."""

    config_class = config_lib.TileConfig
    config_columns = len(schema.TILE)

    def _open(self, split):
        return open_split(self._data, split)

    def _program_of(self, graph_id):
        return families.program_of_kernel(graph_id)

    def _make_model(self, name, kwargs, models_file, configs):
        return make_model(
            name, kwargs, models_file, configs, self.num_ops, self.normalizer
        )

    def _scores(self, store):
        graphs = graphs_lib.TileGraphs(store, self.normalizer)
        scored = scoring.TileScorer(self.model, graphs).score_all()
        title = f'ranking {os.path.basename(store.source)}'
        for kernel, scores in training.with_bar(
            scored, store.num_graphs, title, 'kernel'
        ):
            yield store.graph_ids[kernel], scores

    def labels(self, store, number):
        return kernel_labels(store, number)

    def row(self, graph_id, scores):
        return submission.tile_row(graph_id, metrics.best_first(scores))

    def summarise(self, results):
        return report.summarise_tile(results)
