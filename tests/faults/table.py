"""What each command reads and writes: a new one joins the tests of faults here."""

from typing import NamedTuple

_DATA = '--data_root=data --cache_dir=cache'
_TREES = '--model=Trees --model_kwargs_json={"trees":2}'
_TRAIN = f'{_TREES} {_DATA} --out_dir=out'
_NPZ = 'data/{}/program_1_0001.npz'
_RUN = 'runs/run_aaaa.jsonz runs/model_aaaa/trees.txt'


class Command(NamedTuple):
    """A command, as it is called in the folder of `world`.

    Attributes:
        words: its arguments.
        reads: files that it reads, which come from anywhere.
        writes: what it makes, which is whole or not there; a folder ends with '/'.
        caches: whether it packs splits.
        is_slow: whether it takes a second, and so is not called often.
    """

    words: str
    reads: str = ''
    writes: str = ''
    caches: bool = False
    is_slow: bool = False


COMMANDS = {
    'combine': Command(
        'a.csv --sample=sample.csv --output=new.csv', 'a.csv sample.csv', 'new.csv'
    ),
    'ensemble': Command(
        f'runs/model_aaaa runs/model_bbbb {_DATA} --output=new.csv',
        f'{_RUN} {_NPZ.format("test")}',
        'new.csv',
        True,
    ),
    'evaluate': Command(
        f'runs/model_aaaa {_DATA} --output=new.json',
        f'{_RUN} {_NPZ.format("valid")}',
        'new.json',
        True,
    ),
    'extract': Command('kernels.pb new', 'kernels.pb', 'new/'),
    'importance': Command('runs/model_aaaa', _RUN),
    'losses': Command(''),
    'predict': Command(
        f'runs/model_aaaa {_DATA} --output=new.csv',
        f'{_RUN} {_NPZ.format("test")}',
        'new.csv',
        True,
    ),
    'rank': Command(
        'kernels.pb --dir=runs/model_aaaa --output=new.csv',
        f'kernels.pb {_RUN}',
        'new.csv',
    ),
    'report': Command(
        f'runs/model_aaaa {_DATA} --output=new.html',
        f'{_RUN} {_NPZ.format("valid")}',
        'new.html',
        caches=True,
        is_slow=True,
    ),
    'runs': Command('--out_dir=runs', 'runs/run_aaaa.jsonz'),
    'settings': Command('runs/model_aaaa', 'runs/run_aaaa.jsonz'),
    'show': Command('kernels.pb', 'kernels.pb'),
    'train': Command(
        f'tile {_TRAIN} --config=config.toml',
        f'{_NPZ.format("train")} config.toml',
        'out/',
        True,
    ),
    'create_kaggle_csv.py': Command(
        '--inputcsv=a.csv --sample=sample.csv --output=new.csv',
        'a.csv sample.csv',
        'new.csv',
    ),
}
# What takes seconds before it reads or writes has tests of its own.
APART = {
    'check': 'tests/tpugraphs/handin: imports TensorFlow, in other processes',
    'collect': 'tests/tpugraphs/measure: compiles, in a worker process',
    'compete': 'trains and predicts, as `train` and `predict`; combines, as `combine`',
    'download': 'tests/data/test_download.py: needs a server',
    'export': 'tests/runs/test_export.py: imports TensorFlow',
    'echo_download_commands.py': 'reads and writes nothing',
    'layout_train.py': 'as `train`',
    'models': 'reads and writes nothing, and imports TensorFlow',
    'tiles_gen_predictions_csv.py': 'as `predict`',
    'tiles_train.py': 'as `train`',
    'sweep': 'tests/tpugraphs/sweep: its trials are trainings',
}
