"""One small program in every form that programs have: tanh(x) @ w, f32[64,96]."""

from collections.abc import Callable
import pathlib
import textwrap

import pytest

from baselines.hlo import protos
from tests.helpers import hlo_modules
from tpugraphs_lab.programs import xla

HLO = """\
// what XLA dumps before its passes
HloModule turned

ENTRY %main (x: f32[64,128], w: f32[128,96]) -> f32[64,96] {
  %x = f32[64,128]{1,0} parameter(0)
  %w = f32[128,96]{1,0} parameter(1)
  %turned = f32[64,128]{1,0} tanh(%x)
  ROOT %dot = f32[64,96]{1,0} dot(%turned, %w), lhs_contracting_dims={1}, \
rhs_contracting_dims={0}
}
"""

OWN_TILES = (
    '{"window_config":{"kernel_window_bounds":["16","1"],"output_window_bounds":'
    '["8","1"],"input_window_bounds":[],"iteration_bounds":["1","1"],'
    '"estimated_cycles":"3874","ml_estimated_microseconds":"2.5"}}'
)

# With the layouts, and the tiles, of a TPU.
OPTIMISED = f"""\
HloModule turned, is_scheduled=true

%fused (p: f32[64,128], q: f32[128,96]) -> f32[64,96] {{
  %p = f32[64,128]{{1,0:T(8,128)}} parameter(0)
  %q = f32[128,96]{{1,0:T(8,128)}} parameter(1)
  %turned = f32[64,128]{{1,0:T(8,128)}} tanh(%p)
  ROOT %dot = f32[64,96]{{1,0:T(8,128)}} dot(%turned, %q), lhs_contracting_dims={{1}}, \
rhs_contracting_dims={{0}}
}}

ENTRY %main (x: f32[64,128], w: f32[128,96]) -> f32[64,96] {{
  %x = f32[64,128]{{1,0:T(8,128)}} parameter(0)
  %w = f32[128,96]{{1,0:T(8,128)}} parameter(1)
  ROOT %fusion.7 = f32[64,96]{{1,0:T(8,128)}} fusion(%x, %w), kind=kOutput, \
calls=%fused, backend_config={OWN_TILES}
}}
"""

_MLIR = """\
module @turned {
  func.func public @main(%x: tensor<64x128xf32>, %w: tensor<128x96xf32>)
      -> tensor<64x96xf32> {
    %0 = DIALECT.tanh %x : tensor<64x128xf32>
    %1 = "DIALECT.dot"(%0, %w)
        : (tensor<64x128xf32>, tensor<128x96xf32>) -> tensor<64x96xf32>
    return %1 : tensor<64x96xf32>
  }
}
"""
STABLEHLO, MHLO = (_MLIR.replace('DIALECT', name) for name in ('stablehlo', 'mhlo'))

TENSORFLOW = """
import tensorflow as tf

@tf.function(input_signature=[tf.TensorSpec([64, 128]), tf.TensorSpec([128, 96])])
def traced(x, w):
    return tf.tanh(x) @ w

def plain(x, w):
    return tf.tanh(x) @ w

x, w = tf.keras.Input([128], batch_size=64), tf.keras.Input([96], batch_size=128)
keras_model = tf.keras.Model([x, w], tf.tanh(x) @ w)

def example_args():
    return tf.zeros([64, 128]), tf.zeros([128, 96])
"""

JAX = """
import jax
import jax.numpy as jnp

@jax.jit
def turned(x, weights):
    return jnp.tanh(x) @ weights['w']

example_args = (
    jax.ShapeDtypeStruct((64, 128), jnp.float32),
    {'w': jax.ShapeDtypeStruct((128, 96), jnp.float32)},
)
"""


def module():
    """Returns the program as an HloModuleProto."""
    return _parse(HLO)


def fused(backend_config=OWN_TILES):
    """Returns it as XLA for TPUs leaves it: a fusion that says XLA's own tiles."""
    made = _parse(OPTIMISED.replace(':T(8,128)', ''))
    made.computations[-1].instructions[-1].backend_config = backend_config.encode()
    return made


def _parse(text):
    made = protos.HloModuleProto.FromString(xla.parse_text(text))
    made.ClearField('id')  # XLA counts its modules
    return made


def write(form: str, folder: pathlib.Path) -> str:
    """Writes the program in a form; returns what a command is given.

    Names of files end in nothing that tells the form.
    """
    made = FORMS[form](folder)
    if isinstance(made, str) and made.startswith(str(folder)):
        return made
    path = folder / 'program.dat'
    path.write_bytes(made.encode() if isinstance(made, str) else made)
    return str(path)


def _bytecode(folder: pathlib.Path) -> bytes:
    from jaxlib import xla_client

    return xla_client._xla.mlir.serialize_portable_artifact(STABLEHLO, '0.17.0')


def _tuned(folder: pathlib.Path) -> bytes:
    runs = [hlo_modules.tile_run(output_bounds=[8, n + 1]) for n in range(3)]
    tuning = hlo_modules.tuning(module(), runs)
    return hlo_modules.tile_file(tuning)


def _message(name: str, **fields) -> bytes:
    kind = getattr(protos, name)
    return kind(**fields).SerializeToString()


def _dump(folder: pathlib.Path) -> bytes:
    # With a buffer assignment, as XLA dumps it; as bytes it looks like a run.
    message = protos.HloProto(hlo_module=module())
    message.buffer_assignment.buffer_allocations.add(size=64 * 128 * 4)
    return message.SerializeToString()


def _snapshot(folder: pathlib.Path) -> bytes:
    hlo = protos.HloProto(hlo_module=module())
    return _message('HloSnapshot', hlo=hlo, execution_platform='Host')


def _python(content: str, name: str) -> Callable[[pathlib.Path], str]:
    def make(folder: pathlib.Path) -> str:
        if 'jax' in content:
            pytest.importorskip('jax')
        (folder / 'mine.py').write_text(textwrap.dedent(content))
        return f'{folder}/mine.py:{name}'

    return make


def _saved_model(folder: pathlib.Path) -> str:
    import tensorflow as tf

    made = tf.Module()
    spec = [tf.TensorSpec([64, 128], name='a'), tf.TensorSpec([128, 96], name='b')]
    made.turned = tf.function(lambda a, b: {'y': tf.tanh(a) @ b}, input_signature=spec)
    signatures = {'turned': made.turned}
    tf.saved_model.save(made, str(folder / 'saved'), signatures=signatures)
    return f'{folder}/saved:turned'


FORMS: dict[str, Callable] = {
    'HloModuleProto': lambda folder: module().SerializeToString(),
    'HloProto': _dump,
    'HloSnapshot': _snapshot,
    'HLO text': lambda folder: HLO,
    'optimised HLO text': lambda folder: OPTIMISED,
    'StableHLO text': lambda folder: STABLEHLO,
    'MHLO text': lambda folder: MHLO,
    'StableHLO bytecode': _bytecode,
    'tuning data': _tuned,
    'tf.function': _python(TENSORFLOW, 'traced'),
    'TensorFlow function': _python(TENSORFLOW, 'plain'),
    'Keras model': _python(TENSORFLOW, 'keras_model'),
    'SavedModel': _saved_model,
    'jax.jit function': _python(JAX, 'turned'),
}
