"""One HLO module as a graph: a node per instruction, edges to its operands."""

import collections
from collections.abc import Mapping, Sequence
import dataclasses
import itertools
from typing import Any

from google.protobuf import message
import numpy as np

from baselines.core import text
from baselines.hlo import gather
from baselines.hlo import schema

# 560 bytes of features come from as little as two bytes of protobuf, so a small
# file could ask for all memory.  The largest published programs have 44,000.
MAX_NODES = 4_000_000

# Computations whose name has one of these in it end a segment.
_SEGMENT_MARKS = ('cluster', 'while', 'cond')

# Entries that a list of `node_feat_extra` does not have, whatever `pad` the published
# columns were extracted with: dimension 0 exists.
_ABSENT = -1
_LARGEST = float(np.finfo(np.float32).max)
# Types whose literals are bytes.
_PACKED = {
    's8': 'i1',
    'u8': 'u1',
    's16': '<i2',
    'u16': '<u2',
    'f16': '<f2',
    'bf16': '<u2',
}
_TYPE_NAMES = {kind.number: kind.name for kind in schema.ELEMENT_TYPES}


@dataclasses.dataclass(frozen=True, eq=False, slots=True)
class Graph:
    """The arrays of one module, n nodes and m edges."""

    node_feat: np.ndarray  # float32 [n, 140], the columns `schema.NODE`
    node_opcode: np.ndarray  # uint8 [n]; 0 is an opcode outside the table
    edge_index: np.ndarray  # int64 [m, 2], rows (consumer, producer), sorted
    node_splits: np.ndarray  # int64 [s], the ends of the segments, preceded by 0
    pad: int  # the value of absent list entries in node_feat
    # opcode name -> number of nodes, for names outside the table
    unknown_opcodes: Mapping[str, int]
    warnings: tuple[str, ...]  # about repeated edges that were dropped
    # float32 [n, k], the columns `schema.EXTRA`, if asked for
    node_feat_extra: np.ndarray | None = None


def extract_graph(module: message.Message, pad: int = 0, extra: bool = False) -> Graph:
    """Turns an HloModuleProto into arrays, as the published extractor does.

    Nodes are numbered in stored order: computations, and their instructions.

    Args:
        pad: the value of absent list entries, 0 (as published) or -1.
        extra: whether to compute `node_feat_extra`, too.

    Raises:
        ValueError: an instruction uses itself, or one that is not in the module; the
            module is too large; `pad` is neither 0 nor -1.
    """
    if pad not in (0, -1):
        raise ValueError(f'pad is {pad}; absent entries can be 0 or -1')
    instructions = list_instructions(module)
    fields = gather.Fields(instructions)
    sizes = [len(c.instructions) for c in module.computations]
    roots = gather.Fields(module.computations).read_scalars('root_id')
    features = np.zeros((len(instructions), len(schema.NODE)), np.float32)
    # Bool [n]: ids are unique in a module, and a computation names its root by id.
    features[:, schema.IS_ROOT] = fields.read_scalars('id') == np.repeat(roots, sizes)
    fields.write(features, schema.NODE, schema.NODE_FIELDS, pad)
    edge_index, warnings = _find_edges(module, fields)
    names_of_opcodes = [i.opcode for i in instructions]
    node_opcode = np.array(schema.find_opcode_numbers(names_of_opcodes), np.uint8)
    unknown = collections.Counter(
        names_of_opcodes[row]
        for row in np.flatnonzero(node_opcode == schema.UNKNOWN_OPCODE)
    )
    return Graph(
        node_feat=features,
        node_opcode=node_opcode,
        edge_index=edge_index,
        node_splits=find_splits([c.name for c in module.computations], sizes),
        pad=pad,
        unknown_opcodes=dict(unknown),
        warnings=warnings,
        node_feat_extra=_compute_extra(fields) if extra else None,
    )


def list_instructions(module: message.Message) -> list[message.Message]:
    """Returns the instructions of all computations, in order; raises ValueError."""
    count = sum(len(c.instructions) for c in module.computations)
    if count > MAX_NODES:
        raise ValueError(
            f'{count:,} instructions are more than the {MAX_NODES:,} that a '
            'graph may have; the file is damaged, or not a program'
        )
    return [i for c in module.computations for i in c.instructions]


def find_splits(names: Sequence[str], sizes: Sequence[int]) -> np.ndarray:
    """Returns where segments end: 0, the end of each marked computation, n.

    From the computations' names and numbers of instructions; int64 [s],
    non-decreasing: an empty marked computation repeats a value.
    """
    total = sum(sizes)
    marked = [any(mark in name for mark in _SEGMENT_MARKS) for name in names]
    splits = [0, *itertools.compress(itertools.accumulate(sizes), marked)]
    # n, unless a marked computation ends there.
    return np.array(splits + [total] * (splits[-1] < total), np.int64)


def _find_edges(
    module: message.Message, instructions: gather.Fields
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Finds the edges of an HloModuleProto's instructions.

    Returns:
        int64 [m, 2], distinct rows (consumer, producer) of node numbers, sorted as in
        the released dataset; and a warning if repeated edges were dropped.

    Raises:
        ValueError: an instruction uses itself, or an instruction or computation that
            is not in the module; names computation and instruction.
    """

    def check(
        nodes: np.ndarray, wrong: np.ndarray, values: np.ndarray, problem: str
    ) -> None:
        """Raises ValueError for the first wrong entry of a node."""
        if wrong.any():
            at = int(np.argmax(wrong))
            place = _name_place(module, int(nodes[at]))
            raise ValueError(f'{place}: {problem.format(values[at])}')

    # Ids are any numbers, not positions: protobufs refer to instructions by id.
    ids = instructions.read_scalars('id')
    operand_ids = instructions.read_lists('operand_ids')
    called_ids = instructions.read_lists('called_computation_ids')
    # One row per entry of the lists: the number of the operand, and of its consumer.
    operands = _find_positions(ids, operand_ids.flat)
    consumers = operand_ids.number_rows()
    callers = called_ids.number_rows()
    missing = ' is not in the module'
    check(consumers, operands < 0, operand_ids.flat, 'operand id {}' + missing)
    computations = gather.Fields(module.computations)
    # A call is an edge to the root of the called computation.
    called = _find_positions(computations.read_scalars('id'), called_ids.flat)
    check(callers, called < 0, called_ids.flat, 'called computation id {}' + missing)
    root_ids = computations.read_scalars('root_id')[called]
    roots = _find_positions(ids, root_ids)
    problem = 'the called computation has root id {}, which' + missing
    check(callers, roots < 0, root_ids, problem)

    # A row as one number.  An operand that is there twice is one edge.
    size = max(len(ids), 1)
    rows = [np.unique(consumers * size + operands), callers * size + roots]
    distinct, counts = np.unique(np.concatenate(rows), return_counts=True)
    edges = np.stack(np.divmod(distinct, size), axis=1)
    users, used = edges.T
    check(users, users == used, used, 'it uses itself (node {})')
    if not (counts > 1).any():
        return edges, ()
    place = _name_place(module, int(users[counts > 1][0]))
    warning = (
        f'{text.count((counts - 1).sum(), "repeated edge")} kept once, the first '
        f'at {place} (one computation called twice, or also an operand)'
    )
    return edges, (warning,)


def _find_positions(ids: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Returns where the `chosen` ids are among `ids`: the last place, or -1.

    Both are int64 [any]; the result has the shape of `chosen`.
    """
    # Stable, so that the last of equal ids is found.  Below all ids the place is -1,
    # which is another id's, as the comparison finds.
    order = np.argsort(ids, kind='stable')
    places = order[np.searchsorted(ids[order], chosen, side='right') - 1]
    return np.where(ids[places] == chosen, places, -1)


def _name_place(module: message.Message, node: int) -> str:
    """Names a node by its computation and instruction."""
    places = ((c.name, i.name) for c in module.computations for i in c.instructions)
    computation, instruction = next(itertools.islice(places, node, None))
    where = map(text.quoted, (computation, instruction))
    return 'computation {}, instruction {}'.format(*where)


def _compute_extra(instructions: gather.Fields) -> np.ndarray:
    """Computes the columns of n instructions: float32 [n, len(schema.EXTRA)]."""
    shape = len(instructions.messages), len(schema.EXTRA)
    features = np.zeros(shape, np.float32)
    instructions.write(features, schema.EXTRA, schema.EXTRA_FIELDS, _ABSENT)

    def put(name: str, row: int, value: float) -> None:
        features[row, schema.EXTRA.at(name)] = value

    operands = instructions.read_lists('operand_ids')
    places = _find_positions(instructions.read_scalars('id'), operands.flat)
    distances = gather.Ragged(operands.number_rows() - places, operands.lengths)
    block = schema.EXTRA.block('operand_distance')
    features[:, block] = distances.tabulate(tuple(range(block.stop - block.start)), 0)

    for row, instruction in enumerate(instructions.messages):
        if instruction.fusion_kind in schema.FUSION_KINDS:
            put(f'fusion_kind_is_{instruction.fusion_kind}', row, 1)
    for row, sharding in zip(*instructions.find_messages('sharding')):
        if sharding.type < len(schema.SHARDINGS):
            put(f'sharding_is_{schema.SHARDINGS[sharding.type]}', row, 1)
    for row, literal in zip(*instructions.find_messages('literal')):
        value = _read_scalar(literal)
        if value is not None:
            put('constant_is_scalar', row, 1)
            put('constant_log_value', row, _scale_log(value))
    return features


def _read_scalar(literal: message.Message) -> float | None:
    """Returns the value of a literal of one real number, else None."""
    kind = _TYPE_NAMES.get(literal.shape.element_type, '')
    values: Any = getattr(literal, f'{kind}s', ())
    if kind in _PACKED:
        whole = len(values) == np.dtype(_PACKED[kind]).itemsize
        values = np.frombuffer(values, _PACKED[kind]) if whole else ()
    if len(values) != 1 or literal.shape.dimensions:
        return None
    if kind == 'bf16':  # the upper half of a float32
        values = (values.astype(np.uint32) << 16).view(np.float32)
    return float(values[0])


def _scale_log(value: float) -> float:
    """Returns sign(x) log(1 + |x|), finite for every x."""
    value = float(np.clip(np.nan_to_num(value), -_LARGEST, _LARGEST))
    return float(np.sign(value) * np.log1p(abs(value)))
