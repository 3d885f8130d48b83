"""Settings of a training: one declaration gives flag, default, help and JSON."""

import dataclasses
import hashlib
import json
import sys
from typing import Any, Dict, List, Mapping, Sequence, Type, TypeVar

_Config = TypeVar('_Config')


def _setting(default: Any, help_text: str, **metadata) -> Any:
    metadata['help'] = help_text
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class TileConfig:
    """Settings of `tiles_train.py`; the flags have these names and defaults."""

    model: str = _setting(
        'EarlyJoinSAGE', 'Name of the model, a class in baselines/tiles/models.py.')
    model_kwargs_json: str = _setting(
        '{}', 'Keyword arguments of the model as JSON: \'{"num_gnns": 2}\'.')
    models_file: str = _setting(
        '', 'A models.py to use in place of ours; its code is run.')
    data_root: str = _setting(
        '~/data/tpugraphs/npz/tile/xla',
        'Folder with the splits train, valid and test of .npz files.')
    sample_data: bool = _setting(
        False, 'Train on simulated kernels, made on first use, in place of '
        '--data_root.')
    toy_data: bool = _setting(
        False, 'Use only the first 100 files of each split.')
    cache_dir: str = _setting(
        '~/data/tpugraphs/cache/tile', 'Where packed splits are kept.')
    skip_bad_files: bool = _setting(
        False, 'Leave damaged files out, naming them, instead of stopping.')
    out_dir: str = _setting(
        '~/out/tpugraphs_tiles', 'Where model_<hash>, run_<hash>.jsonz and the '
        'results CSV go.')
    results_csv: str = _setting(
        '', 'Where the ranking of the test kernels goes; by default '
        '<out_dir>/results_<time in ms>.csv.')
    test_mode: str = _setting(
        'predictions', 'predictions: rank the test kernels.  metrics: also '
        'measure the error on them, where their runtimes are known.',
        choices=('predictions', 'metrics'))
    epochs: int = _setting(100, 'Most epochs.', low=1)
    early_stop: int = _setting(
        20, 'Stop after so many epochs without a better validation OPA.', low=1)
    eval_every: int = _setting(
        5, 'Deprecated and without effect: every epoch is validated.')
    losses: str = _setting(
        'ListMLELoss:1,MSE:0.02', 'Losses and their weights: ListMLELoss, '
        'PairwiseHingeLoss, MSE.')
    lr: float = _setting(1e-3, 'Learning rate of Adam.', above=0)
    clip_norm: float = _setting(
        1e-3, "Each variable's gradient is clipped to this L2 norm.", above=0)
    configs: int = _setting(
        10, 'Configurations drawn per kernel and step; kernels with fewer are '
        'not trained on.', low=2)
    batch: int = _setting(10, 'Kernels per step.', low=1)
    validate_batches: int = _setting(
        -1, 'Validate on the first so many batches of kernels; -1: on all.')
    validation_configs: int = _setting(
        100, 'Most configurations per kernel in the validation after each '
        'epoch; always the same ones, so that epochs can be compared.', low=2)
    seed: int = _setting(
        0, 'The same seed gives the same run on the same machine.', low=0)
    resume: bool = _setting(
        False, 'Go on with an interrupted run of the same settings, if there '
        'is one in --out_dir.')
    run_id: str = _setting('', 'A label of yours, kept in the run file.')

    # What does not change the trained model.
    _not_in_hash = (
        'cache_dir', 'out_dir', 'results_csv', 'test_mode', 'epochs',
        'early_stop', 'eval_every', 'resume', 'data_root')


def _fields(config_class: type) -> List[dataclasses.Field]:
    return [f for f in dataclasses.fields(config_class) if 'help' in f.metadata]


def help_of(config_class: type, name: str) -> str:
    """Returns the help text of one setting."""
    by_name = {field.name: field for field in _fields(config_class)}
    return by_name[name].metadata['help']


def define_flags(config_class: type, only: Sequence[str] = ()) -> None:
    """Defines one absl flag for each setting; for the running script only.

    Args:
        config_class: whose settings.
        only: the names of those wanted; all by default.
    """
    from absl import flags

    define = {
        bool: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
        str: flags.DEFINE_string,
    }
    for field in _fields(config_class):
        if only and field.name not in only:
            continue
        kind = define[type(field.default)]
        kind(field.name, field.default, field.metadata['help'])
        # `--help` lists what the script itself defines; let it list these.
        flags.FLAGS.register_key_flag_for_module(
            sys.argv[0], flags.FLAGS[field.name])


def from_flags(config_class: Type[_Config], values: Mapping[str, Any]) -> _Config:
    """Reads the settings from parsed flags, checked.

    Raises:
        ValueError: a value is out of range; names the flag.
    """
    settings = {f.name: values[f.name].value for f in _fields(config_class)}
    return checked(config_class(**settings))


def checked(config: _Config) -> _Config:
    """Returns `config` if every value is in its range.

    Raises:
        ValueError: names the flag, the value and what is accepted.
    """
    for field in _fields(type(config)):
        value, rule = getattr(config, field.name), field.metadata
        if 'choices' in rule and value not in rule['choices']:
            wanted = f'one of {", ".join(rule["choices"])}'
        elif 'low' in rule and value < rule['low']:
            wanted = f'at least {rule["low"]}'
        elif 'above' in rule and not value > rule['above']:
            wanted = f'more than {rule["above"]}'
        else:
            continue
        raise ValueError(f'--{field.name} should be {wanted}, not {value!r}')
    model_kwargs(config.model_kwargs_json)
    return config


def model_kwargs(text: str) -> Dict[str, Any]:
    """Parses --model_kwargs_json.

    Raises:
        ValueError: it is not a JSON object.
    """
    try:
        kwargs = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f'--model_kwargs_json is not JSON: {text!r} ({error})') from None
    if not isinstance(kwargs, dict):
        raise ValueError(
            '--model_kwargs_json should be an object such as '
            f'\'{{"num_gnns": 2}}\', not {text!r}')
    return kwargs


def to_json(config: Any) -> Dict[str, Any]:
    """Returns the settings as a flat JSON object."""
    return {f.name: getattr(config, f.name) for f in _fields(type(config))}


def training_key(config: Any, *more: str) -> str:
    """Hash of the settings that shape the model, and of `more`.

    An interrupted run is found again by it.
    """
    shaping = {
        name: value for name, value in to_json(config).items()
        if name not in config._not_in_hash
    }
    text = json.dumps([shaping, more], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
