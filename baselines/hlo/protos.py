"""Message classes of the raw files: XLA's own, and the tuning data around them.

Their descriptors ship as `tuning_data.binpb` (see tuning_data.proto) and live in a
descriptor pool of our own, so that reading a file needs no TensorFlow, and another
package that registers the same names (TensorFlow itself, the published extractor) is
never in the way.  The price: a message from `tensorflow.compiler.xla` must be passed
on as bytes.  protos.pyi has their fields, for type checkers.
"""

import functools
import pathlib
import types

from google.protobuf import descriptor_pb2
from google.protobuf import descriptor_pool
from google.protobuf import message
from google.protobuf import message_factory

_DESCRIPTORS = 'tuning_data.binpb'


def __getattr__(name: str) -> type[message.Message]:
    """Returns a message class, such as `protos.HloModuleProto` (PEP 562)."""
    if name.startswith('_') or name not in vars(_make_actual_classes()):
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    # Kept as an attribute of this module, where it is found from then on.
    return globals().setdefault(name, getattr(_make_actual_classes(), name))


@functools.cache
def _make_actual_classes() -> types.SimpleNamespace:
    """Builds the message classes, on their first use."""
    return _make_classes(_make_pool(_read_files()))


@functools.cache
def outlines() -> types.SimpleNamespace:
    """Returns the classes with repeated messages and text declared as bytes.

    An outline tells how many messages a field holds without unpacking them, which
    may take hundreds of times the memory of their bytes.
    """
    return _make_classes(outline_pool())


@functools.cache
def outline_pool() -> descriptor_pool.DescriptorPool:
    """Returns the descriptors of `outlines`, by the names of the actual ones."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file_set = _read_files()
    messages = [m for file in file_set.file for m in file.message_type]
    # Grows while it is walked: nested types are appended.
    for described in messages:
        # The entries of maps stay as they are: a key cannot be bytes.
        messages += [m for m in described.nested_type if not m.options.map_entry]
        for field in described.field:
            repeated = field.label == kinds.LABEL_REPEATED
            if field.type == kinds.TYPE_STRING or (
                field.type == kinds.TYPE_MESSAGE and repeated
            ):
                field.type = kinds.TYPE_BYTES
                field.ClearField('type_name')
    return _make_pool(file_set)


def _read_files() -> descriptor_pb2.FileDescriptorSet:
    """Reads the descriptors that ship with the package."""
    path = pathlib.Path(__file__).with_name(_DESCRIPTORS)
    return descriptor_pb2.FileDescriptorSet.FromString(path.read_bytes())


def _make_pool(
    files: descriptor_pb2.FileDescriptorSet,
) -> descriptor_pool.DescriptorPool:
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


def _make_classes(pool: descriptor_pool.DescriptorPool) -> types.SimpleNamespace:
    """Makes the message classes of a pool, as attributes."""
    classes = types.SimpleNamespace()
    for file in _read_files().file:
        for described in file.message_type:
            found = pool.FindMessageTypeByName(f'{file.package}.{described.name}')
            setattr(classes, found.name, message_factory.GetMessageClass(found))
    return classes
