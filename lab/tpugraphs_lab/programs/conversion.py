"""Converts HLO text and MLIR to HLO modules with jaxlib, in a child process."""

from __future__ import annotations

import re

from google.protobuf import message

from baselines.core import text
from baselines.hlo import forms
from baselines.hlo import protos
from tpugraphs_lab.programs import elided
from tpugraphs_lab.programs import extras
from tpugraphs_lab.programs import hlo_text
from tpugraphs_lab.programs import isolated
from tpugraphs_lab.programs import stablehlo
from tpugraphs_lab.programs import xla

_NEWER = re.compile(r'unknown|deserialize', re.IGNORECASE)
_DIALECT = re.compile(r"Dialect `(\w+)' not found for custom op '([\w.]+)'")


def module_of(
    data: bytes, form: str, title: str, name: str = '', seconds: int | None = None
) -> tuple[protos.HloModuleProto, list[str]]:
    """Converts a text or bytecode to an HloModuleProto.

    Args:
        data: the text, UTF-8, or the bytecode.
        form: HLO_TEXT, MLIR_TEXT or MLIR_BYTECODE of `baselines.hlo.forms`.
        title: the name of a module that has none.
        name: name of the function of MLIR; '' for `main`, or the only public one.
        seconds: limit of CPU time; None for that of `isolated.call`.

    Returns:
        The module, and notes for the user on what was dropped or drawn.

    Raises:
        ValueError: jaxlib is not installed, or XLA cannot read it; has XLA's error.
    """
    extras.require(form)
    try:
        notes, content = isolated.call(
            f'{__name__}.convert',
            [form, title, name],
            data,
            seconds=seconds or isolated.SECONDS,
            title=f'reading {form}',
        )
        module = protos.HloModuleProto.FromString(content)
    except message.DecodeError as error:
        raise ValueError(
            f'the {form} cannot be read: too deeply nested ({error})'
        ) from None
    except ValueError as error:
        raise ValueError(f'the {form} cannot be read: {error}') from None
    return module, [*notes, *elided.fill(module)]


def convert(form: str, title: str, name: str, data: bytes) -> tuple[list[str], bytes]:
    """Converts a text or bytecode to notes and a serialised HloModuleProto.

    Runs in the child process; see `module_of`.
    """
    try:
        if form == forms.HLO_TEXT:
            return hlo_text.parse(data.decode('utf-8-sig'), title)
        return stablehlo.parse(data, name)
    except ValueError:
        raise
    except Exception as error:
        if 'bad_alloc' in str(error):
            raise MemoryError from error
        if form != forms.MLIR_BYTECODE and hlo_text.is_cut_off(data.decode()):
            raise ValueError('it ends in the middle: brackets are open') from error
        raise ValueError(_line_of(error)) from error


def _line_of(error: Exception) -> str:
    """Returns the line of XLA's message that names the place, with the source there."""
    content = str(error)
    foreign = _DIALECT.search(content)
    if foreign:
        return stablehlo.refusal_of(foreign.group(1), foreign.group(2))
    lines = [line.strip() for line in content.strip().splitlines()]
    lines = lines or [type(error).__name__]
    place = next((n for n, line in enumerate(lines) if 'error:' in line), 0)
    marked = lines[place + 2 : place + 3] == ['^']
    line = text.printable(': '.join(lines[place : place + 1 + marked]))
    if _NEWER.search(line) and not xla.has_sdy():
        line += f'; jaxlib {xla.NEWEST}, of Python 3.12, may read it'
    return line
