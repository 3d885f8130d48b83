"""Options of the models, and what they ask of training."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from baselines import registry
from baselines.features import expansion
from baselines.features import normalizer as normalizer_lib
from baselines.layout.zoo import options as options_lib
from baselines.runs import layout_task


def test_raw_columns_that_were_expanded_are_refused():
    columns = {
        f'{part}_{what}': np.array([True] if what == 'used' else [float(what == 'max')])
        for part in ('node', 'config')
        for what in ('used', 'min', 'max')
    }
    normalizer = normalizer_lib.Normalizer(**columns)
    layout_task.TASK.make_model('PaddedSAGE', {}, '', 2, 10, normalizer)
    expanded = dataclasses.replace(
        normalizer, expansion=expansion.Expansion(node_signlog=True)
    )
    with pytest.raises(
        ValueError, match='PaddedSAGE undoes .* without --features and --mod128'
    ):
        layout_task.TASK.make_model('PaddedSAGE', {}, '', 2, 10, expanded)


@pytest.mark.parametrize(
    'name, options, message',
    [
        ('PaddedSAGE', {'hops': 0}, 'hops is at least 1, not 0'),
        ('PaddedSAGE', {'feature_dropout': 1}, 'feature_dropout is .* below 1, not 1'),
        ('GCN', {'num_gnns': 0}, 'num_gnns is at least 1, not 0'),
        ('ChebNet', {'order': 0}, 'order is at least 1, not 0'),
        ('TGraph', {'hidden_dim': 0}, 'hidden_dim is at least 1, not 0'),
        ('TGraph', {'feature_dropout': -1}, 'feature_dropout is .* below 1, not -1'),
        ('GAT', {'heads': 5}, 'heads divide hidden_dim=64, and 5 do not'),
    ],
)
def test_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        registry.layout_models()[name](4, 10, **options)


def test_dropout_draws_anew_for_other_values_and_again_for_the_same():
    dropout, x = options_lib.Dropout(0.25), tf.ones([1000])
    assert dropout(x) is x
    first, again, other = (dropout(y, training=True) for y in (x, x, x + 1))
    np.testing.assert_array_equal(first, again)
    assert ((first == 0) != (other == 0)).numpy().any()
    # Kept values are divided by 3/4; of 1000, 750 are kept, with a deviation of 14.
    kept = first.numpy()[first != 0]
    np.testing.assert_allclose(kept, 4 / 3, rtol=1e-6)
    assert 680 < len(kept) < 820
