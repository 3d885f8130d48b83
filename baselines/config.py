"""Settings of a training: a field declares the flag, its default, help and checks.

`scripts` makes the flags; the code reads the settings, and run files store them.
"""

from collections.abc import Collection
import dataclasses
from typing import Any, TypeVar, Union

from baselines import recipes
from baselines.core import extensions
from baselines.core import files
from baselines.core import registry
from baselines.core import settings
from baselines.core import text
from baselines.data import collections

_AnyConfig = TypeVar('_AnyConfig', bound=Union['TileConfig', 'LayoutConfig'])


def _redeclare(base: 'type[Optimisation]', name: str, default: Any) -> Any:
    """Declares a setting of a base class again, with another default."""
    rules = base.__dataclass_fields__[name].metadata
    return dataclasses.field(default=default, metadata=rules)


def _describe_losses() -> str:
    return (
        'add up losses with weights, such as ListMLELoss:1,MSE:0.02; of '
        f'{", ".join(registry.LOSSES)} (`tpugraphs losses` describes them), functions '
        'of yours (my_file.py:my_loss:1), and losses of TensorFlow Ranking '
        '(ApproxNDCGLoss:1)'
    )


def _describe_columns() -> str:
    return (
        'add these sets of columns, computed from configurations, separated by '
        f'commas: {", ".join(sorted(registry.find_column_sets()))} (`tpugraphs models '
        '--columns` describes them); a recipe adds those that fit the data'
    )


def _describe_toy_data(collection: str) -> str:
    [count] = [c.toy_files for c in collections.COLLECTIONS if c.name == collection]
    return f'use only the first {count} files of each split'


@dataclasses.dataclass(frozen=True)
class Optimisation:
    """Settings of the optimiser; see `training.steps`."""

    lr: float = settings.setting(
        1e-3, 'learn at this rate with Adam; with a schedule, the highest rate', above=0
    )
    clip_norm: float = settings.setting(
        1e-3, 'clip gradients to this L2 norm (see --clip)', above=0
    )
    clip: str = settings.setting(
        'variable',
        "limit by --clip_norm each variable's gradient, or that of all (global)",
        choices=('variable', 'global'),
    )
    weight_decay: float = settings.setting(
        0.0,
        'above 0, use AdamW: shrink matrices by this times the rate at every step',
        low=0,
    )
    schedule: str = settings.setting(
        'constant',
        'keep the learning rate constant, or lower it to 0 over the --epochs (cosine)',
        choices=('constant', 'cosine'),
    )
    warmup: float = settings.setting(
        0.0,
        'raise the learning rate from 0 over this share of the training',
        low=0,
        high=1,
    )
    averaging: str = settings.setting(
        '', 'validate and keep averaged weights: ema:0.999 with that decay per step'
    )


@dataclasses.dataclass(frozen=True)
class _Config(Optimisation):
    """Settings that all trainings have."""

    model_kwargs_json: str = settings.setting(
        '{}', 'pass these keyword arguments to the model, as JSON: \'{"num_gnns": 2}\''
    )
    models_file: str = settings.setting(
        '', 'add the models of this models.py of yours to ours; its code is run'
    )
    trees: bool = settings.setting(
        False,
        'also grow gradient-boosted trees, and score with the mean of both '
        "(docs/guide/models.md); needs LightGBM: pip install -e '.[trees]'",
    )
    init_from: str = settings.setting(
        '',
        'start from the weights of another run of the same model, named as in '
        '--dir, and keep its scaling of features',
    )
    sample_data: bool = settings.setting(
        False,
        'use runtimes measured on a CPU, which come with the package, instead of '
        '--data_root',
    )
    extra: bool = settings.setting(
        False,
        'also read node_feat_extra, which data of `collect` and `extract --extra` '
        'have (docs/guide/raw-files.md)',
    )
    skip_bad_files: bool = settings.setting(
        False, 'leave damaged files out, naming them, instead of stopping'
    )
    cache_dir: str = settings.loose_setting('', 'keep packed splits in this folder')
    out_dir: str = settings.loose_setting(
        '', 'write model_<hash>, run_<hash>.jsonz and the results CSV to this folder'
    )
    test_mode: str = settings.loose_setting(
        'predictions',
        'rank the test split (predictions), or also measure the error on it where '
        'its runtimes are known (metrics)',
        choices=('predictions', 'metrics'),
    )
    epochs: int = settings.loose_setting(100, 'train at most this many epochs', low=1)
    early_stop: int = settings.loose_setting(
        20, 'stop after this many epochs without a better validation score', low=1
    )
    losses: str = settings.setting('ListMLELoss:1,MSE:0.02', _describe_losses)
    loss_noise: float = settings.setting(
        0.01,
        'assume that measurements of one configuration differ by this share: '
        'PairwiseRuntimeLoss leaves out pairs that are closer',
        low=0,
    )
    fold: str = settings.setting(
        '',
        'cross-validate: 2/5 joins train and valid, cuts them into 5 folds by '
        'program, validates on the second and trains on the others',
    )
    folds: int = settings.loose_setting(
        0,
        'train on all of this many folds in turn (docs/guide/compare.md)',
        low=2,
        high=1000,
        also=0,
    )
    fold_epochs: str = settings.loose_setting(
        '',
        'with same, train all folds again for the epochs that are best on average',
        choices=('', 'same'),
    )
    seeds: int = settings.loose_setting(
        1, 'train this many times, with seeds from --seed on', low=1
    )
    family_temperature: float = settings.setting(
        1.0,
        'draw a family of n graphs with a probability proportional to n to this '
        'power: 1 draws all graphs alike, 0 all families alike (docs/guide/tiles.md)',
        low=0,
        high=1,
    )
    seed: int = settings.setting(
        0,
        'give the same run for the same seed on the same machine',
        low=0,
        high=2**32 - 1,
    )
    resume: bool = settings.loose_setting(
        False,
        'continue an interrupted run of the same settings in --out_dir, or a '
        'finished one that has fewer --epochs',
    )
    strategy: str = settings.loose_setting(
        '',
        'train on several devices: mirrored, all GPUs of this machine; workers, '
        'the processes of TF_CONFIG (docs/guide/scale.md)',
        choices=('', 'mirrored', 'workers'),
    )
    recipe: str = settings.loose_setting(
        '',
        'replace the defaults by settings of a recipe, strong or a file that '
        '`tpugraphs sweep` wrote; flags that are given win',
    )
    run_id: str = settings.setting('', 'keep this label in the run file')

    @property
    def collection(self) -> collections.Collection:
        """The collection that the flags choose; raises ValueError if there is none."""
        return collections.select_collection(to_json(self))


@dataclasses.dataclass(frozen=True)
class TileConfig(_Config):
    """Settings of `tiles_train.py`; the flags have these names and defaults."""

    model: str = settings.setting(
        'EarlyJoinSAGE',
        'train this model, a class in baselines/tiles (docs/guide/models.md)',
    )
    data_root: str = settings.loose_setting(
        '~/data/tpugraphs/npz/tile/xla',
        'read the splits train, valid and test of .npz files from this folder',
    )
    toy_data: bool = settings.setting(False, lambda: _describe_toy_data('tile:xla'))
    cache_dir: str = _redeclare(_Config, 'cache_dir', '~/data/tpugraphs/cache/tile')
    out_dir: str = _redeclare(_Config, 'out_dir', '~/out/tpugraphs_tiles')
    results_csv: str = settings.loose_setting(
        '',
        'write the ranking of the test kernels to this file (default: '
        '<out_dir>/results_<time in ms>.csv)',
    )
    early_stop_steps: int = settings.loose_setting(
        5000,
        'count for --early_stop only after this many steps without a better score, '
        'since epochs of few kernels are short; 0: epochs alone',
        low=0,
    )
    eval_every: int = settings.loose_setting(5, 'do nothing (deprecated)')
    columns: str = settings.setting('', _describe_columns)
    configs: int = settings.setting(
        10,
        'draw this many configurations per kernel and step; kernels with fewer are '
        'not trained on',
        low=2,
    )
    batch: int = settings.setting(10, 'train on this many kernels per step', low=1)
    validate_batches: int = settings.setting(
        -1, 'validate on the first batches of kernels, this many; -1: on all'
    )
    validation_configs: int = settings.setting(
        100,
        'validate on at most this many configurations per kernel after each epoch, '
        'always the same ones, so that epochs can be compared',
        low=2,
    )

    @property
    def column_sets(self) -> list[str]:
        """The names in --columns."""
        return [name for name in self.columns.split(',') if name]


@dataclasses.dataclass(frozen=True)
class LayoutConfig(_Config):
    """Settings of `layout_train.py`; the flags have these names and defaults."""

    model: str = settings.setting(
        'ResModel',
        'train this model, a class in baselines/layout (docs/guide/models.md)',
    )
    source: str = settings.setting(
        'xla',
        'train on programs of xla or nlp; xla,nlp trains one model on both '
        '(docs/guide/layouts.md)',
        choices=collections.list_choices('source'),
        several=True,
    )
    search: str = settings.setting(
        'random',
        'train on configurations that were found at random, or with default by a '
        'genetic search; random,default uses both',
        choices=collections.list_choices('search'),
        several=True,
    )
    data_root: str = settings.loose_setting(
        '~/data/tpugraphs/npz/layout',
        'read <source>/<search>/{train,valid,test}/*.npz from this folder',
    )
    toy_data: bool = settings.setting(
        False, lambda: _describe_toy_data('layout:xla:random')
    )
    estimate: bool = settings.setting(
        False,
        'begin with the formula of --dir estimate: a score is the normal score of '
        'the padded work, plus what the model learns (docs/guide/layouts.md)',
    )
    cache_dir: str = _redeclare(_Config, 'cache_dir', '~/data/tpugraphs/cache/layout')
    out_dir: str = _redeclare(_Config, 'out_dir', '~/out/tpugraphs_layout')
    results_csv: str = settings.loose_setting(
        '',
        'write the ranking of the test programs to this file (default: '
        '<out_dir>/results_<time in ms>_<source>_<search>.csv); with several '
        'collections, _<source>_<search> goes into each name',
    )
    epochs: int = _redeclare(_Config, 'epochs', 50)
    early_stop: int = _redeclare(_Config, 'early_stop', 25)
    losses: str = _redeclare(_Config, 'losses', 'ListMLELoss')
    clip_norm: float = _redeclare(Optimisation, 'clip_norm', 1e-2)
    configs: int = settings.setting(
        16,
        'draw this many configurations per program and step; programs with fewer '
        'different ones are not trained on',
        low=2,
    )
    max_configs: int = settings.setting(
        -1,
        'draw from a uniform subset of this many configurations per program; -1: '
        'from all',
        low=2,
        also=-1,
    )
    sampling: str = settings.setting(
        'skewed',
        'draw fast ones more often, as published (skewed), or all alike (uniform)',
        choices=('skewed', 'uniform'),
    )
    keep_nodes: int = settings.setting(
        5000,
        'pass gradients through this many nodes of a program per step; -1: all of them',
        low=1,
        also=-1,
    )
    batch: int = settings.setting(8, 'train on this many programs per step', low=1)
    validate_batches: int = settings.setting(
        10, 'validate on the first batches of programs, this many; -1: on all'
    )
    validation_configs: int = settings.setting(
        1000,
        'validate on at most this many configurations per program after each '
        'epoch, always the same ones, as in the published evaluation',
        low=2,
    )
    memory_budget: int = settings.loose_setting(
        1024, 'take at most this many megabytes for what scoring computes', low=16
    )


AnyConfig = TileConfig | LayoutConfig

# By task.
CONFIGS: dict[str, type[AnyConfig]] = {'tile': TileConfig, 'layout': LayoutConfig}


def check_config(config: _AnyConfig) -> _AnyConfig:
    """Returns `config` if every value is in its range.

    Raises:
        ValueError: names the flag, the value and the accepted range.
    """
    settings.check_ranges(config, '--')
    settings.parse_model_kwargs(config.model_kwargs_json)
    settings.parse_averaging(config.averaging)
    if isinstance(config, TileConfig):
        for name in config.column_sets:
            registry.resolve(
                name,
                registry.find_column_sets(),
                '--columns',
                extensions.explain_columns(),
            )
    is_default = files.expand(config.data_root) == files.expand(type(config).data_root)
    settings.check_data('' if is_default else config.data_root, config.sample_data)
    return config


def apply_recipe(config: _AnyConfig, chosen: Collection[str]) -> _AnyConfig:
    """Returns `config` with the settings of its recipe, checked; prints them.

    Args:
        chosen: names of the settings that the user set.

    Raises:
        ValueError: there is no such recipe, or it does not fit the settings.
        OSError: its file cannot be read.
    """
    check_config(config)
    if not config.recipe:
        return config
    changes = recipes.get_settings(config.recipe, config.collection.name, chosen, print)
    with text.locate_errors(f'--recipe {config.recipe}'):
        changes = settings.convert_types(type(config), changes)
    return check_config(dataclasses.replace(config, **changes))


def to_json(config: Optimisation) -> text.JsonObject:
    """Returns the settings as a flat JSON object."""
    return dataclasses.asdict(config)


def list_changed(config: Optimisation) -> text.JsonObject:
    """Returns the settings that are not the defaults, by name."""
    defaults = to_json(type(config)())
    return {n: value for n, value in to_json(config).items() if value != defaults[n]}


def format_flags(config: Optimisation, names: Collection[str]) -> list[str]:
    """Returns the flags of named settings that are not the defaults."""
    return [
        f'--{name}' if value is True else f'--{name}={value}'
        for name, value in list_changed(config).items()
        if name in names
    ]


def format_data_flags(config: Optimisation) -> list[str]:
    """Returns the flags for data and files, without those for results."""
    settings = to_json(config).items()
    local = {name for name, value in settings if recipes.is_local(name, value)}
    return format_flags(config, local.union(recipes.DATA) - {'out_dir', 'results_csv'})


def format_epoch_flags(config: Optimisation) -> list[str]:
    """Returns the flags that make every step depend on the number of epochs."""
    return format_flags(config, ('schedule', 'warmup', 'averaging'))


def hash_training(config: Optimisation, *more: str) -> str:
    """Hashes the settings that shape the model, and `more`.

    An interrupted run is found again by it.
    """
    left_out = {
        f.name for f in dataclasses.fields(config) if not f.metadata.get('shapes', True)
    }
    if format_epoch_flags(config):
        left_out.remove('epochs')
    shaping = {
        name: value for name, value in to_json(config).items() if name not in left_out
    }
    return text.hash_json([shaping, more])[:16]
