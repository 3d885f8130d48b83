"""What each command reads and writes: a new one joins the tests of faults here."""

import re
from typing import NamedTuple

_DATA = '--data_root=npz/tile/xla --cache_dir=cache'
_TREES = '--model=Trees --model_kwargs_json={"trees":2}'
_TRAIN = f'{_TREES} {_DATA} --out_dir=out'
_TRAINING = 'npz/tile/xla/train/program_1_0001.npz'
_CSVS = 'a.csv sample.csv'
_RUN = 'runs/run_aaaa.jsonz runs/model_aaaa/trees.txt'
_VALID = f'{_RUN} npz/tile/xla/valid/program_1_0001.npz'
_TEST = f'{_RUN} npz/tile/xla/test/program_1_0001.npz'
MADE = re.compile(r'(?<![^ =])(new[.\w]*|out)(?= |$)')


class Command(NamedTuple):
    """A command, as it is called in the folder of `world`.

    What it makes, which is whole or not there, is a word of `MADE`.

    Attributes:
        words: its arguments.
        reads: files that it reads, which come from anywhere.
        every: the number of stages from one fault to the next; 0 for a command that
            takes a second, or does at its stages what another one does.
        alone: the error of a second one that starts at once; '' if it does its work.
    """

    words: str
    reads: str = ''
    every: int = 5
    alone: str = ''


COMMANDS = {
    'check': Command('models.py --dir=runs/model_aaaa', 'runs/run_aaaa.jsonz', 0),
    'combine': Command('a.csv --sample=sample.csv --output=new.csv', _CSVS, 1),
    'compete': Command('--data_root=npz --out_dir=out --dir runs/model_aaaa', _TEST, 0),
    'ensemble': Command(
        f'runs/model_aaaa runs/model_bbbb {_DATA} --output=new.csv', _TEST
    ),
    'evaluate': Command(f'runs/model_aaaa {_DATA} --output=new.json', _VALID),
    'export': Command('runs/model_aaaa new', _RUN, 1, 'is there already'),
    'extract': Command('kernels.pb new', 'kernels.pb', 10),
    'importance': Command('runs/model_aaaa', _RUN),
    'losses': Command(''),
    'models': Command(''),
    'predict': Command(f'runs/model_aaaa {_DATA} --output=new.csv', _TEST),
    'rank': Command(
        'kernels.pb --dir=runs/model_aaaa --output=new.csv', f'kernels.pb {_RUN}'
    ),
    'report': Command(f'runs/model_aaaa {_DATA} --output=new.html', _VALID, 0),
    'runs': Command('--out_dir=runs', 'runs/run_aaaa.jsonz'),
    'settings': Command('runs/model_aaaa', 'runs/run_aaaa.jsonz'),
    'show': Command('kernels.pb', 'kernels.pb'),
    'train': Command(
        f'tile {_TRAIN} --config=config.toml',
        f'{_TRAINING} config.toml',
        10,
        'another training of these settings writes there',
    ),
    'sweep': Command(f'tile {_TRAIN} --trials=1 --space=space.toml', 'space.toml', 0),
    'create_kaggle_csv.py': Command(
        '--inputcsv=a.csv --sample=sample.csv --output=new.csv', _CSVS, 0
    ),
    'layout_train.py': Command(
        f'{_TREES} --source=nlp --search=default --data_root=layouts '
        '--cache_dir=cache --out_dir=out',
        'layouts/nlp/default/train/program_1.npz',
        0,
    ),
    'tiles_gen_predictions_csv.py': Command(
        f'--dir=runs/model_aaaa {_DATA} --output=new.csv', 'runs/run_aaaa.jsonz', 0
    ),
    'tiles_train.py': Command(_TRAIN, _TRAINING, 0),
}
# What needs more than files has tests of its own.
APART = {
    'download': 'a server: tests/data/test_download.py',
    'echo_download_commands.py': 'prints alone: tests/test_package.py',
}
