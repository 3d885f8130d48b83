"""Models of others are given what the published pipelines give them."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_gnn as tfgnn

from baselines import config
from baselines.tasks import lookup
from baselines.training import task_data
from tests.helpers import finished_runs
from tests.helpers import sparse_model
from tests.helpers import tile_records
from tests.helpers import tile_runs
from tpugraphs.handin import conformance

# Node sets and edge sets, their sizes, features and ends.  Tiles: the published
# pipeline run with TF-GNN 1.0.3, opcodes and normalisers as in the npz files.
_TILE = """
op int64: op uint8, feats float32
config int64: feats float32, runtimes float64, normalizers int64
g int64: tile_id string
feed int64: op op int64
g_op int64: g op int64
g_config int64: g config int64
"""
# The layout pipeline casts edges to int32.
_LAYOUT = """
op int32: op uint8, feats float32, selected bool
nconfig int32: feats float32
g int32: graph_id string, runtimes float32, kept_node_ratio float32
config int32: nconfig op int32
sampled_config int32: nconfig op int32
feed int32: op op int32
sampled_feed int32: op op int32
g_op int32: g op int32
g_config int32: g nconfig int32
"""


def _described(graph):
    """Writes a graph's node sets and edge sets as the tables do."""
    lines = [
        f'{name} {nodes.sizes.dtype.name}: '
        + ', '.join(f'{key} {x.dtype.name}' for key, x in nodes.features.items())
        for name, nodes in graph.node_sets.items()
    ]
    for name, edges in graph.edge_sets.items():
        tags = tfgnn.SOURCE, tfgnn.TARGET
        ends = ' '.join(edges.adjacency.node_set_name(tag) for tag in tags)
        [kind] = {edges.adjacency[tag].dtype.name for tag in tags}
        lines.append(f'{name} {edges.sizes.dtype.name}: {ends} {kind}')
        assert not edges.features
    assert not graph.context.features
    return sorted(lines)


@pytest.mark.parametrize('task, table', [('tile', _TILE), ('layout', _LAYOUT)])
def test_graphs_have_the_published_parts_and_types(task, table):
    kind = lookup.TASKS[task]
    rng = np.random.default_rng(0)
    records = [kind.make_example_record(rng, 3) for _ in range(2)]
    store = kind.store_class.from_records('made up', records)
    data = task_data.make_data(
        config.CONFIGS[task](batch=2, configs=3), {'train': store}
    )
    packed = data.pack(np.array([[0, 1]]), np.tile(np.arange(3), (1, 2, 1)))
    tensors = {key: tf.convert_to_tensor(array) for key, array in packed.items()}
    trained, labels, _ = data.unpack(tensors, 0, 2)
    assert labels.dtype == tf.float32
    for graph in (trained, kind.make_example_graph(data.normalizer)):
        assert _described(graph) == sorted(table.strip().split('\n'))


@pytest.mark.slow
def test_a_sparse_tensor_of_edges_passes_the_check_trains_and_predicts(tmp_path):
    assert [
        str(x) for x in conformance.check(sparse_model.Sparse, {}) if not x.ok
    ] == []
    tile_records.write_splits(tmp_path / 'data', 3)
    kind = dict(model='Sparse', models_file=sparse_model.__file__)
    model_dir, _ = tile_runs.train(tmp_path, epochs=1, configs=3, batch=2, **kind)
    assert finished_runs.read_csv(model_dir).count('tile:xla:') == 3
