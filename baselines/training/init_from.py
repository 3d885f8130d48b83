"""--init_from: starts from another run's weights, with that run's scaling."""

from typing import Any

from baselines import config as config_lib
from baselines.core import registry
from baselines.data.packed import splits
from baselines.features import normalizer as normalizer_lib
from baselines.runs import finding
from baselines.runs import run_files

# Settings that determine the shapes and the meaning of weights.
_ALIKE = ('model', 'model_kwargs_json', 'estimate', 'columns')


def read_start(
    config: config_lib.AnyConfig, train: splits.PackedSplit, num_ops: int
) -> tuple[run_files.RunFile, normalizer_lib.Scaling]:
    """Reads the run of --init_from and its scaling; compares it with the settings.

    Weights are meaningful only with the scaling that they were trained with, so that is
    used, not one of the new data: a column that was constant there is left out here,
    and values may be outside [0, 1].

    Args:
        num_ops: 1 + the largest opcode of the data.

    Raises:
        ValueError: there is no such run, or its model, options, columns or opcodes
            differ; says what to do.
    """
    if config.model == registry.TREES:
        raise ValueError(f'--init_from: {registry.TREES} have no weights to start from')
    with finding.as_flag('--init_from'):
        run = finding.load(config.init_from, config.collection.task)
    where = f'--init_from: {run.model_dir}'
    collection, wanted = run.collection, config.collection
    if collection.task != wanted.task:
        raise ValueError(f'{where} must be of {wanted.task}, not {collection.task}')
    # The flag columns of a joint run mean its own collections, in its own order.
    joint = len(collection.parts) > 1 or len(wanted.parts) > 1
    if joint and collection.name != wanted.name:
        raise ValueError(
            f'{where} is of {collection.name}, not {wanted.name}: pass the same '
            '--source and --search'
        )
    # A run file lacks settings that were added after its training.
    defaults = config_lib.to_json(type(config)())
    settings = config_lib.to_json(config)
    for name in [name for name in _ALIKE if name in settings]:
        stored, value = run.args.get(name, defaults[name]), settings[name]
        if _select_comparable(name, stored) != _select_comparable(name, value):
            raise ValueError(f'{where}: pass its --{name}={stored}, not {value}')
    # A run can be saved with trees and without a graph model.
    if not run.has_weights:
        raise ValueError(f'{where} has only trees: name a run with a graph model')
    scaling = normalizer_lib.Scaling.from_json(run.info)
    if scaling is None:
        raise ValueError(f'{where} holds no normaliser: this code did not make it')
    # The embedding table has a row for each known opcode, and no more.
    if scaling.num_ops < num_ops:
        raise ValueError(
            f'{where} knows opcodes below {scaling.num_ops}, not {num_ops - 1}, which '
            'the data have; train without --init_from'
        )
    variant = splits.Variant.from_json(run.info, collection.config_columns)
    variant.check(train, f'{run.model_dir} was trained on')
    return run, scaling


def _select_comparable(name: str, value: Any) -> Any:
    """Returns the part of a setting in `_ALIKE` that must be equal in both trainings.

    Sets of --columns for a CPU may differ: a recipe adds them to the tiles of a CPU,
    and the weights keep the columns that they were trained with.
    """
    if name != 'columns':
        return value
    return sorted({*str(value).split(',')} & {*registry.find_column_sets('tpu')})
