"""Parses StableHLO and MHLO; drops what says only where data lie.

`parse` makes an HLO module of a program that was written for other devices: shardings
of the dialect sdy and attributes of other dialects are removed, and constants whose
values are not in the file are marked for `elided.fill`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
import io
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from baselines.core import text
from tpugraphs_lab.programs import elided
from tpugraphs_lab.programs import xla

if TYPE_CHECKING:
    from jaxlib.mlir import ir

# Dialects whose operations XLA converts, and those whose attributes it knows.
_OPERATIONS = frozenset(
    'builtin func stablehlo mhlo chlo sdy arith tensor shape'.split()
)
_ATTRIBUTES = frozenset('stablehlo mhlo chlo jax tf func arith vhlo'.split())
_WITHOUT_EFFECT = ('sdy.sharding_constraint',)
_PARTS = ('sdy.manual_computation', 'sdy.named_computation')  # have a region
_RESOURCE = re.compile(r'dense_resource<"?([^">]*)"?>')
_BLOB = re.compile(r'^\s*"?([^\s":]+)"?:\s*"0x([0-9a-fA-F]*)"', re.MULTILINE)
_ALIGNMENT = 8  # hex digits of the alignment, before those of the data
_GROUPS = 'replica_groups'
_MESH_AXES = re.compile(r'replica_group_mesh_axes<mesh = @"?([^,">]*)"?, axes = (.*)>')
_AXIS = re.compile(r'"([^"]*)"=(\d+)')
# For releases of jaxlib without the dialect sdy (before 0.4.31): meshes are dropped,
# constraints written as any MLIR can read them, and ranges of locations begin alone.
_REPAIRS = (
    (re.compile(r'^\s*sdy\.mesh @[^\n]*$', re.MULTILINE), ''),
    (
        re.compile(
            r'(%\S+) = sdy\.sharding_constraint (%\S+) <[^\n]*> : (tensor<[^\n>]*>)'
        ),
        r'\1 = "sdy.sharding_constraint"(\2) : (\3) -> \3',
    ),
    (re.compile(r'\bsdy\.constant\b'), 'stablehlo.constant'),
    (re.compile(r'(\("[^"\n]*":\d+:\d+) to \d*:\d+'), r'\1'),
)
_VERSION = b'StableHLO_v'  # in the head of a portable artifact
_MAIN = 'main'
_CALL = 'stablehlo.custom_call'


def parse(data: bytes, name: str = '') -> tuple[list[str], bytes]:
    """Converts StableHLO or MHLO to notes and a serialised HloModuleProto.

    Args:
        data: text in UTF-8, bytecode, or a portable artifact of `jax.export`.
        name: name of the function; '' for `main`, or the only public one.

    Raises:
        ValueError: it has operations of another compiler, or no such function.
        Exception: XLA's, which has the line and the column.
    """
    from jaxlib.mlir import ir

    is_bytecode = data.startswith(b'ML\xefR')
    if is_bytecode and b'\0vhlo\0' in data and _VERSION not in data[:64]:
        raise ValueError(refusal_of('vhlo', 'vhlo.func_v1'))
    with xla.mlir_context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        if is_bytecode:
            module = xla.parse_bytecode(data, context)
        else:
            content = data.decode('utf-8-sig')
            for pattern, replacement in () if xla.has_sdy() else _REPAIRS:
                content = pattern.sub(replacement, content)
            module = ir.Module.parse(content)
        _refuse_other_dialects(module)
        _choose_main(module, name)
        _call_composites(module)
        _write_out_groups(module)
        _drop_shardings(module)
        for operation in _operations(module.operation):
            _drop_attributes(operation)
        _fill_resources(module)
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
    return [], xla.parse_mlir(bytecode.getvalue())


def _operations(operation: Any) -> Iterator[Any]:
    """Yields an operation and all inside it, callers before what they hold."""
    yield operation
    for region in operation.regions:
        for block in region:
            for inside in list(block.operations):
                yield from _operations(inside.operation)


def _refuse_other_dialects(module: ir.Module) -> None:
    """Raises ValueError for an operation of a dialect that XLA does not convert."""
    for operation in _operations(module.operation):
        dialect = operation.name.partition('.')[0]
        known = dialect in _OPERATIONS and (dialect != 'sdy' or xla.has_sdy())
        if not known and operation.name not in _WITHOUT_EFFECT:
            raise ValueError(refusal_of(dialect, operation.name))


def _choose_main(module: ir.Module, name: str) -> None:
    """Calls a function of a module `main`, and makes it the only public one.

    Raises:
        ValueError: there is no such function, or none is named, and there are several.
    """
    from jaxlib.mlir import ir

    functions = {
        ir.StringAttr(o.operation.attributes['sym_name']).value: o.operation
        for o in module.body.operations
        if o.operation.name == 'func.func'
    }
    private = ir.StringAttr.get('private')
    public = [
        own
        for own, operation in functions.items()
        if 'sym_visibility' not in operation.attributes
        or operation.attributes['sym_visibility'] != private
    ]
    chosen = name or (_MAIN if _MAIN in functions else '')
    if not chosen and len(public) == 1:
        [chosen] = public
    if chosen not in functions:
        there = text.list_names([text.shorten(n, 40) for n in public or functions])
        wanted = f'no function {name!r}' if name else f'no function {_MAIN!r}'
        raise ValueError(f'has {wanted}; choose one by FILE:NAME: {there or "none"}')
    renamed = {chosen: _MAIN}
    if chosen != _MAIN:
        renamed = {_MAIN: f'{_MAIN}.other', **renamed}
    for old, new in renamed.items():
        if old in functions and old != new:
            ir.SymbolTable.replace_all_symbol_uses(old, new, module.operation)
            ir.SymbolTable.set_symbol_name(functions[old], new)
    for own, operation in functions.items():
        kind = 'public' if own == chosen else 'private'
        operation.attributes['sym_visibility'] = ir.StringAttr.get(kind)


def _call_composites(module: ir.Module) -> None:
    """Replaces composite operations by calls of their decompositions."""
    from jaxlib.mlir import ir

    for operation in list(_operations(module.operation)):
        if operation.name != 'stablehlo.composite':
            continue
        call: Any = ir.Operation.create(
            'func.call',
            [result.type for result in operation.results],
            list(operation.operands),
            {'callee': operation.attributes['decomposition']},
            ip=ir.InsertionPoint(operation),
        )
        for result, value in zip(operation.results, call.results):
            result.replace_all_uses_with(value)
        operation.erase()


def _write_out_groups(module: ir.Module) -> None:
    """Writes the groups of devices of collectives as numbers, without the mesh.

    Collectives of today's JAX name axes of a mesh (`replica_group_mesh_axes`).  Devices
    are numbered along its axes, the last one fastest.
    """
    from jaxlib.mlir import ir

    sizes: dict[str, dict[str, int]] = {}  # mesh -> axis -> devices along it
    for operation in _operations(module.operation):
        if operation.name == 'sdy.mesh':
            name = ir.StringAttr(operation.attributes['sym_name']).value
            axes = _AXIS.findall(str(operation.attributes['mesh']))
            sizes[name] = {axis: int(size) for axis, size in axes}
        elif _GROUPS in operation.attributes:
            found = _MESH_AXES.search(str(operation.attributes[_GROUPS]))
            if found:
                mesh = sizes.get(found[1], {})
                chosen = re.findall(r'name = "([^"]*)"', found[2])
                devices = np.arange(int(np.prod([*mesh.values()]))).reshape(
                    [*mesh.values()]
                )
                places = [[*mesh].index(axis) for axis in chosen if axis in mesh]
                last = np.moveaxis(devices, places, range(-len(places), 0))
                count = int(np.prod([devices.shape[place] for place in places]))
                groups = np.ascontiguousarray(last.reshape(-1, count), np.int64)
                operation.attributes[_GROUPS] = ir.DenseElementsAttr.get(groups)


def _drop_shardings(module: ir.Module) -> None:
    """Removes operations of sdy that only place data; raises ValueError for others."""
    for part in [o for o in _operations(module.operation) if o.name in _PARTS]:
        _inline(part)
    for operation in list(_operations(module.operation)):
        if not operation.name.startswith('sdy.'):
            continue
        operands, results = list(operation.operands), list(operation.results)
        if operation.name == 'sdy.constant':
            value = operation.attributes['value']
            kind = results[0].type
            operands = [_insert(operation, 'stablehlo.constant', kind, value=value)]
        if [v.type for v in operands][: len(results)] != [v.type for v in results]:
            raise ValueError(
                f'has the operation {operation.name}, which cannot run on one device; '
                'export the program without a mesh'
            )
        for result, operand in zip(results, operands):
            result.replace_all_uses_with(operand)
        operation.erase()


def _insert(
    before: ir.Operation,
    name: str,
    kind: ir.Type,
    operands: Sequence[ir.Value] = (),
    **attributes: ir.Attribute,
) -> ir.Value:
    """Adds an operation with a result of type `kind`; returns the result."""
    from jaxlib.mlir import ir

    place = ir.InsertionPoint(before)
    return ir.Operation.create(name, [kind], operands, attributes, ip=place).results[0]


def _inline(part: Any) -> None:
    """Puts the operations of a manual or named computation in its place."""
    from jaxlib.mlir import ir

    def converted(value: Any, kind: ir.Type, target: str) -> Any:
        if value.type == kind:
            return value
        name = ir.StringAttr.get(target)
        return _insert(part, _CALL, kind, [value], call_target_name=name)

    [block] = part.regions[0]
    for argument, operand in zip(block.arguments, part.operands):
        inner = converted(operand, argument.type, 'SPMDFullToShardShape')
        argument.replace_all_uses_with(inner)
    *operations, last = list(block.operations)
    for operation in operations:
        operation.operation.move_before(part)
    for result, value in zip(part.results, last.operands):
        outer = converted(value, result.type, 'SPMDShardToFullShape')
        result.replace_all_uses_with(outer)
    last.operation.erase()
    part.erase()


def _drop_attributes(operation: ir.Operation) -> None:
    """Removes an operation's attributes of dialects that XLA does not know."""
    from jaxlib.mlir import ir

    for name in _names(operation.attributes):
        if _is_unknown(name):
            del operation.attributes[name]
        elif name in ('arg_attrs', 'res_attrs'):
            kept = []
            for attributes in ir.ArrayAttr(operation.attributes[name]):
                attributes = ir.DictAttr(attributes)
                names = [n for n in _names(attributes) if not _is_unknown(n)]
                kept.append(ir.DictAttr.get({n: attributes[n] for n in names}))
            operation.attributes[name] = ir.ArrayAttr.get(kept)


def _names(attributes: Any) -> list[str]:
    """Returns the names of attributes; older bindings yield pairs, newer ones names."""
    return [getattr(attribute, 'name', attribute) for attribute in attributes]


def _is_unknown(name: str) -> bool:
    """Returns whether an attribute is of a dialect that XLA does not know."""
    dialect, dot, _ = name.partition('.')
    return bool(dot) and dialect not in _ATTRIBUTES


def _fill_resources(module: ir.Module) -> None:
    """Puts the values of resources where they are used; marks those without values."""
    from jaxlib.mlir import ir

    used = [
        operation
        for operation in _operations(module.operation)
        if operation.name.endswith('.constant') and _is_resource(operation)
    ]
    blobs = _blobs(module) if used else {}
    for operation in used:
        attribute = operation.attributes['value']
        found = _RESOURCE.match(str(attribute))
        blob = blobs.get(found.group(1)) if found else None
        kind = operation.results[0].type
        if blob:
            operation.attributes['value'] = _dense(blob, kind)
            continue
        name = ir.StringAttr.get(elided.TARGET)
        marked = _insert(operation, _CALL, kind, call_target_name=name)
        operation.results[0].replace_all_uses_with(marked)
        operation.erase()


def _dense(digits: str, kind: ir.Type) -> ir.Attribute:
    """Returns dense values of a type of tensor, from the hex digits of their bytes."""
    from jaxlib.mlir import ir

    try:
        return ir.Attribute.parse(f'dense<"0x{digits}"> : {kind}')
    except ir.MLIRError:
        if not str(kind).endswith(('xi1>', '<i1>')):
            raise
        # A resource has a byte for each boolean, and older releases want a bit.
        values = np.frombuffer(bytes.fromhex(digits), np.bool_)
        packed = np.packbits(values, bitorder='little').tobytes().hex()
        return ir.Attribute.parse(f'dense<"0x{packed}"> : {kind}')


def _is_resource(constant: ir.Operation) -> bool:
    """Returns whether the value of a constant is dense_resource<...>."""
    from jaxlib.mlir import ir

    try:
        attribute = constant.attributes['value']
    except (RuntimeError, TypeError):  # no class for complex numbers
        return False
    # To print a dense one could take long.
    is_dense = isinstance(attribute, ir.DenseElementsAttr)
    return not is_dense and str(attribute).startswith('dense_resource<')


def _blobs(module: ir.Module) -> dict[str, str]:
    """Returns the resources of a module: name -> hex digits of the data."""
    _, mark, section = str(module).rpartition('{-#')
    if not mark:
        return {}
    return {name: digits[_ALIGNMENT:] for name, digits in _BLOB.findall(section)}


def refusal_of(dialect: str, operation: str) -> str:
    """Returns the line that refuses an operation of a dialect that jaxlib lacks."""
    if dialect == 'vhlo':
        return (
            'is VHLO without the version of its format, which only the program that '
            'wrote it reads; write it with jax.export, or with '
            'stablehlo.serialize_portable_artifact'
        )
    if dialect == 'sdy':  # the newest release that goes with TensorFlow 2.15 lacks it
        return f'has {operation}, which needs jaxlib 0.4.34 or newer; use Python 3.12'
    return (
        f'has operations of the dialect {text.quoted(dialect)} ({operation}), which '
        'only its own compiler has; export the program as StableHLO'
    )
