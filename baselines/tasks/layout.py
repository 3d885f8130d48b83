"""The layout collections: open their data, make their models, rank with a run."""

import os
from typing import Any, Dict

import numpy as np
import tensorflow as tf

from baselines import config as config_lib
from baselines import files
from baselines import registry
from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import schema
from baselines.layout import graphs as graphs_lib
from baselines.layout import programs as programs_lib
from baselines.layout import scoring
from baselines.ranking import metrics
from baselines.ranking import report
from baselines.ranking import submission
from baselines.tasks import prediction
from baselines.tasks import training

_TOY_FILES = 5


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
        ValueError: the name or a keyword is unknown, or the model needs raw
            columns that were expanded.
    """
    model_class = registry.resolve(
        name, registry.layout_models(models_file), 'layout model'
    )
    if 'scaling' in (registry.options(model_class) or ()):
        if not normalizer.expansion.is_published:
            raise ValueError(
                f'--model={name} undoes the scaling of raw columns; train it '
                'without --features and --mod128'
            )
        kwargs = {'scaling': normalizer.to_json(), **kwargs}
    model = registry.construct(model_class, num_configs, num_ops, kwargs)
    model.forward(
        graphs_lib.example_graph(
            normalizer.num_node_features, normalizer.num_config_features
        ),
        2,
    )
    return model


def open_split(
    options: Any, source: str, search: str, split: str
) -> layout_store.LayoutStore:
    """Opens a split of a collection, packing it on first use.

    Args:
        options: DataOptions, or the settings of a training.
        source: 'xla' or 'nlp'.
        search: 'random' or 'default'.
        split: 'train', 'valid' or 'test'.
    """
    if options.sample_data:
        from baselines.simulated.layout import dataset

        root = dataset.ensure_dataset()
    else:
        root = files.expand(options.data_root)
    return layout_store.open_layout_split(
        os.path.join(root, source, search, split),
        options.cache_dir,
        skip_bad_files=options.skip_bad_files,
        limit=_TOY_FILES if options.toy_data else None,
    )


def subset(program: graphs_lib.Program, configs: np.ndarray) -> graphs_lib.Program:
    """The same program with only some of its configurations.

    Args:
        program: with c configurations.
        configs: int [s], numbers of configurations.
    """
    groups, group = np.unique(program.group[configs], return_inverse=True)
    return graphs_lib.Program(
        **{
            **vars(program),
            'codes': program.codes[groups],
            'group': group,
            'runtimes': program.runtimes[configs],
        }
    )


class Predictor(prediction.Predictor):
    """A run of a layout model."""

    config_class = config_lib.LayoutConfig
    config_columns = len(schema.LAYOUT)

    @property
    def collection(self):
        """(source, search) of the run."""
        return tuple(
            str(self.run.args.get(name, getattr(self.config_class, name)))
            for name in ('source', 'search')
        )

    def _open(self, split):
        return open_split(self._data, *self.collection, split)

    def _program_of(self, graph_id):
        return graph_id

    def _make_model(self, name, kwargs, models_file, configs):
        return make_model(
            name, kwargs, models_file, configs, self.num_ops, self.normalizer
        )

    def _scores(self, store):
        programs = programs_lib.StoredPrograms(store, self.normalizer)
        scorer = scoring.LayoutScorer(self.model, self._data.memory_budget << 20)
        numbers = training.with_bar(
            range(len(programs)),
            len(programs),
            f'ranking {os.path.basename(store.source)}',
            'program',
        )
        for number in numbers:
            yield store.graph_ids[number], scorer.score(programs[number])

    def labels(self, store, number):
        return np.asarray(store.config_runtime[store.rows('config', number)])

    def row(self, graph_id, scores):
        order = metrics.best_first(scores)
        return submission.layout_row(*self.collection, graph_id, order)

    def summarise(self, results):
        return report.summarise_layout(results)
