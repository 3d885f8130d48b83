"""Lines of a log, and bars on a terminal, of long work."""

import io
import sys

import pytest

from baselines.core import exits
from baselines.core import phases


@pytest.fixture(name='clock')
def _clock(monkeypatch):
    """The seconds that have passed, in a list of one."""
    now = [100.0]
    monkeypatch.setattr(phases.time, 'monotonic', lambda: now[0])
    return now


def test_a_log_has_the_beginning_every_half_minute_and_the_end(clock, capsys):
    with exits.log_progress(short=True):
        with phases.Phase('measuring', 2000, 'kernel', done=2) as phase:
            for seconds in (29, 1, 29, 31):
                clock[0] += seconds
                phase.set_remark(f'{phase.done} before')
                phase.update()
    assert capsys.readouterr() == (
        '',
        'measuring: 2,000 kernels\n'
        'measuring: 4 of 2,000 kernels in 30 s, 3 before\n'
        'measuring: 6 of 2,000 kernels in 90 s, 5 before\n'
        'measuring: done in 90.0 s\n',
    )
    with (
        exits.log_progress(short=True),
        phases.Phase('packing', 5_000_000, 'B') as phase,
    ):
        clock[0] += 30
        phase.update(2_000_000)
    lines = capsys.readouterr().err.splitlines()
    assert lines[:2] == ['packing: 5 MB', 'packing: 2 of 5 MB in 30 s']


def test_what_fails_is_not_done(capsys):
    with exits.log_progress(short=True), pytest.raises(ValueError):
        with phases.Phase('reading', 1, 'file'):
            raise ValueError
    assert capsys.readouterr().err == 'reading: 1 file\n'


def test_nobody_has_asked_for_lines(capsys):
    with exits.log_progress(short=True):
        pass
    assert list(phases.each([1, 2], 'reading', 2, 'file')) == [1, 2]
    assert capsys.readouterr() == ('', '')


def test_short_work_with_a_delay_is_not_mentioned(capsys):
    with exits.log_progress(short=True):
        with phases.Phase('compiling', 600, 'second', delay=5) as phase:
            phase.update()
    assert capsys.readouterr() == ('', '')


def test_a_terminal_has_a_bar_alone(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, 'stderr', terminal)
    with exits.log_progress(short=True):
        assert list(phases.each('ab', 'reading', 2, 'file')) == ['a', 'b']
    shown = terminal.getvalue()
    assert '\rreading: ' in shown and '\n' not in shown
