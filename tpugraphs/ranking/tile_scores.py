"""Scores tile configurations with a finished run, or with the estimate."""

from __future__ import annotations

import sys

import numpy as np

from baselines.core import files
from baselines.core import starting
from baselines.core import text
from baselines.data import hardware
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.runs import finding
from baselines.scoring import graph_source
from baselines.scoring import loading
from tpugraphs.clock import machine
from tpugraphs.extract import outcomes
from tpugraphs.ranking import ranking
from tpugraphs.tuning import program_search

# The hardware of the published data, and of the estimate's formulas.
_PUBLISHED = 'TPU v3'


def load(name: str, platform: str) -> program_search.ScoringModel:
    """Loads a model for `program_search.tune`.

    Prints a warning if the model's data were measured on other hardware.

    Args:
        name: of the run, as `--dir` takes it, or 'estimate'.

    Raises:
        ValueError: the model cannot be used, or does not rank tiles.
    """
    options = graph_source.SourceOptions(task=reading.TILE)
    predictor = loading.load_predictor(name, options)
    if predictor.collection.task != reading.TILE:
        raise ValueError(f'{name}: a model of layouts; give one of tiles')
    run = predictor.run
    measured_on = run.info.get('measured_on', '') if run else _PUBLISHED
    warning = other_hardware(name, measured_on, platform)
    if warning:
        print(warning, file=sys.stderr)

    def score(module: protos.ModuleTuningData) -> np.ndarray:
        """Returns the scores of a module's runs, lower = faster, in their order."""
        outcome = outcomes.Outcome()
        modules = [(module.module.name, module)]
        ranked = list(ranking.rank_modules(modules, predictor, outcome))
        for problem in (*outcome.failed, *outcome.skipped):
            raise ValueError(problem)
        scores = np.zeros(len(module.runs))
        # A ranking is sorted; the caller's order is that of the runs.
        scores[ranked[0].run_index] = ranked[0].scores
        return scores

    shown = 'the estimate' if name == finding.ESTIMATE else files.shown(name)
    return program_search.ScoringModel(shown, score)


def pretrained(platform: str) -> program_search.ScoringModel | None:
    """Loads the model that ships, and prints a note about it.

    Returns:
        None, with a note, where LightGBM is missing or the platform is no CPU.
    """
    if platform != 'cpu':
        text.note('no model: the pretrained one is for a CPU; --dir names one of yours')
        return None
    if not starting.has_lightgbm():
        text.note('no model: the pretrained one needs LightGBM: pip install lightgbm')
        return None
    text.note(finding.about_pretrained())
    return load(finding.PRETRAINED, platform)


def other_hardware(name: str, measured_on: str, platform: str) -> str:
    """Returns a warning if a model's data were measured on another processor.

    Args:
        platform: of the measurements now, 'cpu' or 'gpu'.
    """
    here = hardware.GPU if platform == 'gpu' else machine.describe(-1)['cpu']
    if measured_on == here:
        return ''
    hardware_of = f'is for {text.printable(measured_on)}'
    if not measured_on:
        hardware_of = f'does not name its hardware (published data: {_PUBLISHED})'
    return (
        f'warning: {name} {hardware_of}, and this is {here}; its proposals may be no '
        'better than chance'
    )
