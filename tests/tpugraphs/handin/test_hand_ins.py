"""Hand-ins, good and bad: what the course's script makes of them, and `check` says.

The column of the script is its own behaviour, as the handout and its users describe its
source: `tests/published_tree/course_script.py` does the same, and one test runs it on
all rows.  The published repository itself is not at hand.
"""

import json
import textwrap
from typing import NamedTuple

import numpy as np
import pytest

from tests.helpers import elsewhere
from tests.helpers import tile_records
from tpugraphs import commands
from tpugraphs.handin import conformance

_BASE = """
import sys
import tensorflow as tf
class _Base(tf.keras.Model):
    def __init__(self, num_configs, num_ops):
        super().__init__()
        self.n = num_configs
        self.dense = tf.keras.layers.Dense(1)
    def call(self, graph, training=False):
        return self.forward(graph, self.n)
    def scores(self, graph, num_configs):
        scores = self.dense(graph.node_sets['config']['feats'])
        return tf.reshape(scores, [-1, num_configs])
    def forward(self, graph, num_configs):
        return self.scores(graph, num_configs)
    def ends(self, graph):
        edges = graph.edge_sets['feed'].adjacency
        return tf.cast(tf.concat([edges.source, edges.target], 0), tf.int32)
"""

_FAILS, _OTHERWISE, _RANKS = 'fails', 'ranks otherwise', 'ranks'


class Row(NamedTuple):
    """A hand-in, and what is made of it."""

    script: str  # what the course's script does, compared with the trained model
    said: str = ''  # part of the first FIX; '' where all is ok
    body: str = ''  # of the class
    init: str = ''  # the rest of its constructor
    head: str = ''  # the file's first lines
    scores: str = ''  # what `forward` returns


_ROWS = {
    # What is imported.
    'Plain': Row(_RANKS),
    'Keras': Row(_RANKS, head='import keras'),
    'Optional': Row(
        _RANKS, head='try:\n  import no_such\nexcept ImportError:\n  no_such = None'
    ),
    'Suppressed': Row(
        _RANKS,
        head='import contextlib as c\nwith c.suppress(ImportError):\n  import no_such',
    ),
    'Typed': Row(
        _RANKS,
        head='from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n  import no_such',
    ),
    'Standard': Row(_RANKS, head='import numpy.linalg, math\nfrom absl import logging'),
    'Published': Row(
        _RANKS, head='from tpu_graphs.baselines.tiles import implicit as theirs'
    ),
    'Relative': Row(
        _RANKS, head='from . import implicit\nfrom ..tiles.implicit import Sum'
    ),
    'Late': Row(
        _RANKS,
        body='def unused(self):\n  from tpu_graphs.baselines.tiles import metrics',
    ),
    'Ours': Row(
        _FAILS, 'baselines.tiles.implicit', head='from baselines.tiles import implicit'
    ),
    'Sibling': Row(_FAILS, 'tiles.graphs', head='from . import graphs'),
    'Absent': Row(_FAILS, 'line 1 ', head='import no_such'),
    'Handled': Row(
        _FAILS, 'no_such', head='try:\n  import no_such\nexcept KeyError:\n  pass'
    ),
    'Syntax': Row(_FAILS, 'SyntaxError', head='def f(:'),
    'Quits': Row(_FAILS, 'SystemExit: 0', head='import sys\nsys.exit(0)'),
    # How it is made.
    'Renamed': Row(
        _FAILS,
        "argument 'num_configs'",
        body='def __init__(self, n, n_ops):\n  super().__init__(n, n_ops)',
    ),
    'Wide': Row(
        _RANKS, body='def __init__(self, *args, **kw):\n  super().__init__(*args, **kw)'
    ),
    'Demanding': Row(
        _FAILS,
        "argument: 'width'",
        body='def __init__(self, num_configs, num_ops, width):\n  pass',
    ),
    'Broken': Row(_FAILS, 'line 25', init='tf.keras.layers.Dense(1, no_such=True)'),
    'Kept': Row(
        _RANKS,
        init='self.more = None',
        body='def forward(self, graph, num_configs):\n'
        '  self.more = self.more or tf.keras.layers.Dense(1)\n'
        '  return self.more(self.scores(graph, num_configs)[..., None])[..., 0]',
    ),
    'Auxiliary': Row(
        _FAILS,
        'call makes the variable auxiliary',
        init='self.more = tf.keras.layers.Dense(1)',
        body='def call(self, graph, training=False):\n'
        "  self.add_loss(tf.reduce_sum(self.more(graph.node_sets['op']['feats'])))\n"
        '  return super().call(graph)',
    ),
    # How it scores.
    'Typo': Row(_FAILS, "no attribute 'scroes'", scores='self.scroes(graph, n)'),
    'Leaves': Row(_FAILS, 'SystemExit: 0', scores='sys.exit(0)'),
    'Fixed': Row(_FAILS, 'any number of', scores='self.scores(graph, self.n)'),
    'Edges': Row(
        _FAILS,
        'a kernel without edges',
        scores='self.scores(graph, n) + tf.cast(self.ends(graph)[0], tf.float32) * 0',
    ),
    'Lazy': Row(
        _OTHERWISE,
        'line 24',
        scores='self.scores(graph, n) * tf.reduce_sum(tf.keras.layers.Dense(1)('
        "graph.node_sets['op']['feats']))",
    ),
    'Random': Row(
        _OTHERWISE,
        'scores differ from call to call',
        scores='self.scores(graph, n) + tf.random.normal([n])',
    ),
    'Normed': Row(
        _OTHERWISE,
        'all that a grader copies',
        init='self.norm = tf.keras.layers.BatchNormalization(momentum=0.5)',
        body='def call(self, graph, training=False):\n'
        '  return self.forward(graph, self.n, training)\n'
        'def forward(self, graph, n, training=False):\n'
        "  x = self.norm(graph.node_sets['config']['feats'], training=training)\n"
        '  return tf.reshape(self.dense(x), [-1, n])',
    ),
    'Constant': Row(
        _RANKS,
        init='self.scale = tf.Variable(3.0, trainable=False)',
        scores='self.scores(graph, n) * self.scale',
    ),
    'Compares': Row(
        _RANKS,
        body='scores_depend_on_list = True',
        scores='tf.math.l2_normalize(self.scores(graph, n), axis=1)',
    ),
    # The script takes these, and they break the contract of this package.
    'Eager': Row(
        _RANKS,
        'line 24',
        body='def call(self, graph, training=False):\n'
        '  return float(tf.reduce_sum(self.scores(graph, self.n))) * self.scores('
        'graph, self.n)',
    ),
    'Equal': Row(_RANKS, 'the same score', scores='0 * self.scores(graph, n)'),
    'NotFinite': Row(_RANKS, 'finite', scores='self.scores(graph, n) + float("inf")'),
    'Sorting': Row(
        _RANKS,
        'the order of configurations',
        body='scores_depend_on_list = True',
        scores='tf.sort(self.scores(graph, n))',
    ),
    'Centred': Row(
        _RANKS,
        'set scores_depend_on_list = True',
        scores='tf.math.l2_normalize(self.scores(graph, n), axis=1)',
    ),
    'Mixing': Row(
        _RANKS,
        'alone as in a batch',
        scores='self.scores(graph, n) * (1 + tf.reduce_mean(self.scores(graph, n), 0))',
        body='scores_depend_on_list = True',
    ),
    'Cut': Row(
        _RANKS,
        'the scores do not depend on the variable',
        init='self.more = tf.keras.layers.Dense(1)',
        scores='self.scores(graph, n) + tf.reshape(tf.stop_gradient(self.more('
        "graph.node_sets['config']['feats'])), [-1, n])",
    ),
}


def _write(folder, name):
    """Writes the file of a row; returns its path."""
    row, body = _ROWS[name], [f'class {name}(_Base):', '  pass']
    if row.init:
        body += ['  def __init__(self, num_configs, num_ops):']
        body += ['    super().__init__(num_configs, num_ops)', f'    {row.init}']
    if row.scores:
        body += ['  def forward(self, graph, n):', f'    return {row.scores}']
    body += [textwrap.indent(row.body, '  ')]
    path = folder / f'{name}.py'
    path.write_text('\n'.join([row.head, _BASE, *body]))
    return path


@pytest.fixture(name='quick')
def _quick(monkeypatch):
    """Saves nothing, which takes seconds."""
    weights = lambda model: [v.numpy() for v in model.trainable_variables]
    monkeypatch.setattr(conformance, 'save_and_load', weights)


@pytest.mark.parametrize('name', _ROWS)
def test_what_check_says(name, tmp_path, capsys, quick):
    path, row = _write(tmp_path, name), _ROWS[name]
    code = commands.run('check', [str(path)])
    *lines, last = capsys.readouterr().out.splitlines()
    fixes = [line for line in lines if line.startswith('FIX')]
    assert code == bool(fixes) == bool(row.said), lines
    assert row.said in ''.join(fixes[:1])
    assert len(fixes) <= 1 and last.startswith('verdict: ')
    # Whatever the script cannot use, or ranks otherwise, has to be mended.
    assert row.said or row.script == _RANKS


@pytest.mark.slow
def test_what_the_script_makes_of_them(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    rng = np.random.default_rng(0)
    one = tile_records.make_record(rng, 'one', nodes=1, configs=6, is_test=True)
    tile_records.write_split(tmp_path / 'data' / 'test', [one])
    output, paths = tmp_path / 'out.json', [_write(tmp_path, name) for name in _ROWS]
    process = elsewhere.start(
        ['judge_hand_ins.py', tmp_path / 'data', output, *paths],
        path=[elsewhere.write_published_tree(tmp_path / 'tree')],
    )
    elsewhere.finish(process)
    made = json.loads(output.read_text())
    expected = {str(path): row.script for path, row in zip(paths, _ROWS.values())}
    assert {path: what.partition(':')[0] for path, what in made.items()} == expected


def test_a_module_that_only_the_published_tree_has(tmp_path, capsys):
    path = tmp_path / 'models.py'
    path.write_text(f'from tpu_graphs.baselines.tiles import metrics\n{_BASE}')
    assert commands.run('check', [str(path)]) == 1
    printed = capsys.readouterr()
    assert 'FIX' not in printed.out and 'verdict' not in printed.out
    assert 'tpu_graphs.baselines.tiles.metrics' in printed.err
    assert '--published' in printed.err


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
""")
    assert commands.run('check', [f'{path}:Twice']) == 1
    [wrong] = [x for x in capsys.readouterr().out.splitlines() if x[:3] == 'FIX']
    assert 'kernel:0' in wrong and 'attribute' in wrong
