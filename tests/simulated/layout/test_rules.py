"""Rule books of simulated layouts."""

import numpy as np
import pytest

from baselines.simulated.layout import dataset
from baselines.simulated.layout import layers
from baselines.simulated.layout import ops
from baselines.simulated.layout import programs
from baselines.simulated.layout import rules
from baselines.simulated.layout import search
from baselines.simulated.layout.model import LayoutModel


def test_every_program_of_the_drawn_book_has_its_own_rules():
    drawn = [rules.rules_of('drawn', np.random.default_rng(i)) for i in range(200)]
    assert drawn[0] == rules.rules_of('drawn', np.random.default_rng(0))
    for name, often in (('copies', 0.2), ('turns', 0.2), ('traffic', 0.5)):
        shares = np.array([getattr(each, name) for each in drawn])
        assert np.mean(shares > 0) == pytest.approx(often, abs=0.12)
        assert 0.01 <= shares[shares > 0].min() and shares.max() <= 1
    noise = np.log10([each.noise for each in drawn])
    assert -5 <= noise.min() < -4.5 and -3 < noise.max() <= -2.5


def test_books_that_leave_nothing_open():
    rng = np.random.default_rng(0)
    assert rules.rules_of('roofline', rng) == rules.Rules()
    products = rules.rules_of('products', rng)
    assert products.copies == products.turns == products.traffic == 0


def _convolutions():
    net = ops.Net(training=False)
    x = net.parameter((16, 32, 32, 64))
    for features in (64, 64, 256):
        x = layers.conv(net, x, features, 3).op('tanh')
    return net.finish([x])


def test_only_the_padding_of_products_counts():
    model = LayoutModel(_convolutions(), rules.BOOKS['products'])
    usual = np.array([[slot.default for slot in model.slots]])
    fastest = model.runtime_ns(usual)
    for number, slot in enumerate(model.slots):
        changed = usual.copy()
        changed[0, number] = max(
            range(len(slot.layouts)), key=lambda i: -slot.layouts[i][0]
        )
        time = model.runtime_ns(changed)
        if slot.tensor:
            assert time == pytest.approx(fastest)
        elif slot.node < 2:  # 16 images in place of 64 features
            assert time > 1.1 * fastest


def test_instructions_with_the_same_choice_are_given_the_same():
    model = LayoutModel(_convolutions())
    choices = search.random_search(model.slots, 100, np.random.default_rng(0), 0.0)
    found = search.shared(model.slots, choices)
    # Three slots each; the first two convolutions have the same layouts.
    assert np.array_equal(found[:, :3], choices[:, :3])
    assert np.array_equal(found[:, 3:6], choices[:, :3])
    assert np.array_equal(found[:, 6:], choices[:, 6:])


def test_a_program_has_other_runtimes_in_another_book():
    program = programs.draw_programs('xla', 'train', 1, 0)[0]
    records = []
    for book in ('roofline', 'products', 'drawn', 'drawn'):
        wanted = dataset.Programs(configs_min=50, configs_max=50, rules=book)
        records.append(wanted.record(wanted.compiled(program), 'random'))
    runtimes = [record.config_runtime for record in records]
    assert np.array_equal(runtimes[2], runtimes[3])
    assert not np.array_equal(runtimes[0], runtimes[1])
    for record in records[1:]:
        assert np.array_equal(record.node_feat, records[0].node_feat)
