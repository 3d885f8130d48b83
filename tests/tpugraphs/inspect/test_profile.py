"""The time of a program's kernels: the table by hand, and real ones."""

import json

import numpy as np
import pytest

from tests.helpers import measured_programs
from tests.helpers import program_forms
from tests.helpers import shapes
import tpugraphs
from tpugraphs import commands
from tpugraphs.inspect.kernel_times import KernelTime
from tpugraphs.inspect.kernel_times import Profile

_MACHINE = {'call_ns': 1000, 'bytes_per_second': 2e10, 'flops_per_second': 5e10}


def _profile(time_ns=10_000):
    kernels = [
        KernelTime('dot.1', 2, 'f32[4]', 3000, 0.6, 30_000, 75_000, 0.5, 0.5),
        KernelTime('add<2>', 1, 'f32[4]', 1500, 0.15, 60_000, 0, 2.0, 0.0),
    ]
    skipped = {'kernel of several arrays': 2}
    return Profile(kernels, 'mine', time_ns, '', _MACHINE, skipped)


def test_a_profile_is_a_table():
    assert repr(_profile()).splitlines() == [
        'mine: 10 us',
        'a copy reaches 20.0 GB/s, a product of matrices 50.0 GFLOP/s on this core',
        '',
        'kernel  times  shape     time  share  bytes/s  FLOP/s',
        '-' * 53,
        'dot.1       2  f32[4]    3 us  60.0%      50%     50%',
        'add<2>      1  f32[4]  1.5 us  15.0%     200%       -',
        'no kernel explains 25.0% of the time',
        'not timed: kernel of several arrays (2)',
    ]
    assert '<td>add&lt;2&gt;</td>' in _profile()._repr_html_()


def test_a_profile_as_json_and_as_a_frame():
    pandas = pytest.importorskip('pandas')
    found = shapes.check('show --time', json.dumps(_profile().to_json()))
    assert found['unexplained'] == pytest.approx(0.25)
    frame = _profile().to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert frame.time_ns.tolist() == [3000, 1500]


def test_of_a_program_that_was_not_timed_nothing_is_unexplained():
    assert _profile(None).unexplained is None


def test_what_cannot_be_timed_is_one_line(tmp_path, capsys):
    path = measured_programs.write(tmp_path / 'a.pb', measured_programs.product())
    assert commands.run('show', [path, '--time', '--module', 'x']) == 1
    error = 'error: --time is of a program: leave --module and --plot out\n'
    assert capsys.readouterr().err == error
    assert commands.run('show', [path, '--seconds', '5']) == 1
    error = 'error: --seconds=5 is for --time: give both\n'
    assert capsys.readouterr().err == error


@pytest.mark.slow
def test_the_kernels_of_a_program_are_timed():
    pytest.importorskip('jaxlib')
    module = measured_programs.product()
    arrays = [np.ones(shape, np.float32) for shape in [(64, 128), (128, 96)]]
    found = tpugraphs.profile(module, *arrays)
    [kernel] = [kernel for kernel in found if kernel.flops]
    # 64 x 96 results of 128 products each; inputs and results of four bytes.
    assert (kernel.times, kernel.flops) == (1, 2 * 64 * 96 * 128)
    assert kernel.bytes == 4 * (64 * 128 + 128 * 96 + 64 * 96)
    assert kernel.share == pytest.approx(kernel.time_ns / found.time_ns)
    assert 0 < kernel.of_compute and found.machine['call_ns'] > 0
    optimized = tpugraphs.profile(program_forms.fused(''))
    assert optimized.time_ns is None and 'optimized already' in optimized.problem
    assert sum(k.share for k in optimized) == pytest.approx(1)


@pytest.mark.slow
def test_a_program_that_waits_for_the_host_is_not_timed_as_a_whole():
    pytest.importorskip('jaxlib')
    array = 'f32[256,64]'
    lines = [
        f'p = {array} parameter(0)',
        't = token[] after-all()',
        f'o = token[] outfeed(p, t), outfeed_shape={array}',
        f'ROOT r = {array} exponential(p)',
    ]
    text = 'HloModule m\nENTRY e {\n' + '\n'.join(lines) + '\n}'
    found = tpugraphs.profile(text.encode())
    assert found.time_ns is None and found.problem == 'cut out: 1 outfeed'
    assert [kernel.shape for kernel in found] == [array]


@pytest.mark.slow
def test_a_program_that_never_ends_is_given_up():
    pytest.importorskip('jaxlib')
    found = tpugraphs.profile(measured_programs.ENDLESS.encode(), seconds=4)
    assert found.problem == 'took more than 4 s; allow more seconds'
    assert 'f32[256,64]' in [kernel.shape for kernel in found]


@pytest.mark.parametrize('seconds', [0, -1, float('nan')])
def test_seconds_are_above_0(seconds):
    with pytest.raises(ValueError, match=f'seconds={seconds}: give more than 0'):
        tpugraphs.profile(measured_programs.product(), seconds=seconds)
