"""Edges of an HLO module: from an instruction to its operands and callees."""

import dataclasses
import functools
from typing import Any, Tuple

import numpy as np

from baselines.hlo import arrays
from baselines.hlo import gather


@dataclasses.dataclass(frozen=True, eq=False)
class Edges:
    """The edges of a module; rows are (consumer, producer) node numbers.

    Attributes:
        canonical: int64 [m, 2], distinct rows sorted by consumer and producer:
            the order of the released dataset.
        operands: each node's operands as node numbers, in stored order.
        warnings: what was put right, in words.
    """

    canonical: np.ndarray
    operands: arrays.Ragged
    warnings: Tuple[str, ...]


def find_edges(module: Any, instructions: gather.Fields) -> Edges:
    """Finds the edges of an HloModuleProto's instructions.

    Raises:
        ValueError: an instruction uses itself or something that is not there;
            names computation and instruction.
    """
    ids = instructions.scalars('id')
    operand_ids = instructions.lists('operand_ids')
    called_ids = instructions.lists('called_computation_ids')
    operands = _positions(ids, operand_ids.flat)
    consumers = operand_ids.row_numbers()
    callers = called_ids.row_numbers()
    check = functools.partial(_check, module)
    missing = ' is not in the module'
    check(consumers, operands < 0, operand_ids.flat, 'operand id {}' + missing)
    computations = gather.Fields(module.computations)
    called = _positions(computations.scalars('id'), called_ids.flat)
    check(callers, called < 0, called_ids.flat, 'called computation id {}' + missing)
    root_ids = computations.scalars('root_id')[called]
    roots = _positions(ids, root_ids)
    message = 'the called computation has root id {}, which' + missing
    check(callers, roots < 0, root_ids, message)

    # A row as one number.  An operand that is there twice is one edge.
    size = max(len(ids), 1)
    found = [np.unique(consumers * size + operands), callers * size + roots]
    distinct, counts = np.unique(np.concatenate(found), return_counts=True)
    canonical = np.stack(np.divmod(distinct, size), axis=1)
    users, used = canonical.T
    check(users, users == used, used, 'it uses itself (node {})')
    warnings: Tuple[str, ...] = ()
    if (counts > 1).any():
        place = _place(module, int(users[counts > 1][0]))
        warnings = (
            f'{(counts - 1).sum()} repeated edges kept once, the first '
            f'at {place} (one computation called twice, or also an operand)',
        )
    return Edges(
        canonical=canonical,
        operands=arrays.Ragged(operands, operand_ids.lengths),
        warnings=warnings,
    )


def _positions(ids: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Where the wanted are among ids int64 [n]; the last if repeated, -1 if not."""
    order = np.argsort(ids, kind='stable')
    found = order[np.searchsorted(ids[order], wanted, side='right') - 1]
    return np.where(ids[found] == wanted, found, -1)


def _check(
    module: Any, nodes: np.ndarray, wrong: np.ndarray, values: np.ndarray, message: str
) -> None:
    """Raises for the first wrong entry, naming its node and its value."""
    if wrong.any():
        at = int(np.argmax(wrong))
        place = _place(module, int(nodes[at]))
        raise ValueError(f'{place}: {message.format(values[at])}')


def _place(module: Any, node: int) -> str:
    """Names a node by its computation and instruction."""
    for computation in module.computations:
        if node < len(computation.instructions):
            name = computation.instructions[node].name
            return f'computation {computation.name!r}, instruction {name!r}'
        node -= len(computation.instructions)
    return f'node {node}'
