"""Message classes of the raw files: XLA's own, and the tuning data around them.

XLA's descriptors are in TensorFlow's wheel.  They are read from there without
importing TensorFlow, which would cost seconds and 400 MB in every process, and
put into a descriptor pool of our own, so that another package that registers
the same names (TensorFlow itself, the published extractor) is never in the way.
The price: a message from `tensorflow.compiler.xla` must be passed on as bytes.
"""

import ast
import functools
import importlib
import importlib.util
import os
from typing import Iterator, NamedTuple, Sequence, Set, Type

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message
from google.protobuf import message_factory

_XLA_FILES = ('xla/xla_data.proto', 'xla/service/hlo.proto')

# Wire format of the tuning data (docs/raw-files.md): the fields of each message,
# numbered from 1; `*` is repeated, `|` a member of the oneof `config`.
_PACKAGE = 'tpu_graphs'
_SCALARS = ('uint64', 'int64', 'int32', 'bool')
_MESSAGES = {
    'TuningData': 'ModuleTuningData* modules',
    'ModuleTuningData': 'xla.HloModuleProto module, uint64 fingerprint, '
    'ConfigProfile* runs, uint64* config_index_to_node',
    'ConfigProfile': 'HloOpConfig| op_config, HloModuleConfig| module_config, '
    'bool error, xla.ExecutionProfile profile, bool is_default',
    'HloOpConfig': 'TileSizeConfig tile_size_config',
    'TileSizeConfig': 'int64* kernel_bounds, int64* output_bounds, '
    'int64* input_bounds, int64* iteration_bounds',
    'HloModuleConfig': 'LayoutConfig layout_config',
    'LayoutConfig': 'NodeLayoutConfig* nodes',
    'NodeLayoutConfig': 'TensorLayoutConfig* tensors',
    'TensorLayoutConfig': 'int32* dims',
}


class Protos(NamedTuple):
    """The message classes that raw files are made of."""

    TuningData: Type[message.Message]
    ModuleTuningData: Type[message.Message]
    ConfigProfile: Type[message.Message]
    NodeLayoutConfig: Type[message.Message]
    HloModuleProto: Type[message.Message]
    HloInstructionProto: Type[message.Message]


@functools.lru_cache(maxsize=None)
def protos() -> Protos:
    """Returns the message classes; builds them on the first call.

    Raises:
        ImportError: TensorFlow is not installed.
    """
    pool = descriptor_pool.DescriptorPool()
    added: Set[str] = set()
    for name in _XLA_FILES:
        _add(pool, name, added)
    pool.AddSerializedFile(_tuning_file(_XLA_FILES).SerializeToString())

    def message_class(field: str) -> Type[message.Message]:
        package = 'xla' if field.startswith('Hlo') else _PACKAGE
        descriptor = pool.FindMessageTypeByName(f'{package}.{field}')
        return message_factory.GetMessageClass(descriptor)

    return Protos(*(message_class(field) for field in Protos._fields))


def _add(pool: descriptor_pool.DescriptorPool, name: str, added: Set[str]) -> None:
    """Adds a file after those that it imports, which differ with TensorFlow's age."""
    if name in added:
        return
    added.add(name)
    module = name[: -len('.proto')].replace('/', '.') + '_pb2'
    if name.startswith('google/protobuf/'):
        serialized = importlib.import_module(module).DESCRIPTOR.serialized_pb
    else:
        serialized = _serialized_file(f'tensorflow.compiler.{module}')
    for needed in descriptor_pb2.FileDescriptorProto.FromString(serialized).dependency:
        _add(pool, needed, added)
    pool.AddSerializedFile(serialized)


def _tuning_file(dependencies: Sequence[str]) -> descriptor_pb2.FileDescriptorProto:
    """Returns the descriptor of the table above."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name='tpu_graphs/tuning.proto',
        package=_PACKAGE,
        syntax='proto3',
        dependency=dependencies,
    )
    for name, fields in _MESSAGES.items():
        described = file.message_type.add(name=name)
        for number, words in enumerate(fields.split(', '), 1):
            marked, field = words.split()
            kind = marked.rstrip('*|')
            added = described.field.add(name=field, number=number)
            repeated = marked.endswith('*')
            added.label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
            if kind in _SCALARS:
                added.type = kinds.Type.Value(f'TYPE_{kind.upper()}')
            else:
                added.type = kinds.TYPE_MESSAGE
                added.type_name = f'.{kind}' if '.' in kind else f'.{_PACKAGE}.{kind}'
            if marked.endswith('|'):
                if not described.oneof_decl:
                    described.oneof_decl.add(name='config')
                added.oneof_index = 0
    return file


def _serialized_file(module: str) -> bytes:
    """Returns the file descriptor that a generated module registers."""
    package, _, rest = module.partition('.')
    found = importlib.util.find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ImportError(
            f'{package} is not installed, and the HLO protos are in its wheel; '
            'run pip install -e . in the checkout'
        )
    path = os.path.join(found.submodule_search_locations[0], *rest.split('.')) + '.py'
    for serialized in _registered_bytes(path):
        return serialized
    # Not laid out as the pinned wheel is: let Python import it.
    return importlib.import_module(module).DESCRIPTOR.serialized_pb


def _registered_bytes(path: str) -> Iterator[bytes]:
    """Yields the bytes literals that a Python file passes to AddSerializedFile."""
    try:
        with open(path, encoding='utf-8') as stream:
            tree = ast.parse(stream.read())
    except (OSError, ValueError, SyntaxError):
        return
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or len(node.args) != 1:
            continue
        given = getattr(node.args[0], 'value', None)
        is_adding = getattr(node.func, 'attr', '') == 'AddSerializedFile'
        if is_adding and isinstance(given, bytes):
            yield given
