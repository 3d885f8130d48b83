"""The code of models and losses: copies in a run directory, and their hashes.

These are the user's own files and, where its model is in it, the models.py of this
package, which people edit.  The copies are for the user to read, and to pass as
--models_file.  They are never executed otherwise, as a run may come from someone else.
"""

from collections.abc import Sequence
import hashlib
import os
import re
import subprocess
from typing import NamedTuple

from baselines.core import extensions
from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted
from baselines.runs import run_files

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))
_FOLDER = 'code'  # in a model directory
_OURS = 'models.py'  # stands for a flag: the models.py of this package
_MAX_BYTES = 16 << 20
_LOSS_FILE = re.compile(r'(?:^|,)\s*([^,]*\.py):')


class CodeFile(NamedTuple):
    """A file of code with its content at the start of a training."""

    flag: str  # that named it: 'models_file', 'losses', or `_OURS`
    path: str  # absolute; of ours, below the folder that has the package
    content: bytes  # its bytes

    @property
    def sha256(self) -> str:
        """Its hash, hexadecimal."""
        return hashlib.sha256(self.content).hexdigest()


def read(
    models_file: registry.Own, losses: str, model: str = '', task: str = ''
) -> list[CodeFile]:
    """Reads the files that settings name; none for classes, or a missing file.

    Args:
        model: the model's name; without a `models_file` it may be in ours.
        task: 'tile' or 'layout'.

    Raises:
        ValueError: a file is too large, or not a regular file.
        OSError: it cannot be read.
    """
    named = [('models_file', models_file)] if isinstance(models_file, str) else []
    named += [('losses', path) for path in _LOSS_FILE.findall(losses)]
    code = []
    for flag, name in dict.fromkeys(named):
        path = os.path.abspath(files.expand(name)) if name else ''
        if os.path.isfile(path):  # or else its import says what is wrong
            content = untrusted.read(path, _MAX_BYTES)
            code.append(CodeFile(flag, path, content))
    return code if models_file or not model else [*_find_shipped(model, task), *code]


def _find_shipped(model: str, task: str) -> list[CodeFile]:
    """Returns the models.py of this package, if a model of this name is in it."""
    path = f'baselines/{registry.FOLDERS[task]}/models.py'
    content = untrusted.read(os.path.join(_ROOT, path), _MAX_BYTES)
    pattern = rf'^(class )?{re.escape(model)}\b'.encode()
    is_there = re.search(pattern, content, re.MULTILINE)
    return [CodeFile(_OURS, path, content)] if is_there else []


def save(code: Sequence[CodeFile], folder: str) -> None:
    """Writes copies into a model directory; raises OSError."""
    if code:
        os.mkdir(os.path.join(folder, _FOLDER))
    for name, file in zip(_make_names(code), code):
        with open(os.path.join(folder, name), 'wb') as stream:
            stream.write(file.content)


def describe_code(code: Sequence[CodeFile]) -> text.JsonObject:
    """Returns the description of the user's code that a run file has, as JSON."""
    return {
        'package': extensions.find_version('tpugraphs'),
        'commit': _find_commit(),
        'files': [
            {'flag': c.flag, 'path': c.path, 'sha256': c.sha256, 'copy': name}
            for name, c in zip(_make_names(code), code)
        ],
    }


def _make_names(code: Sequence[CodeFile]) -> list[str]:
    """Returns distinct paths of copies, relative to the model directory."""
    names = [os.path.basename(file.path) for file in code]
    return [
        os.path.join(_FOLDER, f'{number}_{name}' if name in names[:number] else name)
        for number, name in enumerate(names)
    ]


def check_unchanged(run: run_files.RunFile, code: Sequence[CodeFile]) -> None:
    """Raises ValueError if a run to resume was made with other files than `code`."""
    now = [(file.flag, file.path, file.sha256) for file in code]
    for stored in run.code:
        if (stored['flag'], stored['path'], stored['sha256']) not in now:
            refuse(stored['path'], os.path.join(run.model_dir, stored['copy']))


def refuse(path: str, copy: str) -> None:
    """Raises the ValueError of --resume for a file that has changed.

    Args:
        copy: path of the file as it was.
    """
    raise ValueError(
        f'--resume: {path} is not the file that this training began with, of which '
        f'{copy} is a copy: put that back, or train without --resume'
    )


def note_difference(run: run_files.RunFile, models_file: registry.Own) -> None:
    """Prints a note if a run's model is of another file than the one used now.

    Args:
        models_file: the file that the user has named, or classes.

    Raises:
        ValueError: the user has named none, and the run's model is not one of ours.
    """
    named, model = run.args.get('models_file'), run.args['model']
    if not isinstance(models_file, str) or (models_file and not named):
        return
    flag = 'models_file' if named else _OURS
    stored = [entry for entry in run.code if entry['flag'] == flag]
    used = [] if named else _find_shipped(model, run.task)
    if models_file:
        used = read(models_file, '')
    hashes = [entry['sha256'] for entry in stored]
    # A run of the published code has no hash to compare with.
    if used and (not stored or hashes == [file.sha256 for file in used]):
        return
    for entry in stored:
        # The copy in the run counts where the user's file has changed since.
        path, copy = entry['path'], os.path.join(run.model_dir, entry['copy'])
        is_there = named and [file.sha256 for file in read(path, '')] == hashes
        named = path if is_there else copy
    if not named:
        return
    message = (
        f'{run.model_dir} was trained with {text.printable(model)} of another file: '
        f'--models_file={text.printable(named)}'
    )
    if not used and registry.is_shipped(run.task):
        if model not in registry.MODELS[run.task]:
            raise ValueError(message)
    text.note(message)


def _find_commit() -> str:
    """Returns the commit of this checkout, with '-dirty' for changes; '' elsewhere."""
    command = ['git', 'describe', '--always', '--dirty', '--abbrev=40', '--exclude=*']
    if not os.path.exists(os.path.join(_ROOT, '.git')):
        return ''
    try:
        done = subprocess.run(
            command, cwd=_ROOT, capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ''
    return done.stdout.strip()
