"""Spaces: what a TOML says is drawn, and what it must not say."""

import datetime

import pytest

from baselines import config
from tests.helpers import documents

pytest.importorskip('optuna')

from tpugraphs.sweep import space


class _Drawn:
    """Draws what it is told to, and remembers what it was asked."""

    def __init__(self, **values):
        self._values = values
        self.asked = {}

    def suggest_categorical(self, name, choices):
        self.asked[name] = choices
        return self._values.get(name, choices[0])

    def suggest_int(self, name, low, high, step=1, log=False):
        self.asked[name] = (low, high, step, log)
        return self._values.get(name, low)

    def suggest_float(self, name, low, high, step=None, log=False):
        self.asked[name] = (low, high, step, log)
        return self._values.get(name, low)


_SPACE = {
    'epochs': 7,
    'lr': {'low': 1e-3, 'high': 1, 'log': True},
    'batch': {'low': 4, 'high': 10, 'step': 2},
    'model': {'choices': ['MLP', 'EarlyJoinSAGE']},
    'trees': {'choices': [True, False], 'when': {'model': 'MLP'}},
    'model_kwargs': {'num_gnns': {'low': 1, 'high': 3, 'when': {'trees': [True]}}},
}


def test_ranges_choices_and_conditions():
    drawn = _Drawn(trees=True, **{'model_kwargs.num_gnns': 2})
    base = config.TileConfig(model_kwargs_json='{"hidden_dim": 8}')
    assert space.parse_space(_SPACE, base).suggest_settings(drawn) == {
        'epochs': 7,
        'lr': 1e-3,
        'batch': 4,
        'model': 'MLP',
        'trees': True,
        'model_kwargs_json': '{"hidden_dim": 8, "num_gnns": 2}',
    }
    assert drawn.asked['lr'] == (1e-3, 1.0, None, True)
    assert drawn.asked['batch'] == (4, 10, 2, False)
    # What waits for a value is not asked for without it, nor what waits for that.
    other = _Drawn(model='EarlyJoinSAGE')
    found = space.parse_space(_SPACE, config.TileConfig()).suggest_settings(other)
    assert set(found) == set('epochs lr batch model'.split())
    assert 'trees' not in other.asked


def test_a_condition_names_no_setting_that_is_drawn_later():
    content = {
        'lr': {'low': 1, 'high': 2, 'when': {'batch': 1}},
        'batch': {'low': 4, 'high': 10},
    }
    with pytest.raises(ValueError, match=r"\[lr\]: .*'batch'"):
        space.parse_space(content, config.TileConfig())


def test_a_given_setting_is_not_searched():
    base = config.TileConfig(model='MLP', epochs=1)
    left = space.parse_space(_SPACE, base, given=['model', 'epochs'])
    drawn = _Drawn(trees=False)
    # The condition model = "MLP" holds, by the given value.
    assert set(left.suggest_settings(drawn)) == {'lr', 'batch', 'trees'}
    assert 'model' not in left.source and 'lr' in left.source
    with pytest.raises(ValueError, match='nothing to search'):
        space.parse_space(_SPACE, base, given=_SPACE)


def test_defaults_are_tried_first_where_they_can_be_drawn():
    base = config.TileConfig(model='MLP', model_kwargs_json='{"num_gnns": 9}')
    found = space.parse_space({**_SPACE, 'configs': {'low': 20, 'high': 30}}, base)
    # configs is 10, out of range; num_gnns waits for trees, which is False.
    expected = {'lr': 1e-3, 'batch': 10, 'model': 'MLP', 'trees': False}
    assert found.find_defaults() == expected


@pytest.mark.parametrize(
    'changes, word',
    [
        ({'lrr': 1}, "'lr'"),
        ({'models_file': 'a.py'}, 'models_file'),
        ({'lr': {'low': 1, 'high': 10**400}}, r'\[lr\]: .*1000'),
        ({'lr': datetime.date(2020, 1, 1)}, 'lr .*datetime'),
        ({'lr': {'low': 1, 'hihg': 2}}, r"\[lr\]: .*'hihg'"),
        ({'lr': {'low': 2, 'high': 1}}, 'low <= high'),
        ({'lr': {'low': -1, 'high': 1}}, '--lr .*-1'),
        ({'batch': {'low': 1, 'high': 3, 'step': 0.5}}, 'step .*0.5'),
        ({'schedule': {'choices': ['cosin']}}, 'constant, cosine'),
        ({'model_kwargs': {'a': [1]}}, r'model_kwargs.a .*\[1\]'),
        *(
            ({'trees': {'choices': [True, False], 'when': when}}, word)
            for when, word in (
                ({'model': 'GCN'}, "'GCN'"),
                ({'model_kwargs.x': 1}, "'model_kwargs.x'"),
                ({'epochs': 'x'}, r"\[trees\]: epochs .*'x'"),
                ('MLP', 'when'),
            )
        ),
    ],
)
def test_what_a_space_must_not_say(changes, word):
    with pytest.raises(ValueError, match=word):
        space.parse_space({**_SPACE, **changes}, config.TileConfig())


def test_a_file_that_is_not_toml_is_named(tmp_path):
    path = tmp_path / 'a.toml'
    for content in ('lr = [', '[lr]\nlow = 1\n'):
        path.write_text(content)
        with pytest.raises(ValueError, match=f'--space {path}'):
            space.read_space(str(path), config.TileConfig())


@pytest.mark.parametrize('task', config.CONFIGS)
def test_both_tasks_have_a_space_with_their_defaults(task):
    found = space.read_space('', config.CONFIGS[task]())
    assert {'lr', 'model', 'batch'} <= set(found.find_defaults())


def test_the_space_of_the_documents(tmp_path):
    [block] = [
        b for b in documents.blocks('docs/guide/sweeps.md') if b.language == 'toml'
    ]
    path = tmp_path / 'space.toml'
    path.write_text(block.text)
    drawn = _Drawn(model='LateJoinResSAGE', lr=0.01)
    found = space.read_space(str(path), config.TileConfig()).suggest_settings(drawn)
    assert {k: found[k] for k in ('epochs', 'lr', 'model', 'columns')} == {
        'epochs': 30,
        'lr': 0.01,
        'model': 'LateJoinResSAGE',
        'columns': 'tile,estimate',
    }
