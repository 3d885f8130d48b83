"""Synthetic kernels and programs, of any number and size; they are no data set.

    synthetic.kernel(rng, nodes=40, configs=500)            # a TileRecord
    synthetic.program(rng, nodes=300, configs=200)          # a LayoutRecord
    synthetic.write_kernels(root, train=60, valid=20, test=20)
    synthetic.write_programs(root, train=6, valid=2, test=2)

Arrays have the shapes, dtypes and columns of the published files, and random content.
Runtimes follow a toy rule that a model can learn and that says nothing about any
machine.  A kernel takes time for each of its tiles and for each element of these, also
where the last tile of a dimension is partly empty.  A configurable node of a program
takes time for its elements, and twice that unless its last dimension is the fastest.
No family of programs is in two splits.
"""

from collections.abc import Callable, Iterator, Sequence
import os
from typing import Any

import numpy as np

from baselines.data import collections
from baselines.data.layout import records as layout_records
from baselines.data.tile import records as tile_records
from baselines.hlo import schema

_FAMILIES = {
    'train': 'alder ash beech birch cedar elm fir hazel'.split(),
    'valid': 'larch maple oak'.split(),
    'test': 'pine rowan yew'.split(),
}
_OPCODES = schema.find_opcode_numbers(
    'add subtract multiply maximum exponential tanh negate convert'.split()
)
_TILE_NS, _ELEMENT_NS = 200.0, 0.05
_NOISE = 0.002  # relative standard deviation of a runtime

Sizes = tuple[int, int]  # the least and the most, both possible


def kernel(
    rng: np.random.Generator,
    graph_id: str = 'alder_batch_1_0',
    nodes: int = 40,
    configs: int = 100,
    **changes: Any,
) -> tile_records.TileRecord:
    """Makes an elementwise kernel with distinct tiles of its output.

    Args:
        rng: the source of its numbers.
        graph_id: its name.
        nodes: number of nodes, at least 2.
        configs: number of configurations, from 2 to 4,096.
        **changes: fields of the record that are to differ from the above.
    """
    dims = rng.integers(16, 129, rng.integers(3, 5))
    numbers = rng.choice(int(dims.prod()), configs, replace=False)
    tiles = 1 + np.stack(np.unravel_index(numbers, dims), axis=1)
    trips = (-(-dims // tiles)).prod(axis=1)
    elements = trips * tiles.prod(axis=1)
    runtime = _measured(rng, _TILE_NS * trips + _ELEMENT_NS * elements)
    features = np.zeros((configs, len(schema.TILE)), np.float32)
    features[:, schema.TILE.block('output_bounds')][:, : len(dims)] = tiles
    features[:, schema.TILE.at('output_bounds_sum')] = tiles.sum(axis=1)
    features[:, schema.TILE.at('output_bounds_product')] = tiles.prod(axis=1)
    fields = dict(
        graph_id=graph_id,
        **_graph(rng, np.tile(dims, (nodes, 1)), nodes + nodes // 4),
        config_feat=features,
        config_runtime=runtime,
        config_runtime_normalizers=np.full(configs, int(np.median(runtime)), np.int64),
    )
    return tile_records.TileRecord(**{**fields, **changes})


def program(
    rng: np.random.Generator,
    graph_id: str = 'alder_batch_1',
    nodes: int = 300,
    configs: int = 200,
    configurable: int = 0,
    layouts: int = 4,
) -> layout_records.LayoutRecord:
    """Makes a program of which some nodes can be laid out in several ways.

    Its node_config_feat is int8, to be small.

    Args:
        rng: the source of its numbers.
        graph_id: its name.
        nodes: number of nodes, at least 8.
        configs: number of configurations, at least 2; a tenth repeat others.
        configurable: number of configurable nodes; 0 for a twentieth of them.
        layouts: that a configurable node chooses from, some of them alike.
    """
    configurable = configurable or max(2, nodes // 20)
    ranks = rng.integers(2, 5, nodes)
    dims = 1 << rng.integers(2, 7, (nodes, 4))
    dims[np.arange(4) >= ranks[:, np.newaxis]] = 0
    chosen = 2 + np.sort(rng.permutation(nodes - 2)[:configurable])
    table = _layouts(rng, ranks[chosen], layouts)
    elements = np.where(dims > 0, dims, 1).prod(axis=1)[chosen]
    fastest_is_last = table[:, :, 0] == ranks[chosen, np.newaxis] - 1
    costs = elements[:, np.newaxis] * np.where(fastest_is_last, 1, 2)
    codes = choices(rng, configs, np.full(configurable, layouts))
    copies = rng.integers(0, configs, configs // 10)
    codes[rng.integers(0, configs, len(copies))] = codes[copies]
    places = np.arange(configurable)
    runtime = sum(costs[place, codes[:, place]] for place in places)
    runtime = _measured(rng, 1e7 * runtime / elements.sum())
    return layout_records.LayoutRecord(
        graph_id=graph_id,
        **_graph(rng, dims, nodes + nodes // 2),
        node_config_ids=chosen.astype(np.int64),
        node_config_feat=table[places, codes],
        config_runtime=runtime,
        node_splits=np.array([[0, nodes // 2, nodes]], np.int64),
    )


def write_kernels(
    root: str,
    train: int,
    valid: int,
    test: int,
    nodes: Sizes = (10, 70),
    configs: Sizes = (20, 100),
    seed: int = 0,
) -> None:
    """Writes that many kernels to `<root>/{train,valid,test}/<program>_<hash>.npz`.

    Kernels with few of the configurations are more frequent.  The same seed writes
    the same files.
    """
    for split, number, rng in _numbered((train, valid, test), seed):
        program_name = _name(split, number, 4)
        made = kernel(
            rng,
            f'{program_name}_{number:016x}',
            int(rng.integers(nodes[0], nodes[1] + 1)),
            _between(rng, configs),
        )
        made.write(os.path.join(root, split, f'{made.graph_id}.npz'))


def write_programs(
    root: str,
    train: int,
    valid: int,
    test: int,
    nodes: Sizes = (100, 400),
    configs: Sizes = (40, 80),
    subfolders: Sequence[str] = ('xla/random',),
    seed: int = 0,
    write: Callable[[layout_records.LayoutRecord, str], None] = (
        layout_records.LayoutRecord.write
    ),
) -> None:
    """Writes that many programs to `<root>/<subfolder>/{train,valid,test}/<name>.npz`.

    Small programs, and those of few configurations, are more frequent.  The same seed
    writes the same files.  `write` is given a program and its path.
    """
    for place, subfolder in enumerate(subfolders):
        where = seed + 1000 * place
        for split, number, rng in _numbered((train, valid, test), where):
            name = _name(split, number)
            made = program(rng, name, _between(rng, nodes), _between(rng, configs))
            write(made, os.path.join(root, subfolder, split, f'{name}.npz'))


def edges(rng: np.random.Generator, nodes: int, count: int) -> np.ndarray:
    """Draws edges, most of them between neighbours.

    A chain with short skips holds the graph together; a tenth of the other edges ends
    at one of two hubs.  Returned are int32 [count, 2] of rows (consumer, producer), the
    latter of a smaller number; `count` is at least nodes - 1.
    """
    in_chain = np.arange(count) < nodes - 1
    others = rng.integers(1, nodes, count - nodes + 1)
    consumers = np.concatenate([np.arange(1, nodes), others])
    skips = rng.geometric(np.where(in_chain, 0.3, 0.05))
    producers = np.maximum(consumers - skips, 0)
    at_hub = ~in_chain & (rng.random(count) < 0.1)
    producers[at_hub] = np.minimum(rng.integers(0, 2, count), consumers - 1)[at_hub]
    return np.stack([consumers, producers], axis=1).astype(np.int32)


def choices(rng: np.random.Generator, configs: int, counts: np.ndarray) -> np.ndarray:
    """Draws one of `counts[j]` layouts for each node j, evenly: uint16 [configs, j]."""
    drawn = np.empty((configs, len(counts)), np.uint16)
    for start in range(0, configs, 1000):  # 20,000 x 1,500 at once take 0.5 GB
        rows = drawn[start : start + 1000]
        rows[:] = rng.random(rows.shape, np.float32) * counts
    return drawn


def _graph(rng: np.random.Generator, dims: np.ndarray, edge_count: int):
    """Makes the arrays of a graph whose nodes have these dimensions, int [n, rank]."""
    nodes, width = dims.shape
    rank = np.count_nonzero(dims, axis=1)[:, np.newaxis]
    places = np.arange(width)
    columns = schema.NODE
    features = np.zeros((nodes, len(columns)), np.float32)
    features[:, columns.at('shape_element_type_is_f32')] = 1
    features[:, schema.DIMENSIONS][:, :width] = dims
    features[:, columns.at('shape_dimensions_sum')] = dims.sum(axis=1)
    sizes = np.where(dims > 0, dims, 1).prod(axis=1)
    features[:, columns.at('shape_dimensions_product')] = sizes
    fastest_first = np.maximum(rank - 1 - places, 0)
    features[:, schema.MINOR_TO_MAJOR][:, :width] = fastest_first
    features[-1, schema.IS_ROOT] = 1
    opcodes = rng.choice(_OPCODES, nodes).astype(np.int32)
    opcodes[0] = schema.OPCODE_NUMBERS['parameter']
    return dict(
        node_feat=features,
        node_opcode=opcodes,
        edge_index=edges(rng, nodes, edge_count),
    )


def _layouts(rng: np.random.Generator, ranks: np.ndarray, count: int) -> np.ndarray:
    """Draws layouts of output and input, the same, for k nodes: int8 [k, count, 18]."""
    places = np.arange(schema.RANK)
    absent = places >= ranks[:, np.newaxis, np.newaxis]
    keys = rng.random((len(ranks), count, schema.RANK))
    orders = np.where(absent, -1, np.argsort(np.where(absent, 2, keys), axis=2))
    return np.concatenate([orders, orders, np.full_like(orders, -1)], 2).astype(np.int8)


def _measured(rng: np.random.Generator, nanoseconds: np.ndarray) -> np.ndarray:
    noise = 1 + _NOISE * rng.standard_normal(len(nanoseconds))
    return np.maximum(np.rint(nanoseconds * noise), 1).astype(np.int64)


def _between(rng: np.random.Generator, sizes: Sizes) -> int:
    """Draws a size, evenly on a logarithmic scale."""
    return round(sizes[0] * (sizes[1] / sizes[0]) ** rng.random())


def _name(split: str, number: int, programs: int = 0) -> str:
    """Names the program of graph `number`; families take turns, `programs` of each."""
    turn, family = divmod(number, len(_FAMILIES[split]))
    batch = 1 + (turn % programs if programs else turn)
    return f'{_FAMILIES[split][family]}_batch_{batch}'


def _numbered(counts: Sequence[int], seed: int) -> Iterator[tuple[str, int, Any]]:
    """Yields split, number and random generator of each graph."""
    for place, (split, count) in enumerate(zip(collections.SPLITS, counts)):
        for number in range(count):
            yield split, number, np.random.default_rng([seed, place, number])
