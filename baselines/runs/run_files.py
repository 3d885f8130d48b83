"""A finished training on disk: `run_<hash>.jsonz` next to `model_<hash>/`.

The run file is gzipped JSON with all that prediction needs except the weights: flags,
curves, errors and the normaliser.  It is untrusted, and is read without TensorFlow, so
that commands that only list runs are quick.
"""

import dataclasses
import datetime
import functools
import gzip
import hashlib
import itertools
import json
import math
import os
import re
import zlib

from baselines.core import old_columns
from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted
from baselines.data import collections

# Run files hold curves, predictions and a normaliser: 1 to 50 MB unpacked, which
# is read before it is trusted.  A value takes 8 to 250 bytes of memory.
MAX_RUN_BYTES = 64 << 20
MAX_VALUES = 4_000_000
MAX_CONTAINERS = 1_000_000
_MODEL_DIR = re.compile(r'model_(\w+)')
# Arguments in a run file that are paths on a machine; all others are settings.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'models_file')


@dataclasses.dataclass(frozen=True)
class RunFile:
    """A finished training, as its run file describes it."""

    model_dir: str  # the model directory, absolute
    info: text.JsonObject  # the run file's JSON object

    @functools.cached_property
    def args(self) -> text.JsonObject:
        """The flags of the training, by today's names."""
        args = self.info['args']
        return old_columns.translate(args, 'source' not in args)

    @property
    def task(self) -> str:
        """The task that it was trained on: 'tile' or 'layout'."""
        return 'layout' if 'source' in self.args else 'tile'

    def collection(self) -> collections.Collection:
        """Returns the collection that it was trained on; raises ValueError for none."""
        with text.located(self.file):
            return collections.collection_from_flags(self.args)

    def part(self, name: str) -> collections.Collection:
        """Returns the collection whose graphs are to be scored.

        Args:
            name: the collection; '' for the only one that it was trained on.

        Raises:
            ValueError: it is not of that collection, or of several and none is named.
        """
        parts = self.collection().parts
        chosen = [part for part in parts if name in ('', part.name)]
        if len(chosen) == 1:
            return chosen[0]
        names = ', '.join(part.name for part in parts)
        if name:
            raise ValueError(
                f'--collection={name} is for --dir estimate, or for runs that were '
                f'trained on it among others: {self.model_dir} is of {names}'
            )
        raise ValueError(
            f'{self.model_dir} was trained on {names}: choose one with --collection'
        )

    @property
    def hash(self) -> str:
        """The hash in the directory's name."""
        return hash_of(self.model_dir)

    @property
    def file(self) -> str:
        """The path of the run file."""
        return run_file(self.model_dir)

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

    @property
    def has_model(self) -> bool:
        """Whether a graph model scores: in all runs but those of trees alone."""
        if self.args['model'] == registry.TREES:
            return False
        return 'weights' in self.digests or 'trees' not in self.digests

    @property
    def has_trees(self) -> bool:
        """Whether trees score, alone or with the graph model."""
        if self.args['model'] == registry.TREES:
            return True
        return 'trees' in self.digests

    @property
    def trees_file(self) -> str:
        """The path of its trees, in LightGBM's text format."""
        return trees_path(self.model_dir)

    @property
    def member_weights(self) -> list[float] | None:
        """The weights of graph model and trees in their mean; raises ValueError.

        Where both are 0, the formula of --estimate scores alone.
        """
        weights = self.info.get('member_weights')
        if weights is None:
            return None
        pairs = itertools.product((0.0, 0.5, 1.0), repeat=2)
        # Without a formula to begin with, one of both scores.
        formula = self.task == 'layout' and bool(self.args.get('estimate'))
        if weights not in [list(pair) for pair in pairs if formula or any(pair)]:
            raise ValueError(
                f'{self.file}: member_weights should be two of 0, 0.5 and 1, '
                f'not {text.printable(weights)}'
            )
        return weights

    @property
    def most_multiply_adds(self) -> float | None:
        """Multiply-adds of the largest program trained on, for --estimate.

        None where the run does not say.

        Raises:
            ValueError: it is no such number.
        """
        most = self.info.get('most_multiply_adds')
        if most is None:
            return None
        # Not `untrusted.is_number`: it may be beyond 2^53.
        if type(most) in (int, float) and 0 <= most < math.inf:
            return float(most)
        raise ValueError(
            f'{self.file}: most_multiply_adds should be a number of at least 0, '
            f'not {text.printable(most)}'
        )

    @property
    def digests(self) -> text.JsonObject:
        """Hashes of settings, weights and trees as saved; {} of published runs."""
        digests = self.info.get('digest')
        return digests if isinstance(digests, dict) else {}

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
        if self.digests.get('settings') != _settings_digest(self.info):
            raise ValueError(
                f'{self.file} was changed since it was saved; copy it again'
            )


def signed(
    info: text.JsonObject, weights_digest: str | None, trees_digest: str | None = None
) -> text.JsonObject:
    """Returns a run file's content with its digests."""
    digests = {
        'trees': trees_digest,
        'weights': weights_digest,
        'settings': _settings_digest(info),
    }
    return {**info, 'digest': {kind: d for kind, d in digests.items() if d}}


def _settings_digest(info: text.JsonObject) -> str:
    """Hashes a run file's settings: everything but paths and digests."""
    args = {k: v for k, v in info.get('args', {}).items() if k not in _PLACES}
    settings = {**info, 'args': args, 'digest': None}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


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


def weights_path(model_dir: str) -> str:
    """Returns the path that the files of a checkpoint begin with."""
    return os.path.join(model_dir, 'variables', 'variables')


def state_path(model_dir: str) -> str:
    """Returns the path of the state with which a run's graph model can train on."""
    return os.path.join(model_dir, 'training_state.npz')


def trees_path(model_dir: str) -> str:
    """Returns the path of the trees in a model directory."""
    return os.path.join(model_dir, 'trees.txt')


def has_weights(model_dir: str) -> bool:
    """Returns whether the path of a checkpoint exists, whatever is there."""
    return os.path.lexists(f'{weights_path(model_dir)}.index')


def check_weights(model_dir: str) -> None:
    """Makes sure that there is a checkpoint, in regular files.

    Raises:
        ValueError: there is none, or one of its files is a pipe or a device.
    """
    folder = os.path.dirname(weights_path(model_dir))
    if not has_weights(model_dir):
        raise ValueError(
            f'--dir: {model_dir} holds no saved model, or its run file belongs to '
            'another directory; copy both again'
        )
    for name in os.listdir(folder):  # TensorFlow opens them itself
        untrusted.open_regular(os.path.join(folder, name)).close()


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
    return RunFile(model_dir, _read(run_file(model_dir)))


def _read(path: str) -> text.JsonObject:
    """Reads the object in a run file, and checks the fields that all callers use."""
    if not os.path.lexists(path):
        raise ValueError(
            f'the run file {path} is missing; it belongs next to the model '
            'directory of the same hash'
        )
    try:
        with untrusted.open_regular(path, MAX_RUN_BYTES) as stream:
            content = gzip.GzipFile(fileobj=stream).read(MAX_RUN_BYTES + 1)
        check_size(content)
        # The published code writes NaN.
        info = untrusted.loads(content, finite=False)
    except (EOFError, zlib.error, gzip.BadGzipFile, ValueError) as error:
        raise ValueError(
            f'the run file {path} is damaged: {error}; copy it again'
        ) from None
    args = info.get('args') if isinstance(info, dict) else None
    if not isinstance(args, dict) or not isinstance(args.get('model'), str):
        raise ValueError(
            f'the run file {path} does not say which model it is (args.model)'
        )
    kwargs, configs = args.get('model_kwargs_json', ''), args.get('configs', 10)
    if not isinstance(kwargs, str):
        raise ValueError(
            f'the run file {path}: args.model_kwargs_json should be text, not '
            f'{text.quoted(kwargs)}'
        )
    if type(configs) is not int or configs < 1:  # True is an int as well
        raise ValueError(
            f'the run file {path}: args.configs should be a positive number, '
            f'not {text.printable(configs)}'
        )
    try:
        _check_numbers(info)
    except ValueError as error:
        raise ValueError(f'the run file {path}: {error}') from None
    return info


def check_size(content: bytes) -> None:
    """Makes sure that the JSON of a run file takes bounded memory to read.

    Raises:
        ValueError: it is too long, or holds too many values.
    """
    if len(content) > MAX_RUN_BYTES:
        raise ValueError(f'it unpacks to more than {MAX_RUN_BYTES} bytes')
    containers = content.count(b'[') + content.count(b'{')
    if containers > MAX_CONTAINERS or content.count(b',') > MAX_VALUES:
        raise ValueError('it holds more values than any run has')


def _check_numbers(info: text.JsonObject) -> None:
    """Raises ValueError unless curves, duration and validation score are numbers."""
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


def _is_number_or_none(value: object) -> bool:
    return value is None or type(value) in (int, float)  # True is an int as well
