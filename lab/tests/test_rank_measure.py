"""`tpugraphs rank --measure`: times of the first choices next to the default."""

import json

import numpy as np
import pytest

from lab.tests.helpers import lab_commands
from lab.tests.helpers import measured_programs
from lab.tests.helpers import program_forms
from tpugraphs_lab import measure
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.measure.clock import timing
from tpugraphs_lab.programs import extras

# Of the default, compiled twice, which seems up to 2 % slower or faster than itself.
_DEFAULT = np.array([100_000, 101_000, 100_000, 102_000, 100_000, 101_000])
_AGAIN = np.array([101_000, 100_000, 102_000, 100_000, 101_000, 100_000])


@pytest.fixture(name='answers')
def _answers(monkeypatch):
    """Makes sessions answer with these instead of starting a process."""
    answers = []

    def answer(self, modules, *unused_args):
        answer = answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer(len(modules))

    monkeypatch.setattr(session_lib.Session, '__enter__', lambda self: self)
    monkeypatch.setattr(session_lib.Session, 'measure', answer)
    monkeypatch.setattr(extras, 'has_jaxlib', lambda: True)
    return answers


def _twice_as_fast(count):
    passes = np.stack([_DEFAULT, *[_DEFAULT // 2] * (count - 1)], axis=1)
    return timing.Measured([*range(count)], passes, _AGAIN, {})


@pytest.fixture(name='program')
def _program(tmp_path):
    """A program with one kernel, which nothing has to compile."""
    return measured_programs.write(tmp_path / 'mine.pb', program_forms.fused(''))


def _rank(*words):
    return lab_commands.run('rank', [*words, '--dir', 'estimate'])


def test_times_are_compared_with_the_default(answers):
    passes = [_DEFAULT, _DEFAULT // 2, _DEFAULT + 500, _DEFAULT * 2]
    kept, dropped = [0, 1, 2, 4], {3: timing.WRONG}
    measured = timing.Measured(kept, np.stack(passes, axis=1), _AGAIN, dropped)
    answers.append(lambda count: measured)
    sizes = [(128, 64), (1, 64), (2, 64), (4, 64), (8, 64), (16, 64)]
    configs = [{'output_bounds': size, 'kernel_bounds': ()} for size in sizes]
    module = measured_programs.pointwise(128, 64)
    rows = measure.time_choices(measure.Session(), module, configs)
    assert [row['outcome'] for row in rows] == [
        *('the default', 'faster', 'no faster than the default', 'wrong result'),
        *('slower', 'too little time'),
    ]
    times = [row['measured_ns'] for row in rows]
    assert times == [100_000, 50_000, 100_500, None, 200_000, None]
    ratios = [row['ratio'] for row in rows]
    assert ratios[:2] == [1, 0.5] and ratios[4] == pytest.approx(2)
    # In every pass it takes half of the default's time: the ratio has no noise.
    assert rows[1]['noise'] == 0 < rows[0]['noise'] < 0.02


def test_they_are_printed_next_to_the_predicted_order(
    answers, program, tmp_path, capsys
):
    answers += [_twice_as_fast] * 2
    assert _rank(program, '--measure', '3', '--top', '1') == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[3:8] == ['measured', 'noise', 'x', 'default', 'outcome']
    # The estimate prefers the default.
    default, second, third = (line.split() for line in lines[2:5])
    assert second[3:8] == third[3:8] == ['50', 'us', '0.0%', '0.500', 'faster']
    assert default[3:5] == ['100', 'us'] and default[-1] == '(default)'
    path = tmp_path / 'ranked.csv'
    assert _rank(program, '--measure', '2', '--json', '--output', str(path)) == 0
    [module] = json.loads(capsys.readouterr().out)['modules']
    _, second, third = module['configurations'][:3]
    assert (second['measured_ns'], second['outcome']) == (50_000, 'faster')
    assert 'measured_ns' not in third
    head, _, row, *_ = path.read_text().splitlines()
    assert head.endswith(',config,measured_ns,noise,ratio,outcome')
    assert row.endswith(',50000,0.0,0.5,faster')


def test_a_kernel_that_cannot_be_timed_says_why(answers, program, capsys):
    answers.append(measure.WorkerError('not comparable: a result does not change'))
    assert _rank(program, '--measure', '2') == 0
    assert '  not timed: not comparable: a result does' in capsys.readouterr().out


def test_ctrl_c_prints_what_was_measured(answers, program, tmp_path, capsys):
    other = measured_programs.write(tmp_path / 'b.pb', program_forms.fused(''))
    answers += [_twice_as_fast, KeyboardInterrupt()]
    assert _rank(program, other, '--measure', '2', '--json') == 130
    captured = capsys.readouterr()
    [module] = json.loads(captured.out)['modules']
    assert module['configurations'][1]['measured_ns'] == 50_000
    assert captured.err.endswith('\ninterrupted\n')


@pytest.mark.parametrize(
    'module, words, message',
    [
        ('', ['0'], 'at least 1, not 0'),
        ('', ['1', '--collection', 'layout:xla:random'], 'estimate ranks layouts'),
        ('', ['1', '--candidates', 'c.json'], 'leave out --candidates'),
        (program_forms.OWN_TILES, ['1'], 'mine.pb: compiled for a TPU, so --measure'),
    ],
)
def test_what_is_not_timed_is_one_line(
    answers, tmp_path, monkeypatch, capsys, module, words, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'c.json').write_text('[{"output_bounds": [8, 8]}]')
    measured_programs.write(tmp_path / 'mine.pb', program_forms.fused(module))
    assert _rank('mine.pb', '--measure', *words) == 1
    error = capsys.readouterr().err
    assert message in error and error.count('\n') == 1


def test_files_of_tuning_data_and_no_jaxlib_are_one_line(tmp_path, monkeypatch, capsys):
    source = program_forms.write('tuning data', tmp_path)
    monkeypatch.setattr(extras, 'has_jaxlib', lambda: True)
    assert _rank(source, '--measure', '1') == 1
    assert f'{source}: --measure times programs, and this is' in capsys.readouterr().err
    monkeypatch.setattr(extras, 'has_jaxlib', lambda: False)
    assert _rank(source, '--measure', '1') == 1
    assert '--measure needs jaxlib, which is not installed;' in capsys.readouterr().err


def test_a_kernel_is_timed(program, capsys):
    assert _rank(program, '--measure', '1', '--json') == 0
    [module] = json.loads(capsys.readouterr().out)['modules']
    [default] = [c for c in module['configurations'] if c['is_default']]
    assert default['measured_ns'] > 1000 and default['outcome'] == 'the default'
