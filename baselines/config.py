"""Settings of a training: one declaration gives flag, default, help, checks, JSON,
and is what the code uses.  `command_line` makes the flags."""

import ast
import dataclasses
import functools
import hashlib
import inspect
import json
import os
import sys
from typing import Any, Collection, Dict, List, Mapping, TypeVar, Union

from baselines import files
from baselines import recipes
from baselines import registry
from baselines import untrusted
from baselines.data import collections

_AnyConfig = TypeVar('_AnyConfig', bound=Union['TileConfig', 'LayoutConfig'])
# Settings by the other names that they go by.
ALIASES = {'measured_data': 'sample_data'}
_TYPES = {bool: 'true or false', int: 'a whole number', float: 'a number', str: 'text'}


def setting(default: Any, **rules: Any) -> Any:
    """Declares a setting; the text below it is the help of the flag.

    Args:
        default: its value, of the flag's type.
        **rules: of accepted values: `choices`; `low`, `high` or `above`,
            and `also`, one more.  `shapes=False`: it does not change the model,
            so that a run may be resumed with another value.  `help`: in place of
            the text, a function that is called when it is wanted.
    """
    return dataclasses.field(default=default, metadata=rules)


def _with_default(base: Any, name: str, default: Any) -> Any:
    """Declares a setting of a base class anew, with another default."""
    rules = base.__dataclass_fields__[name].metadata
    return dataclasses.field(default=default, metadata=rules)


def _help_on_losses() -> str:
    names = registry.declared('baselines.training.losses', 'register')
    return (
        'Losses and weights, such as ListMLELoss:1,MSE:0.02, or a function of yours: '
        'my_file.py:my_loss:1, or a loss of TensorFlow Ranking: tfr.ApproxNDCGLoss:1.  '
        f'There are {", ".join(names)}: `tpugraphs losses` says what they are.'
    )


def _help_on_toy_data(collection: str) -> str:
    [count] = [c.toy_files for c in collections.COLLECTIONS if c.name == collection]
    return f'Use only the first {count} files of each split.'


@dataclasses.dataclass(frozen=True)
class Optimisation:
    """Settings of the optimiser; see `training.steps`."""

    lr: float = setting(1e-3, above=0)
    """Learning rate of Adam; with a schedule, the highest."""
    clip_norm: float = setting(1e-3, above=0)
    """Gradients are clipped to this L2 norm, see --clip."""
    clip: str = setting('variable', choices=('variable', 'global'))
    """What --clip_norm limits: each variable's gradient, or with global that of all
    together."""
    weight_decay: float = setting(0.0, low=0)
    """Above 0 Adam becomes AdamW: matrices shrink by this times the learning rate at
    every step."""
    schedule: str = setting('constant', choices=('constant', 'cosine'))
    """Learning rate over the --epochs: constant, or cosine, which falls to 0."""
    warmup: float = setting(0.0, low=0, high=1)
    """Share of the training in which the learning rate climbs from 0."""
    averaging: str = ''
    """Validate and keep averaged weights: ema:0.999 is a moving average with that decay
    per step."""


@dataclasses.dataclass(frozen=True)
class _Config(Optimisation):
    """Settings that all trainings have."""

    model_kwargs_json: str = '{}'
    """Keyword arguments of the model as JSON: '{"num_gnns": 2}'."""
    models_file: str = ''
    """A models.py of yours, whose models are added to ours; its code is run."""
    init_from: str = ''
    """Start from the weights of another run of the same model, and keep that run's
    scaling of features; named as in --dir."""
    sample_data: bool = False
    """Use runtimes measured on a CPU, which come with the package, in place of
    --data_root."""
    skip_bad_files: bool = False
    """Leave damaged files out, naming them, instead of stopping."""
    cache_dir: str = setting('', shapes=False)
    """Where packed splits are kept."""
    out_dir: str = setting('', shapes=False)
    """Where model_<hash>, run_<hash>.jsonz and the results CSV go."""
    test_mode: str = setting(
        'predictions', choices=('predictions', 'metrics'), shapes=False
    )
    """predictions: rank the test split. metrics: also measure the error on it, where
    its runtimes are known."""
    epochs: int = setting(100, low=1, shapes=False)
    """Most epochs."""
    early_stop: int = setting(20, low=1, shapes=False)
    """Stop after so many epochs without a better validation score."""
    losses: str = setting('ListMLELoss:1,MSE:0.02', help=_help_on_losses)
    fold: str = ''
    """Cross-validation: 2/5 joins train and valid, cuts them into 5 folds by program,
    validates on the second and trains on the others."""
    seed: int = setting(0, low=0)
    """The same seed gives the same run on the same machine."""
    resume: bool = setting(False, shapes=False)
    """Go on with an interrupted run of the same settings, if there is one in
    --out_dir."""
    strategy: str = setting('', choices=('', 'mirrored', 'workers'), shapes=False)
    """One training on several devices: mirrored, all GPUs of this machine; workers, the
    processes of TF_CONFIG (docs/guide/scale.md)."""
    recipe: str = setting('', shapes=False)
    """strong: the settings that have done best on this collection, in place of the
    defaults; flags that are given win. Or a file: what `tpugraphs sweep` found."""
    run_id: str = ''
    """A label of yours, kept in the run file."""

    @property
    def collection(self) -> collections.Collection:
        """The collection that the flags choose.

        Raises:
            ValueError: there is no such collection.
        """
        return collections.of_flags(to_json(self))

    @property
    def grows_trees(self) -> bool:
        """Whether trees are grown beside a graph model."""
        return False


@dataclasses.dataclass(frozen=True)
class TileConfig(_Config):
    """Settings of `tiles_train.py`; the flags have these names and defaults."""

    model: str = 'EarlyJoinSAGE'
    """Name of the model, a class in baselines/tiles/models.py."""
    data_root: str = setting('~/data/tpugraphs/npz/tile/xla', shapes=False)
    """Folder with the splits train, valid and test of .npz files."""
    toy_data: bool = setting(False, help=lambda: _help_on_toy_data('tile:xla'))
    cache_dir: str = _with_default(_Config, 'cache_dir', '~/data/tpugraphs/cache/tile')
    out_dir: str = _with_default(_Config, 'out_dir', '~/out/tpugraphs_tiles')
    results_csv: str = setting('', shapes=False)
    """Where the ranking of the test kernels goes; by default <out_dir>/results_<time in
    ms>.csv."""
    early_stop_steps: int = setting(5000, low=0, shapes=False)
    """Fewest steps without a better score before --early_stop counts: with few kernels
    an epoch is short. 0: epochs alone."""
    eval_every: int = setting(5, shapes=False)
    """Deprecated: every epoch is validated."""
    trees: bool = False
    """Also grow gradient-boosted trees, and score with the mean of both
    (docs/guide/models.md); needs LightGBM: pip install -e .[trees]."""
    tile_columns: bool = False
    """Add columns that relate tiles to arrays (docs/guide/features.md)."""
    loop_columns: bool = False
    """Add columns of tiles in elements, as `collect` has them on CPUs
    (docs/guide/features.md); a recipe adds them where they fit."""
    estimate: bool = False
    """Add an analytical estimate of each configuration as columns, its logarithmic time
    last (docs/guide/features.md)."""
    configs: int = setting(10, low=2)
    """Configurations drawn per kernel and step; kernels with fewer are not trained
    on."""
    batch: int = setting(10, low=1)
    """Kernels per step."""
    validate_batches: int = -1
    """Validate on the first so many batches of kernels; -1: on all."""
    validation_configs: int = setting(100, low=2)
    """Most configurations per kernel in the validation after each epoch; always the
    same ones, so that epochs can be compared."""

    @property
    def grows_trees(self) -> bool:
        """Whether trees are grown beside a graph model."""
        return self.trees


@dataclasses.dataclass(frozen=True)
class LayoutConfig(_Config):
    """Settings of `layout_train.py`; the flags have these names and defaults."""

    model: str = 'ResModel'
    """Name of the model, a class in baselines/layout (docs/guide/models.md)."""
    source: str = setting('xla', choices=collections.choices('source'))
    """Which programs: xla or nlp."""
    search: str = setting('random', choices=collections.choices('search'))
    """How their configurations were found: random or default (by a genetic search)."""
    data_root: str = setting('~/data/tpugraphs/npz/layout', shapes=False)
    """Folder with <source>/<search>/{train,valid,test}/*.npz."""
    toy_data: bool = setting(False, help=lambda: _help_on_toy_data('layout:xla:random'))
    cache_dir: str = _with_default(
        _Config, 'cache_dir', '~/data/tpugraphs/cache/layout'
    )
    out_dir: str = _with_default(_Config, 'out_dir', '~/out/tpugraphs_layout')
    results_csv: str = setting('', shapes=False)
    """Where the ranking of the test programs goes; by default <out_dir>/results_<time
    in ms>_<source>_<search>.csv."""
    epochs: int = _with_default(_Config, 'epochs', 50)
    early_stop: int = _with_default(_Config, 'early_stop', 25)
    losses: str = _with_default(_Config, 'losses', 'ListMLELoss')
    clip_norm: float = _with_default(Optimisation, 'clip_norm', 1e-2)
    configs: int = setting(16, low=2)
    """Configurations drawn per program and step; programs with fewer different ones are
    not trained on."""
    max_configs: int = setting(-1, low=2, also=-1)
    """Draw from at most so many configurations per program, a uniform subset; -1: from
    all."""
    sampling: str = setting('skewed', choices=('skewed', 'uniform'))
    """How they are drawn: skewed to fast ones as published, or uniform."""
    keep_nodes: int = setting(5000, low=1, also=-1)
    """Nodes of a program that a step passes gradients through; -1: all of them."""
    batch: int = setting(8, low=1)
    """Programs per step."""
    validate_batches: int = 10
    """Validate on the first so many batches of programs; -1: on all."""
    validation_configs: int = setting(1000, low=2)
    """Most configurations per program in the validation after each epoch, as in the
    published evaluation; always the same ones."""
    memory_budget: int = setting(1024, low=16, shapes=False)
    """Megabytes that scoring may take for what it computes."""


AnyConfig = Union[TileConfig, LayoutConfig]

# By task.
CONFIGS: Dict[str, Any] = {'tile': TileConfig, 'layout': LayoutConfig}


def help_of(config_class: Any, name: str) -> str:
    """Returns the help text of one setting."""
    rules = config_class.__dataclass_fields__[name].metadata
    if 'help' in rules:
        return rules['help']()
    of_classes = [_texts().get(base.__name__, {}) for base in config_class.__mro__]
    return next(texts[name] for texts in of_classes if name in texts)


@functools.lru_cache(maxsize=None)
def _texts() -> Dict[str, Dict[str, str]]:
    """Reads the help texts below the settings, by class and name."""
    module: Any = ast.parse(inspect.getsource(sys.modules[__name__]))
    return {
        node.name: {
            field.target.id: ' '.join(ast.literal_eval(text.value).split())
            for field, text in zip(node.body, node.body[1:])
            if hasattr(field, 'target') and isinstance(text, ast.Expr)
        }
        for node in module.body
        if isinstance(node, ast.ClassDef)
    }


def checked(config: _AnyConfig) -> _AnyConfig:
    """Returns `config` if every value is in its range.

    Raises:
        ValueError: names the flag, the value and the accepted range.
    """
    check_ranges(config, '--')
    model_kwargs(config.model_kwargs_json)
    is_default = files.expand(config.data_root) == files.expand(type(config).data_root)
    check_data('' if is_default else config.data_root, config.sample_data)
    return config


def check_ranges(settings: Any, prefix: str = '') -> None:
    """Raises ValueError for a value that its `setting` does not accept.

    Args:
        settings: a dataclass of settings.
        prefix: of a setting's name, in the message.
    """
    for field in dataclasses.fields(settings):
        value, rule = getattr(settings, field.name), field.metadata
        if 'choices' in rule and value not in rule['choices']:
            accepted = f'one of {", ".join(filter(None, rule["choices"]))}'
        elif 'low' in rule and not value >= rule['low'] and value != rule.get('also'):
            also = f', or {rule["also"]}' if 'also' in rule else ''
            accepted = f'at least {rule["low"]}{also}'
        elif 'high' in rule and value > rule['high']:
            accepted = f'at most {rule["high"]}'
        elif 'above' in rule and not value > rule['above']:
            accepted = f'more than {rule["above"]}'
        else:
            continue
        raise ValueError(f'{prefix}{field.name} should be {accepted}, not {value!r}')


def check_data(data_root: str, sample_data: bool) -> None:
    """Raises ValueError where both a folder and the data that ship are asked for."""
    if data_root and sample_data:
        raise ValueError(
            f'--sample_data is in place of --data_root={data_root}: drop one of them, '
            '--sample_data to use the folder'
        )


def typed(
    config_class: type, values: Mapping[str, Any], noun: str = 'setting'
) -> Dict[str, Any]:
    """Returns values of settings in their types: 1 as 1.0, and paths as text.

    Args:
        config_class: whose settings.
        values: by name; model_kwargs_json may be a dict.
        noun: for a setting, in messages.

    Raises:
        ValueError: there is no such setting, or a value is of another type.
    """
    defaults = {f.name: f.default for f in dataclasses.fields(config_class)}
    result = {}
    for name, value in values.items():
        name = ALIASES.get(name, name)
        if name not in defaults:
            meant = registry.did_you_mean(name, defaults)
            raise ValueError(f'there is no {noun} {name!r}{meant}')
        kind: type = type(defaults[name])
        if name == 'model_kwargs_json' and isinstance(value, dict):
            try:
                value = json.dumps(value)
            except untrusted.DAMAGE as error:  # a date, say
                raise ValueError(f'{name} cannot be written as JSON: {error}') from None
        if kind is str and isinstance(value, os.PathLike):
            value = os.fspath(value)
        if kind is float and type(value) is int and abs(value) <= sys.float_info.max:
            value = float(value)
        if type(value) is not kind:
            raise ValueError(f'{name} should be {_TYPES[kind]}, not {value!r}')
        result[name] = value
    return result


def from_options(kind: Any, options: Any, **others: Any) -> Any:
    """Makes a dataclass of the parsed options that have the names of its fields.

    Args:
        kind: the dataclass.
        options: parsed by argparse or absl.
        **others: fields that are no options, or not as they were parsed.
    """
    names = [field.name for field in dataclasses.fields(kind)]
    parsed = {name: getattr(options, name) for name in names if hasattr(options, name)}
    return kind(**{**parsed, **others})


def with_recipe(config: _AnyConfig, chosen: Collection[str]) -> _AnyConfig:
    """Returns `config` with the settings of its recipe, checked; prints them.

    Args:
        config: the settings.
        chosen: names of those that the user set.

    Raises:
        ValueError: there is no such recipe, or it does not fit the settings.
        OSError: its file cannot be read.
    """
    checked(config)
    if not config.recipe:
        return config
    changes = recipes.settings(config.recipe, config.collection.name, chosen, print)
    try:
        changes = typed(type(config), changes)
    except ValueError as error:
        raise ValueError(f'--recipe {config.recipe}: {error}') from None
    return checked(dataclasses.replace(config, **changes))


def model_kwargs(text: str) -> Dict[str, Any]:
    """Parses --model_kwargs_json.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        kwargs = untrusted.loads(text)
    except ValueError as error:
        raise ValueError(
            f'--model_kwargs_json is not JSON: {text[:200]!r} ({error})'
        ) from None
    if not isinstance(kwargs, dict):
        raise ValueError(
            '--model_kwargs_json should be an object such as '
            f'\'{{"num_gnns": 2}}\', not {text!r}'
        )
    return kwargs


def to_json(config: Any) -> Dict[str, Any]:
    """Returns the settings as a flat JSON object."""
    return {f.name: getattr(config, f.name) for f in dataclasses.fields(config)}


# Settings that say which data a training reads.
DATA = (
    *('data_root', 'cache_dir', 'source', 'search', 'sample_data', 'toy_data'),
    'skip_bad_files',
)


def as_flags(config: Any, names: Collection[str]) -> List[str]:
    """Returns the flags of named settings that are not the defaults."""
    flags = []
    for field in dataclasses.fields(config):
        value = getattr(config, field.name)
        if field.name in names and value != field.default:
            flags.append(
                f'--{field.name}' if value is True else f'--{field.name}={value}'
            )
    return flags


def training_key(config: Any, *more: str) -> str:
    """Hashes the settings that shape the model, and `more`.

    An interrupted run is found again by it.
    """
    left_out = {
        f.name for f in dataclasses.fields(config) if not f.metadata.get('shapes', True)
    }
    if config.schedule != 'constant' or config.warmup or config.averaging:
        # How long the training is shapes every step of it.
        left_out.remove('epochs')
    shaping = {
        name: value for name, value in to_json(config).items() if name not in left_out
    }
    text = json.dumps([shaping, more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
