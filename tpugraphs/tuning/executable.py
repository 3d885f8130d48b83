"""Runs a tuned program on arrays; saves and loads it.

OUT/program.hlo.pb    the tuned program: an HloModuleProto
OUT/original.hlo.pb   the original, with equal parameters and results
OUT/program.json      the signature, and the measurements
OUT/bound.npz         variables of TensorFlow, if it has any
"""

from __future__ import annotations

from collections.abc import Sequence
import functools
import json
import os

import numpy as np

from baselines.core import files
from baselines.core import text
from baselines.core import untrusted
from baselines.data import npz
from baselines.hlo import protos
from tpugraphs.clock import backend as backend_lib
from tpugraphs.kernels import building
from tpugraphs.kernels import preparation
from tpugraphs.kernels import removal
from tpugraphs.programs import xla
from tpugraphs.records import arguments
from tpugraphs.tuning import signatures

PROGRAM = 'program.hlo.pb'
_ORIGINAL = 'original.hlo.pb'
_ABOUT = 'program.json'
_BOUND = 'bound.npz'
_FORMAT = 1
# Bytes.
_MOST_PROGRAM = 1 << 30
_MOST_ABOUT = 64 << 20
_MOST_BOUND = 8 << 30


class Executable:
    """A compiled program, which is called as the function it was traced from.

    Args:
        signature: of the function; by default flat arrays, returning a tuple.
        original: the untuned HloModuleProto; by default `module`.
        platform: what it was tuned for and runs on, 'cpu' or 'gpu'.

    Attributes:
        about: the measurements.
    """

    def __init__(
        self,
        module: protos.HloModuleProto,
        signature: signatures.Signature = signatures.Signature(),
        original: protos.HloModuleProto | None = None,
        about: text.JsonObject | None = None,
        platform: str = 'cpu',
    ):
        self._module, self._signature = module, signature
        self._original = module if original is None else original
        self._parameters = list(module.host_program_shape.parameters)
        self.about = about or {}
        self._platform = platform

    def __repr__(self) -> str:
        shapes = ', '.join(map(building.shape_text, self._parameters))
        program = self.about.get('program', {})
        speedup = program.get('speedup', 1.0)
        name = self.about.get('name', 'program')
        return f'<{name}({shapes}): {speedup:.2f} x the speed>'

    def __call__(self, *args: object) -> object:
        """Runs it; the first call compiles it.

        Args:
            *args: NumPy or JAX arrays, or values that NumPy can convert to arrays,
                nested as the function's own arguments.

        Returns:
            NumPy arrays, nested as the function's result.

        Raises:
            ValueError: arguments have other shapes, or cannot be cast; or XLA has
                optimised the program already.
        """
        values = self._signature.flat(args)
        if len(values) != len(self._parameters):
            raise ValueError(
                f'{text.count(len(values), "array")} given, '
                f'{len(self._parameters)} wanted'
            )
        program = self._compiled  # jaxlib registers bfloat16 with NumPy
        arrays = [
            _cast(value, shape, place)
            for place, (value, shape) in enumerate(zip(values, self._parameters))
        ]
        return self._signature.nested(program.outputs(program.place(arrays)))

    @property
    def original(self) -> Executable:
        """The untuned program, to compare."""
        return Executable(self._original, self._signature, platform=self._platform)

    @functools.cached_property
    def _compiled(self) -> xla.CompiledModule:
        """The program, compiled at its first use."""
        cut_out = removal.counts(self._module)
        if cut_out:
            raise ValueError(f'the program cannot run: {removal.described(cut_out)}')
        if preparation.is_optimised(self._module):  # jaxlib refuses fusions
            raise ValueError(
                "an optimised program cannot be run; tune it as it was before XLA's "
                'passes'
            )
        backend = backend_lib.Backend(self._platform)
        return backend.compile(self._module.SerializeToString())

    def save(self, folder: str) -> str:
        """Writes a folder for `load`; returns its path.

        Raises:
            ValueError: a module is too large.
            OSError: it cannot be written.
        """
        folder = files.expand(os.fspath(folder))
        modules = {PROGRAM: self._module, _ORIGINAL: self._original}
        for name, module in modules.items():
            check_size(module, os.path.join(folder, name))
        paths = {n: os.path.join(folder, n) for n in (*modules, _BOUND, _ABOUT)}
        for name, module in modules.items():
            with files.write_atomically(paths[name], 'wb') as stream:
                stream.write(module.SerializeToString())
        if self._signature.bound:
            with files.write_atomically(paths[_BOUND], 'wb') as stream:
                arrays = map(_storable, self._signature.bound)
                np.savez(stream, **{f'{n:06d}': a for n, a in enumerate(arrays)})
        about = {
            'format': _FORMAT,
            'platform': self._platform,
            'inputs': self._signature.inputs,
            'outputs': self._signature.outputs,
            'bound': len(self._signature.bound),
            **self.about,
        }
        with files.write_atomically(paths[_ABOUT], encoding='utf-8') as stream:
            json.dump(about, stream, indent=1)
        return folder


def check_size(module: protos.HloModuleProto, where: str) -> None:
    """Raises ValueError, which names `where`, if a module is too large to be saved."""
    size = module.ByteSize()
    if size > _MOST_PROGRAM:
        raise ValueError(
            f'{where}: {size:,} bytes of HLO are more than the {_MOST_PROGRAM:,} that '
            'are written; make arguments of its large constants'
        )


def load(folder: str) -> Executable:
    """Loads a folder that `Executable.save` or `tpugraphs tune --output` wrote.

    The folder is untrusted: a module that calls native code is refused.

    Raises:
        ValueError: a file is damaged or does not fit the others; names it.
        OSError: a file cannot be read.
    """
    folder = files.expand(os.fspath(folder))
    paths = [os.path.join(folder, name) for name in (PROGRAM, _ORIGINAL)]
    for path in paths:
        untrusted.open_regular(path, _MOST_PROGRAM).close()
    module, original = map(_load_module, paths)
    path = os.path.join(folder, _ABOUT)
    about = _read_about(path)
    for part in (module, original):
        _check_memory(part, folder)
    if _shapes(module) != _shapes(original):
        raise ValueError(
            f'{folder}: {PROGRAM} and {_ORIGINAL} differ in parameters or results'
        )
    try:
        bound = _read_bound(os.path.join(folder, _BOUND), about.pop('bound'), module)
        inputs, outputs = about.pop('inputs'), about.pop('outputs')
        if inputs is not None:
            parameters = len(_shapes(module)[0]) - len(bound)
            signatures.check({'list': inputs}, parameters)
        if outputs is not None:
            signatures.check(outputs, len(_shapes(module)[1]))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f'{path}: does not fit {PROGRAM}: {error}') from None
    platform = about.pop('platform', 'cpu')  # older files lack it
    if platform not in arguments.PLATFORMS:
        raise ValueError(f'{path}: platform is {platform!r:.20}')
    signature = signatures.Signature(inputs, outputs, bound)
    return Executable(module, signature, original, about, platform)


def _load_module(path: str) -> protos.HloModuleProto:
    """Returns a module that can run; raises ValueError for one that cannot."""
    program = preparation.load(path)
    if program.cut_out:
        raise ValueError(
            f'{path}: cannot run here: {removal.described(program.cut_out)}'
        )
    return program.module


def _shapes(module: protos.HloModuleProto) -> list[list[str]]:
    """Returns the shapes of parameters and results as XLA writes them."""
    shapes = module.host_program_shape
    results = list(shapes.result.tuple_shapes) or [shapes.result]
    return [
        list(map(building.shape_text, part)) for part in (shapes.parameters, results)
    ]


def _check_memory(module: protos.HloModuleProto, where: str) -> None:
    """Raises ValueError if an array of a module is larger than the memory."""
    arrays = (
        (building.num_bytes(i.shape), i)
        for computation in module.computations
        for i in computation.instructions
        if building.is_array(i.shape)
    )
    size, largest = max(arrays, key=lambda pair: pair[0])
    memory = os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES')
    if size > memory:
        raise ValueError(
            f'{where}: %{largest.name} is an array of {size / 2**30:,.0f} GiB, and '
            f'this machine has {memory / 2**30:,.0f}'
        )


def _read_about(path: str) -> text.JsonObject:
    """Reads program.json; raises ValueError for another format."""
    content = untrusted.read(path, _MOST_ABOUT)
    try:
        about = untrusted.loads(content)
        number = about.pop('format')
    except untrusted.DAMAGE:
        raise ValueError(f'{path}: `tpugraphs tune` did not write it') from None
    if number != _FORMAT:
        raise ValueError(
            f'{path}: format {number!r:.20}, and this version reads {_FORMAT}'
        )
    program = about.get('program', {})
    speedup = program.get('speedup', 1.0) if isinstance(program, dict) else None
    named, _ = untrusted.NAME
    if not named(about.get('name', 'program')) or not untrusted.is_number(speedup, 0):
        raise ValueError(f'{path}: name or program.speedup is of a wrong type')
    return about


def _read_bound(
    path: str, count: object, module: protos.HloModuleProto
) -> Sequence[np.ndarray]:
    """Reads bound.npz; raises ValueError unless its arrays fit the last parameters."""
    if not isinstance(count, int) or not 0 <= count <= len(_shapes(module)[0]):
        raise ValueError(f'bound is {count!r:.20}')
    if not count:
        return ()
    arrays = npz.read_all(path, _MOST_BOUND)
    bound = [arrays[name] for name in sorted(arrays)]
    wanted = module.host_program_shape.parameters[-count:]
    sizes = [list(shape.dimensions) for shape in wanted]
    if [list(array.shape) for array in bound] != sizes:
        raise ValueError(
            f'{_BOUND} has {text.count(len(bound), "array")} of other shapes than the '
            f'last {text.count(count, "parameter")}'
        )
    return bound


def _storable(array: object) -> np.ndarray:
    """Returns an array of a type that NumPy itself has."""
    array = np.asarray(array)
    # NumPy has no bfloat16; float32 holds all of its values.
    return array.astype(np.float32) if array.dtype.kind == 'V' else array


def _cast(value: object, shape: protos.ShapeProto, place: int) -> np.ndarray:
    """Returns an argument in the type of its parameter, or raises ValueError."""
    array = np.asarray(value)
    name = building.NUMPY_TYPES[shape.element_type]
    kind = np.dtype(name)
    fits = list(array.shape) == list(shape.dimensions)
    # NumPy's own rules know no bfloat16, whose kind is V.
    floats = array.dtype.kind in 'fV' and 'float' in name
    if not fits or not (floats or np.can_cast(array.dtype, kind, 'same_kind')):
        raise ValueError(
            f'argument {place} is {array.dtype.name}{list(array.shape)}; '
            f'{name}{list(shape.dimensions)} is wanted'
        )
    with np.errstate(over='ignore'):
        cast = array.astype(kind, copy=False)
    # What is too large would wrap around, or become infinite.
    beyond = cast != array if kind.kind in 'iu' else np.isinf(cast) & ~np.isinf(array)
    if beyond.any():
        raise ValueError(
            f'argument {place} has the value {array[beyond][0]}, which is too large '
            f'for {name}'
        )
    return cast
