"""Scores from the workers of a Beam runner are those of one process."""

import time

import pytest

from baselines import bulk
from baselines.runs import spread
from tests.helpers import made_runs
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tests.helpers.processes import command

_IN_MEMORY = ('--runner=DirectRunner', '--beam_options=--direct_running_mode=in_memory')


@pytest.fixture(scope='module')
def runs(tmp_path_factory, weights_alone):
    """Two runs of a model that differ, and where they are."""
    root = tmp_path_factory.mktemp('spread')
    tile_records.write_splits(root / 'data', 12)
    made = [
        tile_runs.train(root, **tile_runs.TINY, seed=seed, epochs=1)[0]
        for seed in (0, 1)
    ]
    return root, made


def _flags(root):
    return (
        f'--cache_dir={root}/cache',
        f'--models_file={tile_runs.TINY["models_file"]}',
    )


@pytest.mark.slow  # imports Apache Beam
def test_a_runner_changes_nothing(runs, tmp_path, monkeypatch, capsys):
    root, made = runs
    monkeypatch.setattr('baselines.runs.tile_task.TileTask.configs_at_once', 50)
    for name, *words in [
        ('predict', '--dir', made[0]),
        ('ensemble', '--dirs', *made, '--split=valid'),
        ('evaluate', '--dir', made[0]),
    ]:
        found = []
        for way in ((), _IN_MEMORY):
            output = tmp_path / f'{name}{len(way)}'
            flags = (*words, *_flags(root), *way, f'--output={output}')
            assert command(name, *flags) == 0, capsys.readouterr().err
            found.append(output.read_bytes())
        assert found[0] == found[1]
    assert not list((root / 'cache').glob('scores_*'))


@pytest.mark.slow
def test_what_is_scored_stays_when_it_breaks_off(runs, tmp_path, monkeypatch, capsys):
    root, made = runs
    monkeypatch.setattr('baselines.runs.tile_task.TileTask.configs_at_once', 50)
    monkeypatch.setattr(spread, '_key', lambda predictor, what: 'known')
    done = []

    def run(work, jobs, folder, runner, arguments):
        for job in jobs:
            done.append(job[0])
            if len(done) == 3:
                raise RuntimeError('the cluster\nis gone')
            bulk._do(job, work, folder)

    monkeypatch.setattr(bulk, '_run', run)
    output = tmp_path / 'a.csv'
    flags = ('--dir', made[0], *_flags(root), f'--output={output}', '--runner=X')
    assert command('predict', *flags) == 1
    assert capsys.readouterr().err.endswith(
        'error: the Beam pipeline did not end well (X): the cluster is gone\n'
    )
    folder = root / 'cache/scores_known'
    kept = {path: path.stat().st_mtime_ns for path in folder.glob('*.npy')}
    assert len(kept) == 2
    scored = []
    score_part = spread.score_part

    def counted(part, what, folder):
        scored.append(part)
        return score_part(part, what, folder)

    monkeypatch.setattr(spread, 'score_part', counted)
    assert command('predict', *flags) == 0
    assert len(scored) == len(set(done)) - 2 and not folder.exists()
    assert command('predict', *flags[:-2], f'--output={tmp_path}/b.csv') == 0
    assert output.read_bytes() == (tmp_path / 'b.csv').read_bytes()


def test_options_without_a_runner_are_one_line(tmp_path, capsys):
    made = made_runs.make_tile_run(tmp_path)
    assert command('predict', '--dir', made, '--beam_options=--x=1') == 1
    assert capsys.readouterr().err == (
        'error: --beam_options is for a Beam runner: add --runner\n'
    )


@pytest.mark.slow  # imports Apache Beam
@pytest.mark.parametrize(
    'words, message',
    [
        (['--runner=NoSuchRunner'], 'NoSuchRunner'),
        (
            ['--runner=DaskRunner', '--beam_options=--dask_client_address=tcp://0:1'],
            'DaskRunner',
        ),
    ],
)
def test_a_runner_that_cannot_start_is_one_line(runs, words, message, capsys):
    if 'Dask' in words[0]:
        pytest.importorskip('distributed')
        words[1] += ' --dask_connection_timeout=1'
    root, made = runs
    assert command('predict', '--dir', made[0], *_flags(root), *words) == 1
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith('error: the Beam pipeline did not end well')
    assert message in error


@pytest.mark.slow
def test_dask_workers_score_and_extract_and_one_is_killed(runs, tmp_path, capsys):
    """A real cluster of two processes; one dies while files are extracted."""
    pytest.importorskip('distributed')
    import threading

    from tests.helpers import dask_cluster
    from tests.helpers import hlo_modules

    root, made = runs
    (tmp_path / 'raw').mkdir()
    for number in range(60):
        tuning = hlo_modules.good_tile(f'fusion.{number}', number)
        content = hlo_modules.tile_file(tuning)
        (tmp_path / f'raw/{number}.pb').write_bytes(content)
    with dask_cluster.cluster(tmp_path) as (address, workers):
        options = (
            '--runner=DaskRunner',
            f'--beam_options=--dask_client_address={address} --dask_npartitions=20',
        )
        out = tmp_path / 'dask'

        def kill():
            while len(list(out.glob('*.npz'))) < 5:
                time.sleep(0.01)
            workers[0].kill()

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        assert command('extract', tmp_path / 'raw', out, *options) == 0
        thread.join()
        flags = ('predict', '--dir', made[0], *_flags(root))
        assert command(*flags, f'--output={tmp_path}/dask.csv', *options) == 0
    assert command('extract', tmp_path / 'raw', tmp_path / 'plain') == 0
    assert command(*flags, f'--output={tmp_path}/plain.csv') == 0
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert len(written) == 60
    plain = (tmp_path / 'plain').iterdir()
    assert written == {path.name: path.read_bytes() for path in plain}
    assert (tmp_path / 'dask.csv').read_bytes() == (tmp_path / 'plain.csv').read_bytes()
