"""Programs of a split as inference takes them."""

import numpy as np

from baselines.data.layout import store as layout_store
from baselines.features import normalizer as normalizer_lib
from baselines.layout import programs
from tests.helpers import layout_files


def test_scaled_features_are_kept_until_later_ones_need_the_room(monkeypatch):
    rng = np.random.default_rng(0)
    records = [layout_files.make_program(rng, name, nodes=4) for name in 'abc']
    store = layout_store.LayoutStore.of_records('memory', records)
    normalizer = normalizer_lib.Normalizer.fit(store)
    wanted = [program.feats for program in programs.StoredPrograms(store, normalizer)]
    monkeypatch.setattr(programs, '_KEPT_BYTES', 2 * wanted[0].nbytes)
    stored = programs.StoredPrograms(store, normalizer)
    first, second, third = (stored[number] for number in range(3))
    assert stored[1] is second and stored[2] is third and stored[0] is not first
    for number, feats in enumerate(wanted):
        np.testing.assert_array_equal(stored[number].feats, feats)
