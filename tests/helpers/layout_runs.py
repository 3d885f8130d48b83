"""Trainings of small layout runs, and splits for them."""

import numpy as np

from baselines import config
from baselines.training import run_training
from tests.helpers import finished_runs
from tests.helpers import layout_files
from tests.helpers import tiny_layout_models

# A model that is trained and saved in a moment.
TINY = dict(model='Tiny', models_file=tiny_layout_models.__file__)
# ResModel as small as it gets.
SMALL = '{"hidden_dim": 4, "num_gnns": 1, "mlp_layers": 1, "op_embed_dim": 2}'
NODES = 12  # of a training program; its splits are [0, 6, 12]


def settings(root, **changes):
    """Makes settings of a short training on `<root>/data` into `<root>/out`."""
    fields = dict(
        model_kwargs_json='{}' if 'models_file' in changes else SMALL,
        data_root=str(root / 'data'),
        cache_dir=str(root / 'cache'),
        out_dir=str(root / 'out'),
        epochs=3,
    )
    return config.LayoutConfig(**{**fields, **changes})


def train(root, **changes):
    """Returns (model directory, what training printed)."""
    return finished_runs.run_quietly(run_training.train, settings(root, **changes))


def training_program(number):
    """Makes a program of the training split, of 17 to 39 different configurations."""
    return layout_files.make_record(
        np.random.default_rng(number), f'program_{number}', nodes=NODES, configs=40
    )


def write_splits(folder, **changes):
    """Writes train (6 programs), valid (4) and test (2, no runtimes).

    Args:
        folder: of a collection.
        **changes: fields of the programs of valid and test.
    """
    train_split = [training_program(number) for number in range(6)]
    for program in train_split:
        assert 16 < len(np.unique(program.node_config_feat, axis=0)) < 40
    layout_files.write_split(folder / 'train', train_split)
    layout_files.write_split(folder / 'valid', programs(4, 1, **changes))
    layout_files.write_split(
        folder / 'test', programs(2, 2, configs=120, is_test=True, **changes)
    )


def programs(count, seed, configs=40, **changes):
    """Makes programs 0, 1, ... of 12 to 14 nodes."""
    rng = np.random.default_rng(seed)
    return [
        layout_files.make_record(
            rng, f'program_{i}', nodes=NODES + i % 3, configs=configs, **changes
        )
        for i in range(count)
    ]
