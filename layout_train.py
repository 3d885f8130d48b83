"""Trains a layout model on one of the four collections and ranks its test split.

Try it on measured programs, which come with the package:

  python layout_train.py --sample_data

On the real collection (`tpugraphs download` fetches it):

  python layout_train.py --source=nlp --search=default --out_dir=~/out/layout

With the recipe instead of the published settings:

  python layout_train.py --recipe=strong

It leaves model_<hash>/ (a Keras SavedModel), run_<hash>.jsonz (curves, flags,
errors; gzipped JSON) and a CSV that ranks every configuration of the test
programs.  Ctrl-C stops it; the same command with --resume goes on after the
last finished epoch.
"""

import baselines  # noqa: F401  says what is missing before the rest is imported

# isort: split
from baselines import config
from baselines import scripts

if __name__ == '__main__':
    scripts.run_training_script(config.LayoutConfig, __doc__)
