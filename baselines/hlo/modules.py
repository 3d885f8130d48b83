"""HLO modules without candidates: reads them, names them and checks their references.

source = read_source('module.pb', 'rank')  # or the tuning data of a raw file
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import re

from baselines.core import extensions
from baselines.core import files
from baselines.core import text
from baselines.hlo import forms
from baselines.hlo import protos
from baselines.hlo import reading

# Characters of a name; file systems allow 255 bytes, and hashes and endings follow.
_MOST_NAME = 100
SAVED_MODEL_FILES = ('saved_model.pb', 'saved_model.pbtxt')


@dataclasses.dataclass(frozen=True, eq=False)
class Program:
    """An HLO module and its origin."""

    name: str  # letters, digits and `_`; names of its kernels begin with it
    module: protos.HloModuleProto  # the module, unchanged
    form: str = forms.MODULE  # the form that it was read from, of `forms`
    source: str = ''  # the file or function, for messages


# What a path holds.
Source = Program | reading.RawFile


def find_files(patterns: list[str], command: str) -> list[str]:
    """Returns the files that arguments name, as `reading.find_files` does.

    Args:
        command: the command of the laboratory for programs in other forms.

    Raises:
        ValueError: an argument names nothing, or a program in Python, a part of a
            file, or a SavedModel.
    """
    for pattern in patterns:
        path, _, part = pattern.rpartition(':')
        is_part = bool(part) and os.path.isfile(files.expand(path))
        folder = files.expand(pattern)
        inside = (os.path.join(folder, name) for name in SAVED_MODEL_FILES)
        is_python = '.py' in (pattern[-3:], path[-3:])
        if is_python or is_part or any(map(os.path.isfile, inside)):
            raise ValueError(extensions.in_laboratory(pattern, f'{command} {pattern}'))
    return reading.find_files(patterns)


def read_source(path: str, command: str) -> Source:
    """Reads tuning data, or a message with an HLO module.

    Args:
        command: the command of the laboratory for programs in other forms.

    Raises:
        ValueError: it is neither, or is damaged; names the file.
        OSError: it cannot be read.
    """
    data = reading.read_bytes(path)
    with text.located(path):
        form = forms.detect_form(data)
        if form == forms.TUNING:
            return reading.parse_tuning(data)
        if form not in forms.PROTOS:
            raise ValueError(extensions.in_laboratory(form, f'{command} {path}'))
        return read_message(
            data, form, os.path.splitext(os.path.basename(path))[0], path
        )


def read_message(data: bytes, form: str, name: str, source: str) -> Program:
    """Reads the module in a message of one of `forms.PROTOS`; raises ValueError."""
    module = reading.module_of(data, form)
    check_references(module)
    return Program(clean_name(name), module, form, source)


def check_references(module: protos.HloModuleProto) -> None:
    """Checks that references are there; makes a single computation the entry.

    Raises:
        ValueError: one is missing; names it.
    """
    numbers = [computation.id for computation in module.computations]
    if len(numbers) == 1:
        [module.entry_computation_id] = numbers
    if module.entry_computation_id not in numbers:
        raise ValueError(
            f'none of its {len(numbers):,} computations is the entry computation'
        )
    # As XLA stores them, callees come before their callers.
    callees: set[int] = set()
    for computation in module.computations:
        inside = {instruction.id for instruction in computation.instructions}
        for instruction in computation.instructions:
            name = text.printable(instruction.name)
            if not inside.issuperset(instruction.operand_ids):
                raise ValueError(f'an operand of %{name} is not there')
            if not callees.issuperset(instruction.called_computation_ids):
                raise ValueError(f'%{name} calls a computation that is not there')
        if computation.root_id not in inside:
            raise ValueError(f'computation {text.quoted(computation.name)} has no root')
        callees.add(computation.id)


def clean_name(name: str) -> str:
    """Returns a name with `_` instead of all but letters and digits.

    A long name is cut, and ends in a hash: files and records are named by it.
    """
    clean = re.sub(r'[^A-Za-z0-9_]', '_', name).strip('_') or 'program'
    if len(clean) <= _MOST_NAME:
        return clean
    digest = hashlib.sha256(name.encode('utf-8', 'surrogatepass')).hexdigest()[:8]
    return f'{clean[: _MOST_NAME - 1 - len(digest)]}_{digest}'
