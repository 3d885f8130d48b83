"""The files that a training step and a prediction pass are those of architecture.md.

Derived by profiling: of each walk every file of the package whose code runs, in the
order in which they are entered.  Foundations (`baselines/core`), the packed split and
the table of columns, which are data, are left out.
"""

import re
import sys

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.scoring import graph_source
from baselines.scoring import loading
from baselines.tasks import lookup
from baselines.training import loop
from baselines.training import losses
from baselines.training import task_data
from tests.helpers import made_runs
from tests.helpers import places
from tests.helpers import tile_records

_MOST_FILES = 12
_LEFT_OUT = 'core/', 'data/packed/splits.py', 'hlo/schema.py'


def _walked(call):
    """Returns the files of `baselines` that a call passes, in order of entrance."""
    root, passed = str(places.ROOT / 'baselines') + '/', {}

    def enter(frame, event, unused_argument):
        path = frame.f_code.co_filename
        # Bodies of modules run when they are imported, which is no part of a walk.
        if event == 'call' and path.startswith(root):
            if frame.f_code.co_name != '<module>':
                passed.setdefault(path[len(root) :])

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [path for path in passed if not path.startswith(_LEFT_OUT)]


def _documented(beginning):
    """Returns the files in the paragraph of architecture.md that begins like this."""
    text = (places.ROOT / 'docs/architecture.md').read_text(encoding='utf-8')
    [paragraph] = [p for p in text.split('\n\n') if p.startswith(f'**{beginning}**')]
    return re.findall(r'`(\w+(?:/\w+)*/\w+\.py)`', paragraph)


@pytest.mark.slow
def test_a_training_step_of_tiles(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    settings = config.TileConfig(
        data_root=str(tmp_path / 'data'),
        cache_dir=str(tmp_path / 'cache'),
        epochs=1,
        validate_batches=0,
    )
    data, task = task_data.open_data(settings), lookup.TASKS['tile']
    model = task.make_model('MLP', {}, '', 10, data.num_ops, data.normalizer)
    loss = losses.CombinedLoss(settings.losses, task.temperature)

    class Unused:
        def chosen(self, graphs, configs):
            return None

    trainer = loop.Trainer(model, loss, settings, Unused())
    tf.config.run_functions_eagerly(True)  # a compiled step hides what it is made of
    try:
        walked = _walked(lambda: trainer.fit(data))
    finally:
        tf.config.run_functions_eagerly(False)
    assert walked == _documented('A training step of tiles')
    assert len(walked) <= _MOST_FILES


@pytest.mark.slow
def test_a_prediction_of_tiles(tmp_path):
    model_dir = made_runs.make_tile_run(tmp_path)
    rng = np.random.default_rng(0)
    tile_records.write_split(tmp_path / 'test', [tile_records.make_record(rng)])
    options = graph_source.Options(str(tmp_path), str(tmp_path / 'cache'))
    predictor = loading.load_predictor(model_dir, options)
    store = predictor.open_split('test')
    output = str(tmp_path / 'test.csv')
    walked = _walked(lambda: predictor.write(output, store, predictor.score(store)))
    assert walked == _documented('A prediction of tiles')
    assert len(walked) <= _MOST_FILES
