"""Edges of an HLO module: from an instruction to its operands and callees."""

import itertools

from google.protobuf import message
import numpy as np

from baselines.core import text
from baselines.hlo import gather


def find_edges(
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
            place = _place(module, int(nodes[at]))
            raise ValueError(f'{place}: {problem.format(values[at])}')

    # Ids are any numbers, not positions: protobufs refer to instructions by id.
    ids = instructions.scalars('id')
    operand_ids = instructions.lists('operand_ids')
    called_ids = instructions.lists('called_computation_ids')
    # One row per entry of the lists: the number of the operand, and of its consumer.
    operands = positions(ids, operand_ids.flat)
    consumers = operand_ids.row_numbers()
    callers = called_ids.row_numbers()
    missing = ' is not in the module'
    check(consumers, operands < 0, operand_ids.flat, 'operand id {}' + missing)
    computations = gather.Fields(module.computations)
    # A call is an edge to the root of the called computation.
    called = positions(computations.scalars('id'), called_ids.flat)
    check(callers, called < 0, called_ids.flat, 'called computation id {}' + missing)
    root_ids = computations.scalars('root_id')[called]
    roots = positions(ids, root_ids)
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
    place = _place(module, int(users[counts > 1][0]))
    warning = (
        f'{text.count((counts - 1).sum(), "repeated edge")} kept once, the first '
        f'at {place} (one computation called twice, or also an operand)'
    )
    return edges, (warning,)


def positions(ids: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Returns where the `chosen` ids are among `ids`: the last place, or -1.

    Both are int64 [any]; the result has the shape of `chosen`.
    """
    order = np.argsort(ids, kind='stable')
    places = order[np.searchsorted(ids[order], chosen, side='right') - 1]
    return np.where(ids[places] == chosen, places, -1)


def _place(module: message.Message, node: int) -> str:
    """Names a node by its computation and instruction."""
    places = ((c.name, i.name) for c in module.computations for i in c.instructions)
    computation, instruction = next(itertools.islice(places, node, None))
    where = map(text.quoted, (computation, instruction))
    return 'computation {}, instruction {}'.format(*where)
