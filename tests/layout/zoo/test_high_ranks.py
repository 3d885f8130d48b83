"""Layouts of arrays of rank 7 and more, whose dimension numbers go beyond 5."""

import numpy as np
import pytest

from baselines.core import registry
from baselines.data.layout import store as store_lib
from baselines.features import normalizer as normalizer_lib
from baselines.scoring import scorer
from baselines.tasks import lookup
from tests.helpers import conformance
from tests.helpers import layout_files
from tests.helpers import layout_programs


@pytest.fixture(name='scaled', scope='module')
def _scaled():
    """A normaliser, and a program that it has scaled."""
    program = layout_files.make_record(np.random.default_rng(0))
    program.node_config_feat[::2, 0] = np.arange(18) % 9
    store = store_lib.LayoutStore.from_records('here', [program])
    normalizer = normalizer_lib.Normalizer.fit(store)
    np.testing.assert_array_equal(
        store.vectors(0)[store.group_codes(0)].max(), program.node_config_feat.max()
    )
    return normalizer, lookup.TASKS['layout'].graphs(store, normalizer, False, False)[0]


@pytest.mark.slow
@pytest.mark.parametrize('name', conformance.distinct(registry.find_models('layout')))
def test_every_model_scores_them(scaled, name):
    normalizer, program = scaled
    model = scorer.make_model(
        lookup.TASKS['layout'],
        registry.find_model_class(name, 'layout'),
        {},
        12,
        120,
        normalizer,
    )
    graph, _ = layout_programs.merge([program], range(program.num_configs))
    assert np.isfinite(model.forward(graph, program.num_configs)).all()
