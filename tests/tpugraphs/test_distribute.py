"""Scores from the workers of a Beam runner are those of one process."""

import functools

import pytest

from baselines.tasks import tile
from tests.helpers import made_runs
from tests.helpers import tile_records
from tests.helpers.processes import command
from tpugraphs.distribute import beam

_IN_MEMORY = ('--runner=DirectRunner', '--beam_options=--direct_running_mode=in_memory')


@pytest.fixture(scope='module')
def runs(tmp_path_factory):
    """Two runs of a model that differ, and where their data are."""
    root = tmp_path_factory.mktemp('runs')
    tile_records.write_splits(root / 'data', 12)
    return root, [made_runs.make_tile_run(root, seed=seed) for seed in (0, 1)]


def _flags(root):
    return f'--cache_dir={root}/cache', f'--data_root={root}/data'


@pytest.mark.slow  # imports Apache Beam
def test_a_runner_changes_nothing(runs, tmp_path, monkeypatch, capsys):
    root, made = runs
    monkeypatch.setattr(tile.Tile, 'configs_at_once', 50)
    outputs = []
    for way in ((), _IN_MEMORY):
        output = tmp_path / f'{len(way)}.csv'
        flags = ('--dirs', *made, *_flags(root), *way, f'--output={output}')
        assert command('ensemble', *flags) == 0, capsys.readouterr().err
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1]
    assert not list((root / 'cache').glob('scores_*'))


@pytest.mark.slow
def test_what_is_scored_stays_when_it_breaks_off(runs, tmp_path, monkeypatch, capsys):
    root, made = runs
    monkeypatch.setattr(tile.Tile, 'configs_at_once', 50)
    score_part, log = beam.score_part, tmp_path / 'scored'
    log.touch()

    def scored(part, work, most=2):
        # In a file: Beam gives its workers copies of functions and of what they hold.
        parts = log.read_text().splitlines()
        if len(parts) == most:
            raise RuntimeError('the cluster\nis gone')
        log.write_text('\n'.join([*parts, repr(part)]))
        return score_part(part, work)

    monkeypatch.setattr(beam, 'score_part', scored)
    output = tmp_path / 'a.csv'
    flags = ('--dir', made[0], *_flags(root))
    assert command('predict', *flags, *_IN_MEMORY, f'--output={output}') == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith('error: the Beam pipeline did not end well (DirectRunner)')
    assert 'the cluster is gone' in error
    [folder] = (root / 'cache').glob('scores_*')
    assert len(list(folder.glob('*.json'))) == 2
    monkeypatch.setattr(beam, 'score_part', functools.partial(scored, most=None))
    assert command('predict', *flags, *_IN_MEMORY, f'--output={output}') == 0
    parts = log.read_text().splitlines()
    assert len(parts) == len(set(parts)) > 2 and not folder.exists()
    assert command('predict', *flags, f'--output={tmp_path}/b.csv') == 0
    assert output.read_bytes() == (tmp_path / 'b.csv').read_bytes()


def test_options_without_a_runner_are_one_line(tmp_path, capsys):
    made = made_runs.make_tile_run(tmp_path)
    assert command('predict', '--dir', made, '--beam_options=--x=1') == 1
    assert capsys.readouterr().err == (
        'error: --beam_options is for a Beam runner: add --runner\n'
    )


@pytest.mark.slow  # imports Apache Beam
def test_a_runner_that_cannot_start_is_one_line(runs, capsys):
    root, made = runs
    flags = ('--dir', made[0], *_flags(root), '--runner=NoSuchRunner')
    assert command('predict', *flags) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith('error: the Beam pipeline did not end well')
    assert 'NoSuchRunner' in error
