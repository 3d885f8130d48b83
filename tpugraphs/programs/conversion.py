"""Parses HLO text and MLIR with jaxlib, in a process of its own.

XLA ends its process on certain texts, and takes all memory for others: a constant of a
few letters can stand for an array of any size.
"""

import subprocess
import sys
from typing import Any

from baselines import files
from baselines.hlo import forms
from baselines.hlo import protos
from tpugraphs.programs import extras

MEMORY = 12 << 30  # bytes that a process of XLA may use


def module_of(data: bytes, form: str) -> Any:
    """Parses a text or bytecode to an HloModuleProto.

    Args:
        data: the text, UTF-8, or the bytecode.
        form: HLO_TEXT, MLIR_TEXT or MLIR_BYTECODE of `baselines.hlo.forms`.

    Raises:
        ValueError: jaxlib is not installed, or XLA cannot read it; has XLA's error.
    """
    extras.require(form)
    process = subprocess.run(
        [sys.executable, '-m', 'tpugraphs.programs.conversion', form],
        input=data,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**files.environment(), 'TF_CPP_MIN_LOG_LEVEL': '3'},
    )
    if process.returncode:
        printed = process.stderr.decode(errors='replace').strip().splitlines()
        line = printed[-1] if printed else 'XLA ended the process'
        raise ValueError(f'the {form} cannot be read: {line}')
    return protos.protos().HloModuleProto.FromString(process.stdout)


def _converted(data: bytes, form: str) -> bytes:
    """Parses a text or bytecode to a serialised HloModuleProto, in this process."""
    from jaxlib import xla_client

    xla: Any = xla_client._xla
    if form == forms.HLO_TEXT:
        module = xla.hlo_module_from_text(data.decode('utf-8-sig'))
        return module.as_serialized_hlo_module_proto()
    text: Any = data.decode('utf-8-sig') if form == forms.MLIR_TEXT else data
    if b'StableHLO_v' in data[:64]:  # the portable kind, of jax.export
        text = xla.mlir.deserialize_portable_artifact(data)
    computation = xla.mlir.mlir_module_to_xla_computation(
        text, use_tuple_args=False, return_tuple=False
    )
    return computation.as_serialized_hlo_module_proto()


def _line_of(error: Exception) -> str:
    """Returns the line with "error:" of XLA's message, and the quoted source."""
    lines = [line.strip() for line in str(error).strip().splitlines()]
    lines = lines or [type(error).__name__]
    place = next((n for n, line in enumerate(lines) if 'error:' in line), 0)
    marked = lines[place + 2 : place + 3] == ['^']
    return ': '.join(lines[place : place + 1 + marked])


def _main(form: str) -> int:
    """Reads standard input, and writes the module; returns an exit code."""
    import resource

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    try:
        module = _converted(sys.stdin.buffer.read(), form)
    except Exception as error:
        print(_line_of(error), file=sys.stderr)
        return 1
    sys.stdout.buffer.write(module)
    return 0


if __name__ == '__main__':
    sys.exit(_main(sys.argv[1]))
