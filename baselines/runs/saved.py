"""Saves and loads runs: `model_<hash>/` and `run_<hash>.jsonz`.

The directory is a Keras SavedModel, which the course's own script loads; the
run file is gzipped JSON with everything else that prediction needs.  We read
the weights back as a plain checkpoint: the stored graph is never executed.
Trees are a text file in the same directory, beside the SavedModel or alone.
TensorFlow is imported where there is a model: trees need not wait for it.
"""

import contextlib
import errno
import gzip
import hashlib
import json
import logging
import os
import re
import tempfile
from typing import Any, Dict, List, Optional, Tuple
import uuid
import warnings

from absl import logging as absl_logging

from baselines import files
from baselines import text
from baselines.runs import finding
from baselines.runs import run_files
from baselines.runs import trees as trees_lib

# Hidden names of files that are being written.
_LEFTOVERS = re.compile(
    r'\.((model_[0-9a-f]{32}|run_[0-9a-f]{32}\.jsonz|unfinished_\w+\.npz'
    r'|results_\w+\.csv)\.\w{8}|unfinished_\w+\.lock)'
)
run_file = run_files.run_file
# Arguments in a run file that are places of a machine; all others are settings.
_PLACES = ('data_root', 'cache_dir', 'out_dir', 'results_csv', 'models_file')


def new_hash() -> str:
    """Returns a fresh name for a run; no two runs share one."""
    return uuid.uuid4().hex[:32]


def check_writable(out_dir: str, flag: str = 'out_dir') -> None:
    """Makes `out_dir` and tries to write there, before hours are spent.

    Args:
        out_dir: a folder.
        flag: which flag names it, for the message.

    Raises:
        ValueError: that fails; says why.
    """
    try:
        os.makedirs(files.expand(out_dir), exist_ok=True)
        with tempfile.TemporaryFile(dir=files.expand(out_dir)) as probe:
            probe.write(b'x' * 4096)
            probe.flush()
    except OSError as error:
        raise ValueError(
            f'--{flag} {out_dir} cannot be written: {text.with_advice(error)}'
        ) from None


def check_file_writable(path: str, flag: str) -> None:
    """Makes sure that the file that a flag names can be written.

    Raises:
        ValueError: it is a folder, or its folder cannot be written.
    """
    path = files.expand(path)
    if os.path.isdir(path):
        raise ValueError(f'--{flag} {path} is a folder: name a file in it')
    if not os.path.exists(path) or os.path.isfile(path):
        check_writable(os.path.dirname(path), flag)


class Run(run_files.RunFile):
    """A finished training: its run file, its weights and its trees."""

    @classmethod
    def load(cls, name: str, task: str = '') -> 'Run':
        """Reads a run, and makes sure that its weights are there.

        Args:
            name: its model directory, or another name for `finding.find`.
            task: of the latest run, where that is wanted.

        Raises:
            ValueError: there is no such run, or its run file is missing or damaged.
        """
        model_dir = finding.find_one(name, task)
        has_trees = os.path.lexists(os.path.join(model_dir, trees_lib.FILE))
        if not has_trees or run_files.has_weights(model_dir):
            run_files.check_weights(model_dir)
        return cls(model_dir, run_files.read(model_dir).info)

    @classmethod
    def save(
        cls,
        out_dir: str,
        run_hash: str,
        info: Dict[str, Any],
        model: Optional[Any] = None,
        trees: Optional[trees_lib.Trees] = None,
    ) -> 'Run':
        """Writes a run; both directory and run file appear, or neither.

        Args:
            out_dir: where to.
            run_hash: from `new_hash`.
            info: the run file's content; must not hold NaN.
            model: a model that was called on a graph; None for a run without.
            trees: trees that go into the directory, if any.

        Raises:
            OSError: it cannot be written, or there is a run of that hash.
            ValueError: `info` holds a number that JSON does not know, or more than
                a run file may hold.
        """
        of_model = _weights_digest(model) if model else None
        of_trees = trees.digest() if trees else None
        info, content = _content(info, of_model, of_trees)
        final = os.path.join(files.expand(out_dir), f'model_{run_hash}')
        for path in (final, run_file(final)):
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, 'a run is never overwritten', path)
        try:
            with files.folder_atomically(final) as folder:
                if model:
                    save_model(model, folder)
                if trees:
                    trees.save(folder)
                with files.write_atomically(run_file(final), 'wb') as stream:
                    with gzip.GzipFile(fileobj=stream, mode='wb') as packed:
                        packed.write(content)
        except BaseException:
            if not os.path.isdir(final) and os.path.exists(run_file(final)):
                os.unlink(run_file(final))
            raise
        return cls(final, info)

    @property
    def has_model(self) -> bool:
        """Whether a graph model scores: in all runs but those of trees alone."""
        if self.args['model'] == trees_lib.NAME:
            return False
        return 'weights' in self._digests or 'trees' not in self._digests

    @property
    def has_trees(self) -> bool:
        """Whether trees score, alone or beside the graph model."""
        if self.args['model'] == trees_lib.NAME:
            return True
        return 'trees' in self._digests and not self.has_trees_of_programs

    @property
    def has_trees_of_programs(self) -> bool:
        """Whether it has trees for its training programs alone.

        Earlier versions grew them for layouts; they are no longer used.
        """
        return bool(self.info.get('programs'))

    def read_weights(self, model: Any) -> None:
        """Copies the weights into a built model, by position.

        Args:
            model: an instance of the run's architecture, called once.

        Raises:
            ValueError: their number or shapes differ, the files are damaged, or
                they or the settings are not those that were saved together.
        """
        from baselines.runs import weights

        stored = weights.read(self.model_dir, model)
        expected = [list(v.shape) for v in model.variables]
        if stored != expected:
            raise ValueError(_difference(self, stored, expected))
        _note_version(self)
        if self._digests:
            return self._check_digest('weights', _weights_digest(model))
        text.note(
            f'{self.model_dir}: its run file has no digest (the published code '
            'and older versions write none), so whether it belongs to these '
            'weights cannot be checked'
        )

    def read_trees(self) -> trees_lib.Trees:
        """Reads the trees.

        Raises:
            ValueError: they are missing or damaged, or they and the settings are not
                those that were saved together.
        """
        trees = trees_lib.Trees.read(self.model_dir)
        self._check_digest('trees', trees.digest())
        return trees

    @property
    def _digests(self) -> Dict[str, Any]:
        """The digests in the run file by kind; of old runs none."""
        digests = self.info.get('digest')
        return digests if isinstance(digests, dict) else {}

    def _check_digest(self, kind: str, digest: str) -> None:
        """Makes sure that directory and run file were saved together."""
        if self._digests.get(kind) != digest:
            raise ValueError(
                f'{self.model_dir} does not hold the {kind} that '
                f'{run_file(self.model_dir)} was saved with; copy both again'
            )
        if self._digests.get('settings') != _settings_digest(self.info):
            raise ValueError(
                f'{run_file(self.model_dir)} was changed since it was saved; copy it '
                'again'
            )


def _content(
    info: Dict[str, Any], of_model: Optional[str], of_trees: Optional[str]
) -> Tuple[Dict[str, Any], bytes]:
    """Returns the content of a run file, signed, and its bytes before packing.

    Test predictions that make it larger than a run file may be are left out: the CSV
    has them.
    """
    whole = signed(info, of_model, of_trees)
    content = json.dumps(whole, allow_nan=False).encode()
    try:
        run_files.check_size(content)
    except ValueError as error:
        if not info.get('test_predictions'):
            raise
        print(f'note: the run file is without test_predictions: {error}')
        return _content({**info, 'test_predictions': {}}, of_model, of_trees)
    return whole, content


def signed(
    info: Dict[str, Any],
    weights_digest: Optional[str],
    trees_digest: Optional[str] = None,
) -> Dict[str, Any]:
    """Returns a run file's content with its digests."""
    digests = {
        'trees': trees_digest,
        'weights': weights_digest,
        'settings': _settings_digest(info),
    }
    return {**info, 'digest': {kind: d for kind, d in digests.items() if d}}


def remove_leftovers(out_dir: str) -> None:
    """Removes the half-written files of trainings that were killed."""
    files.remove_leftovers(out_dir, _LEFTOVERS)


def finished(out_dir: str, run_hash: str) -> Optional[Run]:
    """Returns the run of that hash; half a one, of a killed training, is removed."""
    model_dir = os.path.join(files.expand(out_dir), f'model_{run_hash}')
    if os.path.isdir(model_dir):
        return Run.load(model_dir)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(run_file(model_dir))  # `save` writes it first
    return None


def find(out_dir: str, training_key: str) -> Optional[Run]:
    """Returns a run of that training in a folder, or None."""
    for model_dir in run_files.list_dirs(files.expand(out_dir)):
        with contextlib.suppress(ValueError, OSError):
            run = Run.load(model_dir)
            if run.info.get('training_key') == training_key:
                return run
    return None


def save_model(model: Any, path: str) -> None:
    """Writes a Keras SavedModel; raises OSError where that fails."""
    import tensorflow as tf

    # TF-GNN's types are announced one by one, and Keras says that the model
    # was not compiled; both are as they should be.
    logger, verbosity = tf.get_logger(), absl_logging.get_verbosity()
    level = logger.level
    logger.setLevel(logging.ERROR)
    absl_logging.set_verbosity(absl_logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter('ignore')
            model.save(path, include_optimizer=False)
    except (tf.errors.OpError, OSError) as error:
        raise OSError(f'{path}: the model cannot be saved: {error}') from None
    finally:
        logger.setLevel(level)
        absl_logging.set_verbosity(verbosity)


def _weights_digest(model: Any) -> str:
    from baselines.runs import weights

    return weights.digest(model)


def _settings_digest(info: Dict[str, Any]) -> str:
    """Hashes a run file's settings: all but places and digests."""
    args = {k: v for k, v in info.get('args', {}).items() if k not in _PLACES}
    settings = {**info, 'args': args, 'digest': None}
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()


def _note_version(run: Run) -> None:
    """Prints a note if a run was trained with another version of TensorFlow."""
    import tensorflow as tf

    versions = run.info.get('versions')
    trained_with = versions.get('tensorflow') if isinstance(versions, dict) else None
    if (
        trained_with
        and str(trained_with).split('.')[:2] != tf.__version__.split('.')[:2]
    ):
        text.note(
            f'{run.model_dir} was trained with TensorFlow '
            f'{text.printable(str(trained_with))}; here is {tf.__version__}'
        )


def _difference(run: Run, stored: List[List[int]], expected: List[List[int]]) -> str:
    """Describes how the shapes of stored variables and of a model's differ."""
    variables = text.count(len(stored), 'variable')
    content = f'{variables} where the model has {len(expected)}'
    if len(stored) == len(expected):
        i = next(i for i, (a, b) in enumerate(zip(stored, expected)) if a != b)
        content = f'variable {i} of shape {stored[i]} where the model has {expected[i]}'
    return (
        f'{run.model_dir} holds {content}: it was trained as '
        f'{run.args["model"]} {run.args.get("model_kwargs_json", "{}")} with '
        'other code or data; pass its models.py as --models_file'
    )
