"""`tpugraphs check`: what it says of classes that break the contract, rule by rule.

Hand-ins that are right, and a trained model: `tests/runs/test_portability.py`.
"""

import pytest

from tpugraphs import commands
from tpugraphs.handin import conformance

_BASE = """
import tensorflow as tf
_Keras = tf.keras.Model
class _Base(_Keras):
    def __init__(self, num_configs, num_ops):
        super().__init__()
        self.n = num_configs
        self.dense = tf.keras.layers.Dense(1)
    def call(self, graph, training=False):
        return self.forward(graph, self.n)
    def scores(self, graph, num_configs):
        scores = self.dense(graph.node_sets['config']['feats'])
        return tf.reshape(scores, [-1, num_configs])
    forward = scores
"""
_SLOW = 'saving and loading'
# Class -> (its body, what is said)
_BROKEN = {
    'Lazy': (
        """
    def forward(self, graph, num_configs):
        return tf.keras.layers.Dense(num_configs)(self.scores(graph, num_configs))
""",
        'layers are made in __init__: Lazy makes a Dense layer while it is called (',
    ),
    'Sorting': (
        """
    def forward(self, graph, num_configs):
        return tf.sort(self.scores(graph, num_configs))
""",
        'the order of configurations: scores depend on the order of the configurations',
    ),
    'Centred': (
        """
    def forward(self, graph, num_configs):
        scores = self.scores(graph, num_configs)
        return scores - tf.reduce_mean(scores, axis=1, keepdims=True)
""",
        'any number of configurations: a score depends on the other configurations in '
        'the list; if it should, set scores_depend_on_list = True in the class',
    ),
    'Mixing': (
        """
    def forward(self, graph, num_configs):
        scores = self.scores(graph, num_configs)
        return scores * (1.0 + tf.reduce_mean(scores, axis=0, keepdims=True))
""",
        'alone as in a batch: scores depend on the other kernels of the batch',
    ),
    'Cut': (
        """
    def __init__(self, num_configs, num_ops):
        super().__init__(num_configs, num_ops)
        self.more = tf.keras.layers.Dense(1)
    def forward(self, graph, num_configs):
        more = self.more(graph.node_sets['config']['feats'])
        more = tf.reshape(tf.stop_gradient(more), [-1, num_configs])
        return self.scores(graph, num_configs) + more
""",
        'gradients: five nodes, three nodes, one node: the scores do not depend on the '
        'variable cut',
    ),
    'Normed': (
        """
    def __init__(self, num_configs, num_ops):
        super().__init__(num_configs, num_ops)
        self.norm = tf.keras.layers.BatchNormalization()
    def forward(self, graph, num_configs):
        return self.norm(self.scores(graph, num_configs)[..., None])[..., 0]
""",
        'variables: normed',
    ),
    'Typo': (
        """
    def forward(self, graph, num_configs):
        return self.scroes(graph, num_configs)
""",
        "layers are made in __init__: AttributeError: 'Typo' object has no attribute "
        "'scroes' (",
    ),
}


@pytest.mark.parametrize('name', _BROKEN)
def test_a_class_that_breaks_a_rule(name, tmp_path, capsys, monkeypatch):
    quick = {rule: check for rule, check in conformance.RULES.items() if rule != _SLOW}
    monkeypatch.setattr(conformance, 'RULES', quick)
    body, expected = _BROKEN[name]
    path = tmp_path / 'models.py'
    path.write_text(f'{_BASE}class {name}(_Base):{body}')
    assert commands.run('check', [f'{path}:{name}']) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == 'ok   models.py: imports'
    wrong = next(line for line in lines if line.startswith(f'FIX  {name}: {expected}'))
    if expected.endswith('('):
        assert f'{path}, line {path.read_text().count(chr(10))}' in wrong


@pytest.mark.slow
def test_an_attribute_assigned_twice_moves_its_variables(tmp_path, capsys):
    path = tmp_path / 'models.py'
    path.write_text(f"""{_BASE}class Twice(_Base):
    def __init__(self, num_configs, num_ops):
        super().__init__(num_configs, num_ops)
        self.last = tf.keras.layers.Dense(1)
        self.dense = tf.keras.layers.Dense(2)
    def scores(self, graph, num_configs):
        scores = self.last(self.dense(graph.node_sets['config']['feats']))
        return tf.reshape(scores, [-1, num_configs])
    forward = scores
""")
    assert commands.run('check', [f'{path}:Twice']) == 1
    [wrong] = [x for x in capsys.readouterr().out.splitlines() if x[:3] == 'FIX']
    assert 'kernel:0' in wrong and 'attribute' in wrong


def test_a_file_without_the_model(tmp_path, capsys):
    path = tmp_path / 'models.py'
    path.write_text(f'{_BASE}import scipy\nclass Mine(_Base): pass\n')
    assert commands.run('check', [f'{path}:Yours']) == 1
    printed = capsys.readouterr()
    assert printed.out == (
        'FIX  models.py: imports: line 15 imports scipy, which the published tree does '
        'not have\n'
    )
    assert f"no model in {path} 'Yours'; there are: Mine" in printed.err
