"""One HLO module as a graph: a node per instruction, edges to its operands."""

import collections
from collections.abc import Mapping, Sequence
import dataclasses
import itertools

from google.protobuf import message
import numpy as np

from baselines.hlo import edges
from baselines.hlo import extra as extra_lib
from baselines.hlo import gather
from baselines.hlo import ragged
from baselines.hlo import schema

# 560 bytes of features come from as little as two bytes of protobuf, so a small
# file could ask for all memory.  The largest published programs have 44,000.
MAX_NODES = 4_000_000

# Computations whose name has one of these in it end a segment.
_SEGMENT_MARKS = ('cluster', 'while', 'cond')


@dataclasses.dataclass(frozen=True, eq=False)
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
    roots = gather.Fields(module.computations).scalars('root_id')
    features = np.zeros((len(instructions), len(schema.NODE)), np.float32)
    # Bool [n]: ids are unique in a module, and a computation names its root by id.
    features[:, schema.IS_ROOT] = fields.scalars('id') == np.repeat(roots, sizes)
    fields.write(features, schema.NODE, schema.NODE_FIELDS, pad)
    edge_index, warnings = edges.find_edges(module, fields)
    names_of_opcodes = [i.opcode for i in instructions]
    node_opcode = ragged.opcode_numbers(names_of_opcodes)
    unknown = collections.Counter(
        names_of_opcodes[row]
        for row in np.flatnonzero(node_opcode == schema.UNKNOWN_OPCODE)
    )
    return Graph(
        node_feat=features,
        node_opcode=node_opcode,
        edge_index=edge_index,
        node_splits=node_splits([c.name for c in module.computations], sizes),
        pad=pad,
        unknown_opcodes=dict(unknown),
        warnings=warnings,
        node_feat_extra=extra_lib.extra_features(fields) if extra else None,
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


def node_splits(names: Sequence[str], sizes: Sequence[int]) -> np.ndarray:
    """Returns where segments end: 0, the end of each marked computation, n.

    From the computations' names and numbers of instructions; int64 [s],
    non-decreasing: an empty marked computation repeats a value.
    """
    total = sum(sizes)
    marked = [any(mark in name for mark in _SEGMENT_MARKS) for name in names]
    splits = [0, *itertools.compress(itertools.accumulate(sizes), marked)]
    return np.array(splits + [total] * (splits[-1] < total), np.int64)
