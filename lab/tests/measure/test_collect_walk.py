"""The files that `collect` passes in the process that starts the worker."""

import numpy as np
import pytest

from lab.tests.helpers import measured_programs
from tests import test_walks as walks
import tpugraphs_lab
from tpugraphs_lab.measure import collection
from tpugraphs_lab.measure import collection_folder
from tpugraphs_lab.measure.clock import session
from tpugraphs_lab.measure.clock import timing


@pytest.fixture(name='program')
def _program(tmp_path, monkeypatch):
    """A program to measure, which takes 2 ms, and 1 ms in any other configuration."""

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
def test_collect(program, tmp_path, monkeypatch):
    lab = f'{tpugraphs_lab.__path__[0]}/'
    monkeypatch.setattr(walks, '_PACKAGES', (*walks._PACKAGES, lab))

    def collect(name):
        options = collection_folder.CollectionOptions(
            output=str(tmp_path / name), configs=4, passes=(2, 2)
        )
        collection.collect([program], options)

    collect('first')  # imports what is imported late
    walk = walks._Walk(lambda: collect('second'))
    walk.assert_at_most(files=40, packages=8, returns=19)
