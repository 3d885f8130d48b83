"""The part of made-up graphs that both tasks share."""

from typing import Any

import numpy as np

from baselines.hlo import schema

NODES = 5
OPCODES = 10


def graph_fields(rng: np.random.Generator, configs: int) -> dict[str, Any]:
    """Makes up the fields of a record: a chain of nodes with random features."""
    ends = np.arange(NODES - 1)
    return {
        'graph_id': 'made up',
        'node_feat': rng.integers(0, 9, (NODES, len(schema.NODE))).astype('f4'),
        'node_opcode': rng.integers(1, OPCODES, NODES),
        'edge_index': np.stack([ends + 1, ends], 1),
        'config_runtime': rng.integers(100, 1000, configs),
    }
