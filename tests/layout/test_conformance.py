"""Every layout model in the registry does what a layout model must do."""

import dataclasses

import numpy as np
import pytest

from baselines.core import registry
from baselines.layout import scoring
from tests.helpers import conformance
from tests.helpers import elsewhere
from tests.helpers import layout_programs


class LayoutTask(conformance.Task):
    """Small programs with random edges."""

    num_ops = 10

    def models(self):
        return registry.models('layout')

    def make_pieces(self):
        def program(seed, **sizes):
            made = layout_programs.random_program(
                seed, configs=conformance.NUM_CONFIGS, **sizes
            )
            # From 0 to 1, as scaled layouts are.
            return dataclasses.replace(made, vectors=50 * made.vectors)

        return {
            'ordinary': program(0, nodes=12, configurable=4),
            'repeated_edges': program(1, nodes=6, configurable=2, edges=30),
            'no_edges': program(2, nodes=5, configurable=3, edges=0),
            'all_configurable': program(3, nodes=4, configurable=4),
        }

    def merged(self, pieces):
        return layout_programs.merged(pieces, range(pieces[0].num_configs))[0]

    def choose(self, piece, configs):
        configs = list(configs)
        return dataclasses.replace(
            piece, group=piece.group[configs], runtimes=piece.runtimes[configs]
        )


@pytest.fixture(scope='module', name='task')
def _task(tmp_path_factory):
    return LayoutTask(tmp_path_factory.mktemp('layout_models'))


@pytest.mark.slow
def test_a_process_without_our_code_reads_the_weights(task, tmp_path):
    """Of tiles, `tests/runs/test_portability.py` has the course's script read them."""
    folders = {name: tmp_path / name for name in conformance.distinct(task.models())}
    for name, folder in folders.items():
        # Without the calls, which take seconds to trace.
        task.shared(name).save(folder, include_optimizer=False, save_traces=False)
    elsewhere.finish(elsewhere.start(['load_models.py', tmp_path, *folders.values()]))
    for name in folders:
        variables = task.shared(name).trainable_variables
        with np.load(tmp_path / f'{name}.npz') as stored:
            assert len(stored) == len(variables)
            for number, variable in enumerate(variables):
                np.testing.assert_array_equal(stored[f'arr_{number}'], variable.numpy())


@pytest.mark.parametrize('name', conformance.parameters(registry.models('layout')))
class TestLayoutModels(conformance.ModelSuite):
    @pytest.mark.slow
    def test_in_slices_as_whole(self, task, name):
        if name not in task.models_of_new_layers:
            pytest.skip('compiling takes a second: once for a kind of layer')
        model = task.shared(name)
        # One for all, as it is compiled once for all sizes.
        score = scoring.LayoutScorer(model, memory_budget=1).score
        for piece in task.pieces.values():
            whole = model.forward(task.merged([piece]), piece.num_configs)
            conformance.assert_close(
                score(piece), whole.numpy()[0], task.rounding(name)
            )
