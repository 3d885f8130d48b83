"""Every layout model in the registry does what a layout model must do."""

import dataclasses

import pytest

from baselines.core import registry
from baselines.layout import scoring
from tests.helpers import conformance
from tests.helpers import layout_programs


class LayoutTask(conformance.Task):
    """Small programs with random edges."""

    num_ops = 10

    def models(self):
        return registry.find_models('layout')

    def make_pieces(self):
        def program(seed, **sizes):
            made = layout_programs.random_program(
                seed, configs=conformance.NUM_CONFIGS, **sizes
            )
            # From 0 to 1, as scaled layouts are.
            return dataclasses.replace(made, vectors=50 * made.vectors)

        return {
            'ordinary': program(0, nodes=12, configurable=4),
            'repeated_edges': program(1, nodes=6, configurable=6, edges=30),
            'no_edges': program(2, nodes=5, configurable=3, edges=0),
        }

    def merged(self, pieces):
        return layout_programs.merge(pieces, range(pieces[0].num_configs))[0]

    def choose(self, piece, configs):
        configs = list(configs)
        return dataclasses.replace(
            piece, group=piece.group[configs], runtimes=piece.runtimes[configs]
        )


@pytest.fixture(scope='module', name='task')
def _task(tmp_path_factory):
    return LayoutTask(tmp_path_factory.mktemp('layout_models'))


@pytest.mark.parametrize('name', conformance.parameters(registry.find_models('layout')))
class TestLayoutModels(conformance.ModelSuite):
    @pytest.mark.slow
    def test_in_slices_as_whole(self, task, name):
        if name not in task.representatives:
            pytest.skip('compiling takes a second: once for a file of models')
        model = task.shared(name)
        # One for all, as it is compiled once for all sizes.
        score = scoring.LayoutScorer(model, memory_budget=1).score
        for piece in task.pieces.values():
            whole = model.forward(task.merged([piece]), piece.num_configs)
            conformance.assert_close(
                score(piece), whole.numpy()[0], task.rounding(name)
            )
