"""Programs put together again compute what they did."""

import numpy as np
import pytest

from baselines.hlo import protos
from tpugraphs.measure import assembly
from tpugraphs.measure import backend as backend_lib
from tpugraphs.measure import building
from tpugraphs.measure import kernels
from tpugraphs.measure import tiling

pytest.importorskip('jaxlib', reason='jaxlib is not installed (the extra [measure])')


def outputs(backend, module, *arrays):
    program = backend.compile(module.SerializeToString())
    return program.outputs(program.place(arrays))


def test_layouts_become_transposes():
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [2, 3]))
    columns = building.shape_of('f32', [2, 3])
    columns.layout.minor_to_major[:] = [0, 1]
    constant = entry.add('constant', columns)
    constant.literal.shape.CopyFrom(columns)
    constant.literal.f32s.extend([1, 2, 3, 4, 5, 6])  # column by column
    total = entry.add('add', x.shape, [x, constant])
    turned = building.shape_of('f32', [3, 2])
    turned.layout.minor_to_major[:] = [0, 1]
    entry.add('bitcast', turned, [total])  # the same bytes: the transpose
    made = assembly.assemble(module.finish(entry), [])
    x = np.array([[10, 20, 30], [40, 50, 60]], np.float32)
    [found] = outputs(backend_lib.Backend(), made, x)
    assert found.tolist() == [[11, 42], [23, 54], [35, 66]]


@pytest.mark.parametrize(
    'opcode, target, told',
    [
        ('bitcast', '', 'bitcast of types'),
        ('custom-call', '__cublas$gemm', r'a call of __cublas\$gemm into it'),
    ],
)
def test_what_cannot_be_put_together(opcode, target, told):
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [2]))
    shape = building.shape_of('s32', [2])
    entry.add(opcode, shape, [x], custom_call_target=target)
    with pytest.raises(kernels.Unsupported, match=told):
        assembly.assemble(module.finish(entry), [])


def test_a_kernel_is_replaced_at_all_of_its_places():
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [64, 48]))
    weights = entry.parameter(building.shape_of('f32', [48, 48]))
    product = x
    for _ in range(2):
        product = entry.add('dot', x.shape, [product, weights])
        product.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
        product.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    original = module.finish(entry)

    backend = backend_lib.Backend()
    content = backend.compile(original.SerializeToString(), plain=True).optimised()
    optimised = protos.protos().HloModuleProto.FromString(content)
    found, _ = kernels.cut(optimised, 'program')
    [kernel] = found
    assert len(kernel.places) == 2
    plan = tiling.Plan(kernel.module)
    tiled = tiling.tile(plan, tiling.Tiles((16, 48), (48,)))
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
