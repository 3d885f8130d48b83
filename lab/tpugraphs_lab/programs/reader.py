"""Reads programs of every form.

program = read_program('module.hlo')
program.module, program.form
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
import dataclasses
import os
from typing import NamedTuple

from baselines.core import files
from baselines.core import text
from baselines.hlo import forms
from baselines.hlo import reading
from tpugraphs_lab.programs import conversion
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import functions

FUNCTION = 'function'
SAVED_MODEL = 'SavedModel'


@dataclasses.dataclass(frozen=True, eq=False)
class Program(reading.Program):
    """A program; its form may be FUNCTION or SAVED_MODEL, too."""

    seconds: int | None = None  # CPU time that compiling may take, if it was given
    # operations that cannot run here -> how many there were; see `kernels.removal`
    cut_out: Mapping[str, int] = dataclasses.field(default_factory=dict)


# What a path holds.
Source = Program | reading.RawFile


class Options(NamedTuple):
    """How programs are read."""

    batch_size: int | None = None  # the first size of arguments that do not say it
    # CPU time that reading and compiling may take; None for the defaults
    seconds: int | None = None

    def check(self) -> None:
        """Checks them; raises ValueError for a number below 1."""
        for name, number in self._asdict().items():
            if number is not None and number < 1:
                raise ValueError(f'--{name} is {number}; it is at least 1')


@extras.naming_the_command()
def read_program(
    x: object, *args: object, name: str = '', options: Options = Options()
) -> Program:
    """Reads a program; see `tpugraphs.read_program` for arguments and errors."""
    options.check()
    if isinstance(x, Program):
        return x
    if isinstance(x, (str, os.PathLike)):
        program = _from_path(os.fspath(x), args or None, options)
    elif isinstance(x, bytes):
        program = _from_bytes(x, 'program', 'bytes', options)
    elif hasattr(x, 'SerializeToString'):
        content = x.SerializeToString()
        program = _from_bytes(content, 'program', type(x).__name__, options)
    elif callable(x):
        own = getattr(x, '__name__', '') or getattr(x, 'name', '') or type(x).__name__
        size = options.batch_size
        module = functions.trace(x, args or None, own, size)
        program = Program(own, module, FUNCTION, own)
    else:
        raise ValueError(
            f'a program is a path, a message, a function or a Keras model, not '
            f'{type(x).__name__}'
        )
    return dataclasses.replace(
        program, name=reading.clean_name(name or program.name), seconds=options.seconds
    )


def find_sources(patterns: Sequence[str]) -> list[str]:
    """Returns the files (see `reading.find_files`) and functions that arguments name.

    Args:
        patterns: files, folders (searched for *.pb), globs, SavedModels, and
            `FILE:NAME` of a function in Python or MLIR.

    Raises:
        ValueError: an argument names nothing.
    """
    sources: list[str] = []
    for pattern in patterns:
        sources += [pattern] if _is_part(pattern) else reading.find_files([pattern])
    return list(dict.fromkeys(sources))


def read_source(path: str, options: Options) -> Source:
    """Reads a path of `find_sources`: tuning data, and anything else as a program.

    Raises:
        ValueError: it holds neither, or is damaged.
        OSError: it cannot be read.
    """
    if not _is_part(path):
        data = reading.read_bytes(path)
        with text.locate_errors(path):
            if forms.detect_form(data) == forms.TUNING:
                return reading.parse_tuning(data)
    return read_program(path, options=options)


def tuning_kind(source: str) -> str:
    """Returns 'tile' or 'layout' for a file of tuning data; '' for another program.

    The modules are not parsed, which takes seconds for a large file.

    Raises:
        ValueError: it holds no program.
        OSError: it cannot be read.
    """
    if _is_part(source):
        return ''
    data = _read(source)
    with text.locate_errors(source):
        if forms.detect_form(data) != forms.TUNING:
            return ''
        return forms.detect_kind(data) or reading.parse_tuning(data).kind


def _from_path(source: str, args: Sequence[object] | None, options: Options) -> Program:
    """Reads a file, `FILE:NAME`, or a SavedModel."""
    function = _function_of(source)
    if function:
        path, name = _existing(function[0], source), function[1]
        stem = os.path.splitext(os.path.basename(path))[0]
        module = functions.from_file(path, name, *options)
        return Program(f'{stem}_{name}', module, FUNCTION, source)
    saved = _saved_model_of(source)
    if saved:
        folder, name = saved
        if args is None:
            module = functions.from_file(folder, name, *options)
        else:
            size = options.batch_size
            module = functions.trace_saved_model(folder, name, args, size)
        return Program(os.path.basename(folder), module, SAVED_MODEL, source)
    path, name = _named_part(source) or (source, '')
    stem = os.path.splitext(os.path.basename(path))[0]
    return _from_bytes(_read(path), stem, files.expand(source), options, name)


def _read(source: str) -> bytes:
    """Returns the bytes of a file; raises OSError, or ValueError for a folder."""
    path = _existing(source, source)
    if os.path.isdir(path):
        raise ValueError(f'{source}: a folder without a SavedModel; give a file')
    return reading.read_bytes(path)


def _existing(path: str, source: str) -> str:
    """Returns the absolute path of a source's file; raises FileNotFoundError."""
    path = files.expand(path)
    if not os.path.lexists(path):
        raise FileNotFoundError(f'{source}: there is no such file; check the path')
    return path


def _from_bytes(
    data: bytes, name: str, source: str, options: Options, function: str = ''
) -> Program:
    """Reads the content of a file, whose form the content tells."""
    with text.locate_errors(source):
        form = forms.detect_form(data)
        if function and not form.startswith('MLIR'):
            raise ValueError(f'is {form}, which has one program: leave out :{function}')
        if form == forms.TUNING:
            return _from_tuning(data, name, source)
        notes: Sequence[str] = ()
        if form in forms.PROTOS:
            module = reading.extract_module(data, form)
        else:
            module, notes = conversion.module_of(
                data, form, reading.clean_name(name), function, options.seconds
            )
        reading.check_references(module)
    for note in notes:
        text.note(f'{source}: {note}')
    return Program('_'.join(filter(None, (name, function))), module, form, source)


def _from_tuning(data: bytes, name: str, source: str) -> Program:
    """Reads tuning data of one module; raises ValueError for several."""
    tunings = reading.parse_tuning(data).modules
    if len(tunings) != 1:
        raise ValueError(
            f'holds {len(tunings):,} modules, where one program is wanted; write the '
            'one to take into a file of its own'
        )
    [tuning] = tunings
    reading.check_references(tuning.module)
    return Program(name, tuning.module, forms.TUNING, source)


def _is_part(source: str) -> bool:
    """Returns whether a source names a function, a SavedModel or `FILE:NAME`."""
    return bool(_function_of(source) or _saved_model_of(source) or _named_part(source))


def _function_of(source: str) -> tuple[str, str] | None:
    """Returns the path and name of `FILE.py:NAME`; None for anything else."""
    path, _, name = source.rpartition(':')
    if path.endswith('.py'):
        return path, name
    if source.endswith('.py'):
        raise ValueError(f'{source}: which function? say {source}:FUNCTION')
    return None


def _named_part(source: str) -> tuple[str, str] | None:
    """Returns the path and name of `FILE:NAME`; None for anything else."""
    path, _, name = source.rpartition(':')
    is_part = not os.path.lexists(files.expand(source))
    return (path, name) if is_part and os.path.isfile(files.expand(path)) else None


def _saved_model_of(source: str) -> tuple[str, str] | None:
    """Returns the folder and signature of a SavedModel; None for anything else."""
    folder, _, name = source.rpartition(':')
    for path, signature in ((source, ''), (folder, name)):
        inside = (
            os.path.join(files.expand(path), f) for f in reading.SAVED_MODEL_FILES
        )
        if path and any(map(os.path.isfile, inside)):
            return files.expand(path), signature
    return None
