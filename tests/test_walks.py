"""The files that a training step, a prediction, `rank` and `collect` pass.

Derived by profiling: of each walk every file of the packages whose code runs in this
process, in the order in which they are entered; docs/architecture.md has them.
Foundations (`baselines/core`) and data (the packed split, the table of columns, the
generated messages) are left out.
"""

import itertools
import re
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

from baselines import config
from baselines.tasks import lookup
from baselines.training import loop
from baselines.training import losses
from baselines.training import task_data
from tests.helpers import made_runs
from tests.helpers import measured_programs
from tests.helpers import places
from tests.helpers import tile_records
import tiles_gen_predictions_csv
from tpugraphs import commands
from tpugraphs_lab.measure import collection
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.measure.clock import session
from tpugraphs_lab.measure.clock import timing

_LEFT_OUT = (
    *('__init__.py', 'core/', 'config.py', 'data/packed/'),
    *('hlo/schema.py', 'hlo/protos.py'),
)
_DEPTH = len(places.ROOT.parts) + 1  # slashes before a path inside a package
_PACKAGES = tuple(f'{places.ROOT}/{name}/' for name in ('baselines', 'tpugraphs'))


def _walked(call):
    """Returns the files of the packages that a call passes, in order of entrance.

    The value is the number of frames in such files around the first entrance.
    """
    passed = {}

    def named(frame):
        path = frame.f_code.co_filename
        if not path.startswith(_PACKAGES):
            return ''
        path = path.split('/', _DEPTH)[-1]
        return '' if path.startswith(_LEFT_OUT) else path

    def enter(frame, event, unused_argument):
        # Bodies of modules run when they are imported, which is no part of a walk.
        if event != 'call' or frame.f_code.co_name == '<module>':
            return
        path = named(frame)
        if path and path not in passed:
            passed[path], outer = 0, frame.f_back
            while outer:
                passed[path] += bool(named(outer))
                outer = outer.f_back

    sys.setprofile(enter)
    try:
        call()
    finally:
        sys.setprofile(None)
    return passed


def _returns(stops):
    """Counts the returns to a package that was left already."""
    entered = [
        p for p, _ in itertools.groupby(stop.partition('/')[0] for stop in stops)
    ]
    return len(entered) - len(set(entered))


def _documented(beginning):
    """Returns the files in the paragraph of architecture.md that begins like this."""
    text = (places.ROOT / 'docs/architecture.md').read_text(encoding='utf-8')
    [paragraph] = [p for p in text.split('\n\n') if p.startswith(f'**{beginning}**')]
    return re.findall(r'`((?:\w+/)+(?:\w+\.py)?|command_line\.py)`', paragraph)


@pytest.mark.slow
def test_a_training_step_of_tiles(tmp_path):
    tile_records.write_splits(tmp_path / 'data')
    settings = config.TileConfig(
        data_root=str(tmp_path / 'data'),
        cache_dir=str(tmp_path / 'cache'),
        epochs=1,
        validate_batches=0,
    )
    data, task = task_data.open_data(settings), lookup.TASKS['tile']
    model = task.make_model('MLP', {}, '', 10, data.num_ops, data.normalizer)
    loss = losses.CombinedLoss(settings.losses, task.temperature)

    class Unused:
        def chosen(self, graphs, configs):
            return None

    trainer = loop.Trainer(model, loss, settings, Unused())
    tf.config.run_functions_eagerly(True)  # a compiled step hides what it is made of
    try:
        walked = _walked(lambda: trainer.fit(data))
    finally:
        tf.config.run_functions_eagerly(False)
    assert [*walked] == _documented('A training step of tiles')
    assert len(walked) <= 12


@pytest.mark.slow
def test_a_prediction_of_tiles(tmp_path):
    """The whole of `tiles_gen_predictions_csv.py`, with nothing packed yet."""
    rng = np.random.default_rng(0)
    tile_records.write_split(tmp_path / 'test', [tile_records.make_record(rng)])
    values = types.SimpleNamespace(
        dir=[made_runs.make_tile_run(tmp_path)],
        dirs=[],
        output=str(tmp_path / 'test.csv'),
        data_root=str(tmp_path),
    )

    def predict(cache):
        values.cache_dir = str(tmp_path / cache)
        assert tiles_gen_predictions_csv.main([''], values) == 0

    predict('first')  # imports what is imported late
    walked = _walked(lambda: predict('second'))
    assert [*walked] == _documented('A prediction of tiles')
    assert len(walked) <= 18
    assert len({path.partition('/')[0] for path in walked}) <= 8
    assert _returns(walked) <= 5


@pytest.mark.slow
def test_rank():
    """Up to the scores; the first work is to look at the bytes of the file."""
    kernels = str(places.ROOT / 'examples/kernels.pb')

    def rank():
        assert commands.run('rank', [kernels, '--dir=pretrained', '--top=0']) == 0

    rank()  # imports what is imported late
    walked = _walked(rank)
    files = itertools.takewhile(lambda p: p != 'evaluation/choices.py', walked)
    stops = [re.sub('^(hlo|features|data)/.*', r'\1/', path) for path in files]
    stops = [*dict.fromkeys(stops)]
    assert stops == _documented('`rank`')
    assert len(stops) <= 18 and _returns(stops) <= 5
    assert walked['hlo/forms.py'] <= 5


@pytest.fixture(name='program')
def _program(tmp_path, monkeypatch):
    """A program to measure, which takes 2 ms, and 1 ms in any other configuration."""
    pytest.importorskip('jaxlib', reason='jaxlib is not installed (extra [measure])')

    def measure(self, modules, inputs, seed, protocol, tolerance):
        default = np.full((protocol.most, 1), 2_000_000)
        # No two passes are equal, or the order of their times would be undefined.
        default = default + np.arange(protocol.most)[:, None]
        others = np.repeat(default // 2, len(modules) - 1, axis=1)
        others = others + 1000 * np.arange(len(modules) - 1)
        passes = np.concatenate([default, others], axis=1)
        return timing.Measured([*range(len(modules))], passes, passes[:, 0] + 1, {})

    monkeypatch.setattr(session.Session, 'measure', measure)
    module = measured_programs.pointwise(128, 64, opcode='exponential')
    return measured_programs.write(tmp_path / 'program.pb', module)


@pytest.mark.slow
def test_collect(program, tmp_path):
    options = collection_folder.CollectionOptions(
        output=str(tmp_path / 'out'), configs=4, passes=(2, 2)
    )
    walked = _walked(lambda: collection.collect([program], options))
    assert [*walked] == _documented('`collect`')
