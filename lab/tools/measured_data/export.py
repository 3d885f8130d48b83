"""Exports models of other people's packages as HLO, to be measured.

  pip install jax==0.4.30 jaxlib==0.4.30 flax==0.8.5 transformers==4.44.2 \
      diffusers==0.30.3 dm-haiku==0.0.12 optax==0.2.3 dm-pix==0.4.5 rlax==0.1.6 \
      jraph==0.0.6.dev0 tensorflow==2.15.1 tensorflow-probability==0.23.0 \
      numpy==1.26.4
  python lab/tools/measured_data/export.py OUT --sizes published

in an environment of its own: only these programs' measured kernels ship, none of the
packages.  OUT/train_on gets the programs that may be trained on, OUT/by_others those
whose families stand nowhere else and that are only ever tested on; one HloModuleProto
a file.  Models have their own code and random or no weights; each is exported as
inference, as a training step, or both, in float32 or bfloat16.  With `--sizes small`
they have two layers and small odd sizes; with `--sizes published` the sizes of their
papers, with one layer where layers are alike.

A file is called GROUP_TYPE_MODE_MODEL.pb: models of one GROUP are alike in architecture
(BERT and RoBERTa), and a family for splits.  What is there already is not exported
again.
"""

import argparse
import os

import published_models
import published_networks
import small_models

# Groups that are only tested on.  Chosen before any model was tried on them.
BY_OTHERS = ('decoder', 'speech', 'mobile', 'image', 'control')
_SOURCES = {
    'small': (small_models.programs,),
    'published': (published_models.programs, published_networks.programs),
}


def main() -> None:
    """Exports what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('output', metavar='OUT')
    parser.add_argument('--sizes', choices=[*_SOURCES], default='published')
    parser.add_argument('--only', default='', help='programs with this in their name')
    args = parser.parse_args()
    for source in _SOURCES[args.sizes]:
        for name, export in source():
            part = 'by_others' if name.startswith(BY_OTHERS) else 'train_on'
            path = os.path.join(args.output, part, f'{name}.pb')
            if os.path.exists(path) or args.only not in name:
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            try:
                content = export()
            except Exception as error:  # a model that this version cannot trace
                first = str(error).strip().partition('\n')[0]
                print(f'left out {name}: {type(error).__name__}: {first}', flush=True)
                continue
            with open(f'{path}.part', 'wb') as stream:
                stream.write(content)
            os.replace(f'{path}.part', path)
            print(f'{path}: {len(content):,} bytes', flush=True)


if __name__ == '__main__':
    main()
