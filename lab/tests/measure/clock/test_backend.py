"""The backend gives NumPy's results with every release of jaxlib.

pytest lab/tests/measure/clock/test_backend.py --platform gpu  # on a GPU
"""

import subprocess
import sys
import types

import jaxlib
import numpy as np
import pytest

import baselines
from baselines.hlo import protos
from tpugraphs_lab.kernels import cutting
from tpugraphs_lab.measure.clock import backend as backend_lib
from tpugraphs_lab.programs import children
from tpugraphs_lab.programs import xla

_X = np.arange(12, dtype=np.float32).reshape(3, 4)
_ADD = (
    'add { p = f32[] parameter(0)\n q = f32[] parameter(1)\n ROOT r = f32[] add(p, q) }'
)
# Name -> computations before the entry, its instructions, arguments, results.
_MODULES = {
    'tuple results': (
        '',
        'p = f32[3,4] parameter(0)\n n = f32[3,4] negate(p)\n'
        'ROOT t = (f32[3,4], f32[3,4]) tuple(p, n)',
        [_X],
        [_X, -_X],
    ),
    # What jaxlib has no StableHLO for.
    'copy and erf': (
        '',
        'p = f32[3,4] parameter(0)\n c = f32[3,4] copy(p)\nROOT e = f32[3,4] erf(c)',
        [np.zeros((3, 4), np.float32)],
        [np.zeros((3, 4), np.float32)],
    ),
    'while': (
        'body { s = (s32[], f32[]) parameter(0)\n'
        'i = s32[] get-tuple-element(s), index=0\n'
        'v = f32[] get-tuple-element(s), index=1\n one = s32[] constant(1)\n'
        'j = s32[] add(i, one)\n w = f32[] add(v, v)\n'
        'ROOT t = (s32[], f32[]) tuple(j, w) }\n'
        'cond { s = (s32[], f32[]) parameter(0)\n'
        'i = s32[] get-tuple-element(s), index=0\n'
        'n = s32[] constant(5)\n ROOT r = pred[] compare(i, n), direction=LT }',
        'z = s32[] constant(0)\n p = f32[] parameter(0)\n'
        't = (s32[], f32[]) tuple(z, p)\n'
        'w = (s32[], f32[]) while(t), condition=cond, body=body\n'
        'ROOT r = f32[] get-tuple-element(w), index=1',
        [np.float32(3)],
        [np.float32(96)],  # 3 doubled five times
    ),
    'reduce-window': (
        _ADD,
        'p = f32[3,4] parameter(0)\n z = f32[] constant(0)\n'
        'ROOT r = f32[3,3] reduce-window(p, z), window={size=1x2}, to_apply=add',
        [_X],
        [_X[:, :-1] + _X[:, 1:]],
    ),
    'convolution': (
        '',
        'p = f32[1,4,1] parameter(0)\n k = f32[2,1,1] parameter(1)\n'
        'ROOT r = f32[1,3,1] convolution(p, k), window={size=2}, '
        'dim_labels=b0f_0io->b0f',
        [np.float32([[[1], [2], [3], [4]]]), np.float32([[[10]], [[1]]])],
        [np.float32([[[12], [23], [34]]])],
    ),
    'dot': (
        '',
        'p = f32[3,4] parameter(0)\n'
        'ROOT r = f32[3,3] dot(p, p), lhs_contracting_dims={1}, '
        'rhs_contracting_dims={1}',
        [_X],
        [_X @ _X.T],
    ),
    'gather': (
        '',
        'p = f32[3,4] parameter(0)\n i = s32[2] parameter(1)\n'
        'ROOT r = f32[2,4] gather(p, i), offset_dims={1}, collapsed_slice_dims={0},'
        ' start_index_map={0}, index_vector_dim=1, slice_sizes={1,4}',
        [_X, np.int32([2, 0])],
        [_X[[2, 0]]],
    ),
    'scatter': (
        _ADD,
        'p = f32[3,4] parameter(0)\n i = s32[2] parameter(1)\n'
        'u = f32[2,4] parameter(2)\n'
        'ROOT r = f32[3,4] scatter(p, i, u), update_window_dims={1},'
        ' inserted_window_dims={0}, scatter_dims_to_operand_dims={0},'
        ' index_vector_dim=1, to_apply=add',
        [_X, np.int32([1, 1]), np.ones((2, 4), np.float32)],
        [_X + np.float32([[0], [2], [0]])],
    ),
    'sort': (
        'less { p = f32[] parameter(0)\n q = f32[] parameter(1)\n'
        'ROOT r = pred[] compare(p, q), direction=LT }',
        'p = f32[4] parameter(0)\n'
        'ROOT r = f32[4] sort(p), dimensions={0}, to_apply=less',
        [np.float32([3, 1, 4, 2])],
        [np.float32([1, 2, 3, 4])],
    ),
    'rng': (
        '',
        's = u64[2] parameter(0)\n'
        'g = (u64[2], u32[64]) rng-bit-generator(s), algorithm=rng_three_fry\n'
        'b = u32[64] get-tuple-element(g), index=1\n ROOT r = u32[64] xor(b, b)',
        [np.uint64([1, 2])],
        [np.zeros(64, np.uint32)],
    ),
    'donated input': (
        '',
        'p = f32[3,4] parameter(0)\n ROOT r = f32[3,4] add(p, p)',
        [_X],
        [2 * _X],
    ),
}
_TYPES = {
    'f32 f64 s32 and pred': ['float32', 'float64', 'int32', 'bool'],
    'f16 and bf16': ['float16', 'bfloat16'],
    's8 s16 s64': ['int8', 'int16', 'int64'],
    'u8 u16 u32 u64': ['uint8', 'uint16', 'uint32', 'uint64'],
    'c64': ['complex64'],
    's4': ['int4'],
}
_HLO_TYPES = {'bool': 'pred', 'bfloat16': 'bf16', 'complex64': 'c64', 'int4': 's4'}


@pytest.fixture(name='platform', scope='module')
def fixture_platform(request):
    return request.config.getoption('platform')


@pytest.fixture(name='compiled')
def fixture_compiled(platform):
    def compiled(entry, before='', header='', plain=False):
        text = f'HloModule m{header}\n{before}\nENTRY e {{ {entry} }}'
        return backend_lib.Backend(platform).compile(xla.parse_text(text), plain)

    return compiled


@pytest.mark.parametrize('name', _MODULES)
def test_results_are_those_of_numpy(name, compiled):
    before, entry, arrays, expected = _MODULES[name]
    header = ', input_output_alias={ {}: (0, {}, may-alias) }'
    program = compiled(entry, before, header if name == 'donated input' else '')
    actual = program.outputs(program.place(arrays))
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected):
        assert mine.dtype == np.asarray(theirs).dtype
        np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize('name', _TYPES)
def test_every_type_is_passed_through(name, compiled):
    import ml_dtypes  # with jaxlib

    kinds = [np.dtype(getattr(ml_dtypes, n, None) or n) for n in _TYPES[name]]
    arrays = [np.array([[0, 1, 1], [1, 0, 1]]).astype(kind) for kind in kinds]
    types = []
    for kind in _TYPES[name]:
        letter = {'f': 'f', 'i': 's', 'u': 'u'}.get(kind[0], '')
        types.append(_HLO_TYPES.get(kind) or letter + kind.strip('floatuinx'))
    lines = [f'p{n} = {t}[2,3] parameter({n})' for n, t in enumerate(types)]
    lines += [f'c{n} = {t}[2,3] copy(p{n})' for n, t in enumerate(types)]
    shapes = ', '.join(f'{t}[2,3]' for t in types)
    names = ', '.join(f'c{n}' for n in range(len(types)))
    program = compiled('\n'.join([*lines, f'ROOT t = ({shapes}) tuple({names})']))
    for mine, theirs in zip(program.outputs(program.place(arrays)), arrays):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine.astype(complex), theirs.astype(complex))


_LAYER = (
    'p = f32[64,32] parameter(0)\n w = f32[32,16] parameter(1)\n'
    'd = f32[64,16] dot(p, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n'
    'z = f32[] constant(0)\n b = f32[64,16] broadcast(z), dimensions={}\n'
    'm = f32[64,16] maximum(d, b)\n e = f32[64,16] exponential(m)\n'
    'ROOT r = f32[64] reduce(e, z), dimensions={1}, to_apply=add'
)


def test_kernels_are_cut_from_the_optimised_module(compiled):
    content = compiled(_LAYER, _ADD, plain=True).optimised()
    module = protos.HloModuleProto.FromString(content)
    opcodes = {i.opcode for c in module.computations for i in c.instructions}
    assert {'dot', 'reduce', 'exponential'} <= opcodes
    assert not opcodes & {'custom-call', 'call'}  # no library stands for an operation
    cut, skipped = cutting.cut(module, 'layer')
    assert not skipped
    assert 2 <= len(cut) <= 3  # the product, and what follows it, fused or not


_ONE_THREAD = """
import os, sys, time
import numpy as np
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from tpugraphs_lab.measure.clock import backend as backend_lib
from tpugraphs_lab.measure.clock import session as session_lib
from tpugraphs_lab.programs import xla
program = backend_lib.Backend().compile(xla.parse_text(sys.stdin.read()))
buffers = program.place([np.ones((512, 512), np.float32)] * 2)
program.run(buffers)
process, thread = time.process_time_ns(), time.thread_time_ns()
for _ in range(10):
    program.run(buffers)
process, thread = time.process_time_ns() - process, time.thread_time_ns() - thread
print(process / thread)
"""


def test_one_thread_alone_works(platform):
    if platform != 'cpu':
        pytest.skip('a graphics processor is timed by the wall clock')
    text = (
        'HloModule m\nENTRY e { p = f32[512,512] parameter(0)\n w = f32[512,512] '
        'parameter(1)\n d = f32[512,512] dot(p, w), lhs_contracting_dims={1}, '
        'rhs_contracting_dims={0}\n ROOT t = f32[512,512] tanh(d) }'
    )
    done = subprocess.run(
        [sys.executable, '-c', _ONE_THREAD],
        input=text,
        capture_output=True,
        text=True,
        env={**children.make_environment(), **backend_lib.VARIABLES},
        check=True,
    )
    # Of the whole process, relative to the thread that calls.
    assert float(done.stdout) == pytest.approx(1, abs=0.05)


def test_a_release_that_is_not_supported_names_one_that_is(monkeypatch):
    nothing = types.ModuleType('xla_client')  # a module that lacks all that is used
    monkeypatch.setattr(jaxlib, 'xla_client', nothing)
    monkeypatch.setattr(baselines, 'version', lambda package: '9.9.9')
    message = (
        r'jaxlib 9.9.9 does not work here \(.*has no attribute.*\); the newest release '
        rf'tried is {xla.NEWEST}; run pip install jax==(.*) jaxlib==\1$'
    )
    with pytest.raises(ValueError, match=message):
        backend_lib.Backend()
