"""Every tile model in the registry does what a tile model must do."""

import types

import numpy as np
import pytest

from baselines.core import registry
from baselines.data.tile import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.tiles import graphs as graphs_lib
from baselines.tiles import scoring
from tests.helpers import conformance
from tests.helpers import tile_graphs
from tests.helpers import tile_records


class TileTask(conformance.Task):
    """Kernels assembled by hand."""

    num_ops = tile_graphs.NUM_OPS

    def models(self):
        return registry.find_models('tiles')

    def make_pieces(self):
        rng = np.random.default_rng(0)

        def kernel(nodes, edges):
            return tile_graphs.random_kernel(rng, nodes, conformance.NUM_CONFIGS, edges)

        return {
            'tree_and_repeats': kernel(6, [(1, 0), (2, 0), (2, 0), (5, 3), (4, 4)]),
            'node_without_edges': kernel(4, [(1, 0), (3, 1)]),
            'no_edges': kernel(3, []),
            'single_node': kernel(1, []),
        }

    def merged(self, pieces):
        return tile_graphs.by_hand(pieces)

    def choose(self, piece, configs):
        return piece.choose(list(configs))


@pytest.fixture(scope='module', name='task')
def _task(tmp_path_factory):
    return TileTask(tmp_path_factory.mktemp('tile_models'))


@pytest.fixture(scope='module', name='graphs')
def _graphs():
    """Kernels in a store, as wide as those of the task after scaling."""
    records = tile_records.make_records(
        3,
        node_features=tile_graphs.NODE_FEATURES,
        config_features=tile_graphs.CONFIG_FEATURES,
    )
    for record in records:
        record.node_opcode[:] %= tile_graphs.NUM_OPS
    store = store_lib.TileStore.from_records('here', records)
    return graphs_lib.TileGraphs(store, normalizer_lib.Normalizer.fit(store))


@pytest.mark.parametrize('name', conformance.parameters(registry.find_models('tiles')))
class TestTileModels(conformance.ModelSuite):
    @pytest.mark.slow
    def test_in_slices_as_whole(self, task, name, graphs, monkeypatch):
        if name not in task.representatives:
            pytest.skip('compiling takes a second: once for a file of models')
        model = task.shared(name)
        if getattr(model, 'scores_depend_on_list', False):
            pytest.skip('its slices are other lists, see tests/tiles/test_scoring.py')
        # Kernels have 2 to 8 nodes: slices of 2 to 10 configurations.
        monkeypatch.setattr(graphs_lib, 'PAIRS_PER_ITEM', 20)
        scaling = normalizer_lib.Normalizer.fit(graphs.store)
        sliced = types.SimpleNamespace(forward=model.forward, joins_early=True)
        for number, scores in enumerate(scoring.TileScorer(sliced).scores(graphs)):
            record = graphs.store.record(number)
            kernel = tile_graphs.Kernel.of(record, scaling.nodes, scaling.configs)
            whole = model.forward(tile_graphs.by_hand([kernel]), record.num_configs)
            conformance.assert_close(scores, whole.numpy()[0], task.rounding(name))
