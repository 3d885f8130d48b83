"""Scores from the workers of a Beam runner are those of one process."""

import pytest

from baselines.tiles import task as tile
from tests.helpers import made_runs
from tests.helpers import tile_records
from tests.helpers.processes import command

_IN_MEMORY = ('--runner=DirectRunner', '--beam_options=--direct_running_mode=in_memory')


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Two runs of a model that differ, and where their data are."""
    root = tmp_path_factory.mktemp('runs')
    tile_records.write_splits(root / 'data', 12)
    data = f'--cache_dir={root}/cache', f'--data_root={root}/data'
    return root, data, [made_runs.make_tile_run(root, seed=seed) for seed in (0, 1)]


@pytest.mark.slow  # imports Apache Beam
def test_a_runner_changes_nothing(runs, tmp_path, monkeypatch, capsys):
    root, data, made = runs
    monkeypatch.setattr(tile.Tile, 'configs_at_once', 50)
    outputs = []
    for way in ((), _IN_MEMORY):
        output = tmp_path / f'{len(way)}.csv'
        flags = ('--dirs', *made, *data, *way, f'--output={output}')
        assert command('predict', *flags) == 0, capsys.readouterr().err
        outputs.append([path.read_bytes() for path in sorted(tmp_path.glob('*_*'))])
        for path in tmp_path.glob('*_*'):
            path.unlink()
    assert len(outputs[0]) == 2 and outputs[0] == outputs[1]
    assert not list((root / 'cache').glob('.results_*'))


@pytest.mark.slow  # imports Apache Beam
def test_a_runner_that_cannot_start_is_one_line(runs, capsys):
    _, data, made = runs
    flags = ('--dir', made[0], *data, '--runner=NoSuchRunner')
    assert command('predict', *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith('error: ') and 'NoSuchRunner' in error
