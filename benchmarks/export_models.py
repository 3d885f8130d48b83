"""Exports models of other people's packages as HLO, to be measured.

  pip install jax==0.4.30 jaxlib==0.4.30 flax==0.8.5 transformers==4.44.2 \
      dm-haiku==0.0.12 optax==0.2.3 dm-pix==0.4.5 rlax==0.1.6 \
      jraph==0.0.6.dev0 tensorflow==2.15.1 numpy==1.26.4
  python benchmarks/export_models.py OUT

in an environment of its own: only these programs' measured kernels ship, none of the
packages.  OUT/train_on gets the programs that may be trained on, OUT/by_others those
whose families stand nowhere else and that are only ever tested on; one HloModuleProto
a file.  Models have their own code and random or no weights, two layers where depth is
a setting, and small odd sizes; each is exported as inference, as a training step, or
both, in float32 and bfloat16.

A file is called GROUP_TYPE_MODE_MODEL.pb: models of one GROUP are alike in architecture
(BERT and RoBERTa), and a family for splits.
"""

import argparse
import functools
import itertools
import os
from typing import Callable, Iterator, List, Tuple

import exported_models
import jax
import tensorflow as tf

# Groups that are only tested on.  Chosen before any model was tried on them.
BY_OTHERS = ('decoder', 'speech', 'mobile', 'image', 'control')

_APPLICATIONS = (
    ('residual_nets', 'ResNet50', 47),
    ('dense_nets', 'DenseNet121', 44),
    ('inception_nets', 'InceptionV3', 79),
    ('separable_nets', 'Xception', 72),
    ('plain_nets', 'VGG16', 36),
    ('convnext_nets', 'ConvNeXtTiny', 40),
    ('search_nets', 'NASNetMobile', 40),
    ('mobile', 'MobileNetV2', 50),
    ('mobile', 'MobileNetV3Small', 54),
    ('mobile', 'EfficientNetB0', 46),
)


def application_programs() -> Iterator[Tuple[str, Callable[[], bytes]]]:
    """Yields names of Keras applications, and what exports them."""
    for kind, policy in (('f32', 'float32'), ('bf16', 'mixed_bfloat16')):
        for group, model, size in _APPLICATIONS:
            if kind == 'bf16' and model in ('NASNetMobile', 'ConvNeXtTiny', 'VGG16'):
                continue
            small = model in ('MobileNetV3Small', 'ResNet50', 'VGG16', 'Xception')
            for mode in ('infer', 'train') if small else ('infer',):
                name = f'{group}_{kind}_{mode}_{model.lower()}'
                yield name, functools.partial(_application, model, policy, size, mode)


def _application(model: str, policy: str, size: int, mode: str) -> bytes:
    """Returns a Keras application as a serialised HloModuleProto."""
    tf.keras.mixed_precision.set_global_policy(policy)
    tf.keras.backend.clear_session()
    # NASNet wants 1,000 classes, or none.
    top = {'include_top': False} if model == 'NASNetMobile' else {'classes': 30}
    make = getattr(tf.keras.applications, model)
    net = make(weights=None, input_shape=(size, size, 3), **top)

    def infer(x: tf.Tensor) -> tf.Tensor:
        return net(x, training=False)

    def train(x: tf.Tensor) -> List[tf.Tensor]:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.cast(net(x, training=True), tf.float32)))
        return tape.gradient(loss, net.trainable_variables)

    compiled = tf.function({'infer': infer, 'train': train}[mode], jit_compile=True)
    images = tf.zeros([2, size, size, 3])
    return compiled.experimental_get_compiler_ir(images)(stage='hlo_serialized')


def jax_programs() -> Iterator[Tuple[str, Callable[[], bytes]]]:
    """Yields names of JAX programs, and what exports them."""
    for program in exported_models.programs():
        yield program.name, functools.partial(_lowered, program)


def _lowered(program: exported_models.Program) -> bytes:
    """Returns a JAX program as a serialised HloModuleProto."""
    hlo = jax.jit(program.function).lower(*program.arguments).compiler_ir('hlo')
    return hlo.as_serialized_hlo_module_proto()


def main() -> None:
    """Exports what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('output', metavar='OUT')
    output = parser.parse_args().output
    for name, export in itertools.chain(jax_programs(), application_programs()):
        part = 'by_others' if name.startswith(BY_OTHERS) else 'train_on'
        path = os.path.join(output, part, f'{name}.pb')
        if os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            content = export()
        except Exception as error:  # a model that this version cannot trace
            first = str(error).strip().partition('\n')[0]
            print(f'left out {name}: {type(error).__name__}: {first}')
            continue
        with open(f'{path}.part', 'wb') as stream:
            stream.write(content)
        os.replace(f'{path}.part', path)
        print(f'{path}: {len(content):,} bytes', flush=True)


if __name__ == '__main__':
    main()
