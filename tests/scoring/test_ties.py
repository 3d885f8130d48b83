"""Notes on scores that do not depend on the configuration."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines.data.tile import store as tile_store
from baselines.scoring import prediction
from baselines.training import run_training
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tests.helpers import tiny_models


@pytest.mark.parametrize(
    'scored, is_noted',
    [
        ([[2, 2, 2], [5]], True),
        ([[2, 2 + 2**-21, 2], [5, 5]], True),  # 2 units in the last place of float32
        ([[2, 2, 2], [5, 6]], False),
        ([[2, float('inf')]], False),  # damaged trees: no tie
    ],
)
def test_equal_scores_get_a_note(scored, is_noted, capsys, monkeypatch):
    counts = [len(scores) for scores in scored]
    kernels = tile_records.make_records(len(scored), configs=counts)
    options = prediction.Options(collection='tile:xla')
    predictor = prediction.load('estimate', options)
    members = [(np.array(scores),) for scores in scored]
    monkeypatch.setattr(predictor, 'score_members', lambda store: iter(members))
    store = tile_store.TileStore.from_records('here', kernels)
    # `zip` ends with the names, without asking for another score.
    for expected, scores in zip(scored, predictor.score(store)):
        assert scores.tolist() == expected
    assert ('note: estimate ' in capsys.readouterr().err) == is_noted


@pytest.mark.slow
@pytest.mark.usefixtures('weights_alone')
def test_a_training_notes_that_it_learned_nothing(tmp_path, capsys):
    class Useless(tiny_models.Tiny):
        """Scores by the first column, reversed."""

        def forward(self, graph, num_configs, training=False):
            learned = super().forward(graph, num_configs, training)
            column = tf.reshape(graph.node_sets['config']['feats'][:, 0], learned.shape)
            return -(column + 1e-9 * learned)

    for split in ('train', 'valid', 'test'):
        records = [
            dataclasses.replace(
                record, config_runtime=1000 + record.config_feat[:, 0].astype(np.int64)
            )
            for record in tile_records.make_records(6)
        ]
        tile_records.write_split(tmp_path / 'data' / split, records)
    settings = tile_runs.settings(tmp_path, model='Useless', epochs=1)
    run_training.train(settings, models=[Useless])
    printed = capsys.readouterr()
    [said] = [line for line in ''.join(printed).splitlines() if 'random choice' in line]
    assert said.startswith('note: ')
