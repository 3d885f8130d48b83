"""Untrusted records, threads and forked processes: scores, or one line."""

import concurrent.futures
import dataclasses
import functools
import multiprocessing
import pickle

from hypothesis import HealthCheck
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
import numpy as np
import pytest

from tests.faults import strategies
from tests.helpers import layout_files
from tests.helpers import made_runs
from tests.helpers import refusals
from tests.helpers import tile_records
import tpugraphs

pytestmark = pytest.mark.slow

_RECORDS = {
    'tile': tile_records.make_record(np.random.default_rng(0), 'graph', nodes=6),
    'layout': layout_files.make_record(np.random.default_rng(0), 'graph', nodes=6),
}


@pytest.fixture(name='rankers', scope='module')
def _rankers(tmp_path_factory):
    """A warm ranker of each task."""
    folder = tmp_path_factory.mktemp('rankers')
    dirs = {
        'tile': made_runs.make_tile_run(folder / 'tile'),
        'layout': made_runs.make_layout_run(folder / 'layout'),
    }
    rankers = {task: tpugraphs.load(path).ranker() for task, path in dirs.items()}
    for task, ranker in rankers.items():
        assert np.isfinite(ranker(_RECORDS[task])).all()
    return rankers


@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_a_bad_record_is_one_line_with_the_field(rankers, task):
    for value in (np.zeros((6, 139)), None, [[1, 2], [3]]):
        record = dataclasses.replace(_RECORDS[task], node_feat=value)
        rank = functools.partial(rankers[task], record)
        refusals.assert_refused(rank, 'node_feat')
    record = dataclasses.replace(_RECORDS[task], node_opcode=np.full(6, 'x'))
    refusals.assert_refused(lambda: rankers[task](record), 'node_opcode', '<U')


def test_what_is_no_record_or_no_configurations(rankers, tmp_path):
    refused = refusals.assert_refused
    for configs in ('abc', [[1, 2], [3]], 7, np.zeros((2, 23))):
        rank = functools.partial(rankers['tile'], _RECORDS['tile'], configs)
        refused(rank, 'config')
    refused(lambda: rankers['tile'](_RECORDS['layout']), 'LayoutRecord')
    refused(lambda: rankers['layout'](None), 'NoneType')
    refused(lambda: rankers['tile'](None, [{}]), 'TileRecord')
    run = tpugraphs.load(made_runs.make_tile_run(tmp_path))
    refused(lambda: run.rank([None]), 'NoneType')


@pytest.mark.parametrize('task', ['tile', 'layout'])
def test_records_of_any_content_are_scored_or_refused_in_one_line(rankers, task):
    record, rank = _RECORDS[task], rankers[task]
    fields = [field.name for field in dataclasses.fields(record)]

    @settings(suppress_health_check=list(HealthCheck))
    @given(st.sampled_from(fields), strategies.OBJECTS)
    def check(field, value):
        try:
            scores = rank(dataclasses.replace(record, **{field: value}))
        except ValueError as error:
            assert str(error) and '\n' not in str(error)
        else:
            assert np.isfinite(scores).all()

    check()


def test_threads_share_a_ranker_from_its_first_use(tmp_path):
    """Also where one of them has a bad record."""
    ranker = tpugraphs.load(made_runs.make_tile_run(tmp_path)).ranker()
    record = _RECORDS['tile']
    bad = dataclasses.replace(record, edge_index=np.zeros((4, 3), np.int32))
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        scored = [pool.submit(ranker, r) for r in (record, bad, record, record)]
    assert isinstance(scored.pop(1).exception(timeout=120), ValueError)
    expected = ranker(record)
    for scores in scored:
        np.testing.assert_allclose(scores.result(), expected, atol=1e-5)


def test_a_forked_process_is_told_to_spawn(rankers):
    context = multiprocessing.get_context('fork')
    receiver, sender = context.Pipe(duplex=False)

    def score():
        try:
            rankers['tile'](_RECORDS['tile'])
        except ValueError as error:
            sender.send(str(error))

    process = context.Process(target=score)
    process.start()
    try:
        assert receiver.poll(60), 'the process waits'
        assert "multiprocessing.get_context('spawn')" in receiver.recv()
    finally:
        process.kill()
        process.join()


def test_a_run_goes_to_another_process_without_its_model(tmp_path):
    run = tpugraphs.load(made_runs.make_tile_run(tmp_path))
    expected = run.ranker()(_RECORDS['tile'])
    again = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(again.ranker()(_RECORDS['tile']), expected)
