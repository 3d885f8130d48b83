"""The types that protos.pyi declares are those of the descriptors."""

import ast
import pathlib

from google.protobuf import descriptor
import pytest

from baselines.hlo import protos

_KINDS = {
    descriptor.FieldDescriptor.CPPTYPE_BOOL: 'bool',
    descriptor.FieldDescriptor.CPPTYPE_FLOAT: 'float',
    descriptor.FieldDescriptor.CPPTYPE_DOUBLE: 'float',
    descriptor.FieldDescriptor.CPPTYPE_STRING: 'str',
}


def _type_of(field):
    """Returns the type of a field as a stub writes it."""
    if field.message_type:
        kind, container = field.message_type.name, 'Repeated'
    else:
        kind, container = _KINDS.get(field.cpp_type, 'int'), 'MutableSequence'
        kind = 'bytes' if field.type == field.TYPE_BYTES else kind
    is_repeated = field.label == field.LABEL_REPEATED
    return f'{container}[{kind}]' if is_repeated else kind


def _add_fields(kind, found):
    """Adds the fields of a message, and of all messages inside it, by its name."""
    if kind.name not in found:
        found[kind.name] = kind.fields_by_name
        for field in kind.fields:
            if field.message_type:
                _add_fields(field.message_type, found)


def test_the_stub_has_the_fields_of_the_descriptors():
    path = pathlib.Path(protos.__file__).with_suffix('.pyi')
    messages = {}
    for root in ('TuningData', 'HloSnapshot'):
        _add_fields(getattr(protos, root).DESCRIPTOR, messages)
    stub = ast.parse(path.read_text(encoding='utf-8'))
    classes = [n for n in stub.body if isinstance(n, ast.ClassDef)]
    declared = {c.name: c for c in classes if c.name not in ('Message', 'Repeated')}
    assert {'HloModuleProto', 'ModuleTuningData'} <= declared.keys()
    for name, fields in declared.items():
        for line in fields.body:
            actual = _type_of(messages[name][line.target.id])
            assert ast.unparse(line.annotation) == actual, f'{name}.{line.target.id}'


def test_an_unknown_message():
    with pytest.raises(AttributeError, match="no attribute 'HloNothing'"):
        protos.HloNothing  # noqa: B018
