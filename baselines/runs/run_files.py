"""A finished training on disk: `run_<hash>.jsonz` next to `model_<hash>/`.

The run file is gzipped JSON with all that prediction needs except the weights: flags,
curves, errors and the normaliser.  It is untrusted, and is read without TensorFlow, so
that commands that only list runs are quick.
"""

from collections.abc import Iterable
import datetime
import gzip
import hashlib
import math
import os
import re
from typing import TYPE_CHECKING
import zlib

from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections

if TYPE_CHECKING:
    import numpy as np

# Run files hold curves, predictions and a normaliser: 1 to 50 MB unpacked, which
# is read before it is trusted.
LIMITS = {'size': 64 << 20, 'containers': 1_000_000, 'values': 4_000_000}
# In a model directory, the path that the files of a checkpoint begin with.
WEIGHTS = os.path.join('variables', 'variables')
_MODEL_DIR = re.compile(r'model_(\w+)')
# Arguments in a run file that are paths on a machine; all others are settings.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'models_file')
# The fields of a file of code; see `code_files`.
_CODE = ('flag', 'path', 'sha256', 'copy')


class RunFile:
    """A finished training, as its run file describes it.

    Attributes:
        model_dir: the model directory, absolute.
        info: the run file's JSON object.
        hash: the hash in the directory's name.
        file: the path of the run file.
        args: the flags of the training.
        collection: the collection that it was trained on.
        configs: number of configurations of a graph in each step of the training.
        task: its task, 'tile' or 'layout'.
        code: the files of its model and losses, with copies; see `code_files`.
        digests: hashes of settings, weights and trees as saved; {} of published runs.
        has_model: whether a graph model scores: in all runs but those of trees alone.
        has_trees: whether trees score, alone or with the graph model.
        has_weights: whether the path of a checkpoint exists, whatever is there.
        trees_file: the path of its trees, in LightGBM's text format.
        member_weights: the weights of graph model and trees in their mean; None for
            equal ones.  Where both are 0, the formula of --estimate scores alone.
        most_multiply_adds: multiply-adds of the largest program trained on, for
            --estimate; None where the run does not say.

    Raises:
        ValueError: a setting or a number that all callers use is wrong.
    """

    def __init__(self, model_dir: str, info: text.JsonObject):
        self.model_dir, self.info = model_dir, info
        self.file, self.hash = run_file(model_dir), hash_of(model_dir)
        self.trees_file = make_trees_path(model_dir)
        self.has_weights = has_weights(model_dir)
        self.args: text.JsonObject = _check_args(info)
        _check_numbers(info)
        self.code = _check_code(info)
        self.collection = collections.select_collection(self.args)
        self.task = 'layout' if 'source' in self.args else 'tile'
        default = 16 if self.task == 'layout' else 10  # as published
        self.configs: int = self.args.get('configs', default)
        digests = info.get('digest')
        self.digests: text.JsonObject = digests if isinstance(digests, dict) else {}
        is_trees = self.args['model'] == registry.TREES
        self.has_trees = is_trees or 'trees' in self.digests
        is_model = 'weights' in self.digests or 'trees' not in self.digests
        self.has_model = is_model and not is_trees
        self.member_weights: list[float] | None = info.get('member_weights')
        self.most_multiply_adds: float | None = info.get('most_multiply_adds')

    @property
    def finished(self) -> datetime.datetime:
        """The local time when it was saved; of published runs, of the run file."""
        try:
            saved = datetime.datetime.fromisoformat(self.info['finished'])
            return saved.astimezone()
        except (KeyError, TypeError, ValueError, OverflowError):
            seconds = os.path.getmtime(self.file)
            written = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
            return written.astimezone()

    @property
    def seconds(self) -> float | None:
        """The duration of the training; None where the run file does not say."""
        return self.info.get('seconds')

    @property
    def curve(self) -> dict[str, list[float | None]]:
        """Per epoch its number, losses and scores; see `progress.State`."""
        curve = self.info.get('train_curve')
        return curve if isinstance(curve, dict) else {}

    @property
    def validation_score(self) -> tuple[str, float] | None:
        """'OPA' or 'tau', and its value of all models; None: not measured."""
        score = self.info.get('val_score')
        return None if score is None else (score['measure'], score['value'])

    def check_digest(self, kind: str, digest: str) -> None:
        """Makes sure that directory and run file were saved together.

        Args:
            kind: 'weights' or 'trees'.

        Raises:
            ValueError: they, or the settings, are not those that were saved.
        """
        if self.digests.get(kind) != digest:
            raise ValueError(
                f'{self.file} belongs to another directory than {self.model_dir}: it '
                f'was saved with other {kind}; copy both again'
            )
        if self.digests.get('settings') != _hash_settings(self.info):
            raise ValueError(
                f'{self.file} was changed since it was saved; copy it again'
            )


def add_digests(
    info: text.JsonObject, weights_digest: str | None, trees_digest: str | None = None
) -> text.JsonObject:
    """Returns a run file's content with its digests."""
    digests = {
        'trees': trees_digest,
        'weights': weights_digest,
        'settings': _hash_settings(info),
    }
    return {**info, 'digest': {kind: d for kind, d in digests.items() if d}}


def hash_weights(values: Iterable['np.ndarray']) -> str:
    """Hashes the values of all variables of a model, their types and shapes."""
    hashed = hashlib.sha256()
    for value in values:
        hashed.update(f'{value.dtype.str}{list(value.shape)}'.encode())
        hashed.update(value.tobytes())
    return hashed.hexdigest()


def _hash_settings(info: text.JsonObject) -> str:
    """Hashes a run file's settings: everything but paths and digests."""
    args = {k: v for k, v in info.get('args', {}).items() if k not in _PLACES}
    settings = {**info, 'args': args, 'digest': None}
    return text.hash_json(settings)


def run_file(model_dir: str) -> str:
    """Returns the path of a model directory's run file, next to it."""
    folder, name = os.path.split(model_dir)
    return os.path.join(folder, f'run_{name[len("model_") :]}.jsonz')


def lock_file(folder: str, training_key: str) -> str:
    """Returns the path of the lock that a training holds in its --out_dir."""
    return os.path.join(folder, f'.unfinished_{training_key}.lock')


def hash_of(model_dir: str) -> str:
    """Returns the hash in the name of a model directory; '' for any other path."""
    match = _MODEL_DIR.fullmatch(os.path.basename(model_dir))
    return match.group(1) if match else ''


def make_state_path(model_dir: str) -> str:
    """Returns the path of the state with which a run's graph model can train on."""
    return os.path.join(model_dir, 'training_state.npz')


def make_trees_path(model_dir: str) -> str:
    """Returns the path of the trees in a model directory."""
    return os.path.join(model_dir, 'trees.txt')


def has_weights(model_dir: str) -> bool:
    """Returns whether the path of a checkpoint exists, whatever is there."""
    return os.path.lexists(os.path.join(model_dir, f'{WEIGHTS}.index'))


def list_dirs(folder: str) -> list[str]:
    """Returns the model directories in a folder that have a run file, sorted."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    folders = [os.path.join(folder, name) for name in names if hash_of(name)]
    return [d for d in folders if os.path.isdir(d) and os.path.isfile(run_file(d))]


def read(model_dir: str) -> RunFile:
    """Reads the run file of a model directory; raises ValueError if it is damaged."""
    path = run_file(model_dir)
    if not os.path.lexists(path):
        raise ValueError(
            f'the run file {path} is missing; it belongs next to the model '
            'directory of the same hash'
        )
    try:
        with untrusted.open_regular(path, LIMITS['size']) as stream:
            # One byte more than allowed, by which `check_size` finds it too large.
            content = gzip.GzipFile(fileobj=stream).read(LIMITS['size'] + 1)
        untrusted.check_size(content, **LIMITS)
        # The published code writes NaN.
        info = untrusted.loads(content, finite=False)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ValueError(
            f'the run file {path} is damaged: {error}; copy it again'
        ) from None
    with text.locate_errors(f'the run file {path}'):
        return RunFile(model_dir, info)


def _check_args(info: object) -> text.JsonObject:
    """Returns the flags in a run file's object, checked as all callers use them."""
    args = info.get('args') if isinstance(info, dict) else None
    if not isinstance(args, dict) or not isinstance(args.get('model'), str):
        raise ValueError('it does not say which model it is (args.model)')
    kwargs, configs = args.get('model_kwargs_json', ''), args.get('configs', 10)
    if not isinstance(kwargs, str):
        raise ValueError(
            f'args.model_kwargs_json must be text, not {text.quoted(kwargs)}'
        )
    if type(configs) is not int or configs < 1:  # True is an int as well
        raise ValueError(
            f'args.configs must be a positive number, not {text.printable(configs)}'
        )
    return args


def _check_code(info: text.JsonObject) -> list[dict[str, str]]:
    """Returns the list of `describe_code`; [] of an older or published run."""
    code = info.get('code')
    entries = code.get('files') if isinstance(code, dict) else None
    entries = entries if isinstance(entries, list) else []
    for entry in entries:
        known = entry if isinstance(entry, dict) else {}
        if not all(isinstance(known.get(name), str) for name in _CODE):
            raise ValueError(f'code.files: every file must have {", ".join(_CODE)}')
    return entries


def _check_numbers(info: text.JsonObject) -> None:
    """Raises ValueError for a number outside the settings that cannot be."""
    curve = info.get('train_curve')
    for name, values in curve.items() if isinstance(curve, dict) else ():
        if not isinstance(values, list) or not all(map(_is_number_or_none, values)):
            raise ValueError(f'train_curve.{name} is not a list of numbers')
    if not _is_number_or_none(info.get('seconds')):
        raise ValueError('seconds is not a number')
    score = info.get('val_score')
    if score is not None:
        is_valid = isinstance(score, dict) and score.get('measure') in ('OPA', 'tau')
        if not is_valid or type(score.get('value')) is not float:
            raise ValueError('val_score is not a measure and its value')
    weights, args = info.get('member_weights'), info['args']
    # Without a formula to begin with, one of both scores.
    formula = 'source' in args and bool(args.get('estimate'))
    pairs = [[a, b] for a in (0, 0.5, 1) for b in (0, 0.5, 1) if formula or a or b]
    if weights is not None and weights not in pairs:
        raise ValueError(
            f'member_weights must be two of 0, 0.5 and 1, not {text.printable(weights)}'
        )
    most = info.get('most_multiply_adds', 0)
    # It may be beyond 2^53, up to which floats hold every integer.
    if most is not None and not (type(most) in (int, float) and 0 <= most < math.inf):
        raise ValueError(
            'most_multiply_adds must be a number of at least 0, '
            f'not {text.printable(most)}'
        )


def _is_number_or_none(value: object) -> bool:
    return value is None or type(value) in (int, float)  # True is an int as well
