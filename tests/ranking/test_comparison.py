"""Runs side by side."""

from baselines.ranking import comparison
from baselines.ranking import metrics


def _summary(name, group, top_1, collection='tile:xla'):
    overall = {'graphs': 1200}
    for measure in metrics.MEASURES['tile']:
        overall[measure.key] = {'mean': 0.5}
    overall['top_1_error'] = {'mean': top_1}
    return {
        'task': 'tile',
        'name': name,
        'group': group,
        'overall': overall,
        'collection': collection,
    }


_RUNS = """\
tile:xla                kernels  top-1  top-5  top-10    OPA    tau  Kaggle
---------------------------------------------------------------------------
MLP lr=.01 seed 0         1,200  0.100  0.500   0.500  0.500  0.500   0.500
MLP lr=.01 seed 1         1,200  0.300  0.500   0.500  0.500  0.500   0.500
MLP lr=.1 seed 0          1,200      -  0.500   0.500  0.500  0.500   0.500
---------------------------------------------------------------------------
mean of 2: MLP lr=.01            0.200  0.500   0.500  0.500  0.500   0.500
  deviation over seeds           0.141  0.000   0.000  0.000  0.000   0.000"""


def test_a_line_for_each_run():
    # (.1 + .3) / 2 = .2; the deviation is .1 * sqrt(2).
    assert (
        comparison.format_runs(
            {
                'a': _summary('MLP lr=.01 seed 0', 'MLP lr=.01', 0.1),
                'b': _summary('MLP lr=.01 seed 1', 'MLP lr=.01', 0.3),
                'c': _summary('MLP lr=.1 seed 0', 'MLP lr=.1', None),
            }
        )
        == _RUNS
    )


def test_collections_have_a_table_each():
    text = comparison.format_runs(
        {
            'model_a': _summary('MLP a', 'MLP', 0.1),
            'model_b': _summary('MLP b', 'MLP', 0.1, collection='tile:other'),
        }
    )
    assert [part.split()[0] for part in text.split('\n\n')] == [
        'tile:xla',
        'tile:other',
    ]
    assert 'mean of' not in text
