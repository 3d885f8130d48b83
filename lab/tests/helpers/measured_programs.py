"""Small programs to measure, as HloModuleProtos."""

import re

from baselines.hlo import protos
from tpugraphs_lab.kernels import building
from tpugraphs_lab.programs import xla

# A program whose loop never ends, as text of XLA.
ENDLESS = """
HloModule endless

body {
  s = (f32[], f32[256,64]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  y = f32[256,64] get-tuple-element(s), index=1
  z = f32[256,64] exponential(y)
  ROOT t = (f32[], f32[256,64]) tuple(x, z)
}

condition {
  s = (f32[], f32[256,64]) parameter(0)
  x = f32[] get-tuple-element(s), index=0
  limit = f32[] constant(2)
  ROOT less = pred[] compare(x, limit), direction=LT
}

ENTRY main {
  x = f32[] parameter(0)
  y = f32[256,64] parameter(1)
  s = (f32[], f32[256,64]) tuple(x, y)
  ROOT w = (f32[], f32[256,64]) while(s), condition=condition, body=body
}
"""


def pointwise(*dims, opcode='negate'):
    """Makes one operation on a float32 array: one kernel."""
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', dims))
    entry.add(opcode, x.shape, [x])
    return module.finish(entry)


def product():
    """Makes dot, reshape, identity reshape, exponential: one kernel, of which nodes 2
    and 3 have layouts to choose."""
    module = building.Module('program')
    entry = module.computation('entry')
    x = entry.parameter(building.shape_of('f32', [64, 128]))
    y = entry.parameter(building.shape_of('f32', [128, 96]))
    dot = entry.add('dot', building.shape_of('f32', [64, 96]), [x, y])
    dot.dot_dimension_numbers.lhs_contracting_dimensions.append(1)
    dot.dot_dimension_numbers.rhs_contracting_dimensions.append(0)
    split = entry.add('reshape', building.shape_of('f32', [8, 8, 96]), [dot])
    same = entry.add('reshape', split.shape, [split])
    entry.add('exponential', split.shape, [same])
    return module.finish(entry)


_REDUCER = """
{0} {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] {0}(a, b)
}}
"""


def parsed(instructions):
    """Returns a module of instructions in HLO text, row-major where no layout stands.

    Reducers are called by their operation, as in to_apply=maximum.
    """

    def row_major(match):
        orders = map(str, reversed(range(match.group().count(',') + 1)))
        return f'{match.group()}{{{",".join(orders)}}}'

    reducers = ''.join(
        map(_REDUCER.format, re.findall(r'to_apply=(\w+)', instructions))
    )
    entry = re.sub(r'\[[\d,]+\](?!{)', row_major, instructions)
    text = f'HloModule program\n{reducers}\nENTRY entry {{{entry}\n}}'
    return protos.HloModuleProto.FromString(xla.parse_text(text))


def write(path, module):
    """Writes a module; returns the path as text."""
    path.write_bytes(module.SerializeToString())
    return str(path)
