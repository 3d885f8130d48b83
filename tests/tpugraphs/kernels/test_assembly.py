"""Programs put together again compute what they did."""

import numpy as np
import pytest

from baselines.hlo import protos
from tests.helpers import measured_programs
from tpugraphs.clock import backend as backend_lib
from tpugraphs.kernels import assembly
from tpugraphs.kernels import building
from tpugraphs.kernels import cutting
from tpugraphs.kernels import rewriting

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


def outputs(backend, module, *arrays):
    program = backend.compile(module.SerializeToString())
    return program.outputs(program.place(arrays))


def test_layouts_become_transposes():
    # The constant's bytes lie column by column, and the bitcast takes the bytes.
    module = measured_programs.parsed("""
  x = f32[2,3] parameter(0)
  c = f32[2,3]{0,1} constant({{1,3,5},{2,4,6}})
  total = f32[2,3] add(x, c)
  ROOT r = f32[3,2]{0,1} bitcast(total)
""")
    x = np.array([[10, 20, 30], [40, 50, 60]], np.float32)
    [result] = outputs(backend_lib.Backend(), assembly.assemble(module, []), x)
    assert result.tolist() == [[11, 42], [23, 54], [35, 66]]


@pytest.mark.parametrize(
    'opcode, target, message',
    [
        ('bitcast', '', 'bitcast of types'),
        ('custom-call', '__cublas$gemm', r'a call of __cublas\$gemm into it'),
    ],
)
def test_what_cannot_be_put_together(opcode, target, message):
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [2]))
    shape = building.shape_of('s32', [2])
    entry.add(opcode, shape, [x], custom_call_target=target)
    with pytest.raises(cutting.Unsupported, match=message):
        assembly.assemble(module.finish(entry), [])


def test_a_kernel_is_replaced_at_all_of_its_places():
    product = 'lhs_contracting_dims={1}, rhs_contracting_dims={0}'
    original = measured_programs.parsed(f"""
  x = f32[64,48] parameter(0)
  weights = f32[48,48] parameter(1)
  first = f32[64,48] dot(x, weights), {product}
  ROOT second = f32[64,48] dot(first, weights), {product}
""")
    backend = backend_lib.Backend()
    content = backend.compile(original.SerializeToString(), plain=True).optimised()
    optimised = protos.HloModuleProto.FromString(content)
    [kernel], _ = cutting.cut(optimised, 'program')
    assert len(kernel.places) == 2
    plan = rewriting.Plan(kernel.module)
    tiled = rewriting.tile(plan, rewriting.Tiles((16, 48), (48,)))
    made = assembly.assemble(optimised, [(kernel, tiled.module)])
    called = [
        number
        for computation in made.computations
        for i in computation.instructions
        if i.opcode == 'call'
        for number in i.called_computation_ids
    ]
    [shared] = {number for number in called if called.count(number) == 2}
    loops = [i.opcode for c in made.computations for i in c.instructions].count('while')
    assert shared and loops == 1

    rng = np.random.default_rng(0)
    x = rng.uniform(0, 1, (64, 48)).astype(np.float32)
    weights = rng.uniform(0, 1, (48, 48)).astype(np.float32)
    [result] = outputs(backend, made, x, weights)
    np.testing.assert_allclose(result, x @ weights @ weights, rtol=1e-4)
