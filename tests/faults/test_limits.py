"""Memory for many configurations, and processes that start at once."""

import numpy as np
import pytest

from baselines.evaluation import submission
from tests.faults import calls
from tests.faults import table
from tests.helpers import hlo_modules
from tests.helpers import tile_records
from tests.helpers import tile_runs

_MANY = 100_000  # configurations of a kernel
_MB = 1 << 20


def test_a_run_is_saved_before_its_ranking(tmp_path, monkeypatch):
    pytest.importorskip('lightgbm')

    def fail(path, rows):
        raise OSError(f'{path}: no')

    tile_records.write_splits(tmp_path / 'data')
    trees = dict(model='Trees', model_kwargs_json='{"trees": 2}')
    with monkeypatch.context() as patch:
        patch.setattr(submission, 'write_predictions', fail)
        with pytest.raises(OSError):
            tile_runs.train(tmp_path, **trees)
    [model_dir] = (tmp_path / 'out').glob('model_*')
    assert tile_runs.train(tmp_path, **trees, resume=True)[0] == model_dir
    assert len([*(tmp_path / 'out').glob('*.csv')]) == 1


@pytest.mark.slow
def test_many_configurations_are_evaluated(world):
    rng = np.random.default_rng(0)
    record = tile_records.make_record(rng, 'many', nodes=40, configs=_MANY)
    tile_records.write_split(world / 'npz/tile/xla/valid', [record])
    words = ['evaluate', *table.COMMANDS['evaluate'].words.split()]
    done = calls.run(world, words, calls.more_memory, 250 * _MB)
    assert done.code == 0, done


@pytest.mark.slow
def test_many_configurations_are_extracted(world):
    tuning = hlo_modules.good_tile(times=[100 + n % 7 for n in range(_MANY)])
    (world / 'many.pb').write_bytes(hlo_modules.tile_file(tuning))
    done = calls.run(world, ['extract', 'many.pb', 'new'], calls.more_memory, 250 * _MB)
    assert done.code == 0, done
    [path] = (world / 'new').iterdir()
    with np.load(path) as arrays:
        assert arrays['config_feat'].shape == (_MANY, 24)
