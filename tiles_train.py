"""Trains a tile model and ranks the test kernels with it.

Try it on measured kernels, which come with the package:

  python tiles_train.py --sample_data

On the real collection (`tpugraphs download` fetches it):

  python tiles_train.py --model=EarlyJoinSAGE --out_dir=~/out/tiles

With the recipe instead of the published settings:

  python tiles_train.py --recipe=strong

It leaves model_<hash>/ (a Keras SavedModel), run_<hash>.jsonz (curves, flags,
errors; gzipped JSON) and a CSV that ranks the test kernels.  Ctrl-C stops it;
the same command with --resume goes on after the last finished epoch.
"""

import baselines  # noqa: F401  says what is missing before the rest is imported

# isort: split
from baselines import config
from baselines import scripts

if __name__ == '__main__':
    scripts.run_training_script(config.TileConfig, __doc__)
