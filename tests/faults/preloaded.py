"""What most commands import, for `calls`."""

import gc
import importlib

_MODULES = """
lightgbm
matplotlib.backends.backend_svg
matplotlib.figure
optuna
scipy.stats
tensorflow_gnn
baselines.runs.export
baselines.scoring.prediction
baselines.training.run_training
tests.faults.calls
tpugraphs.extract.extraction
tpugraphs.inspect.showing
tpugraphs.ranking.sources
tpugraphs.report.page
tpugraphs.run_reports
tpugraphs.sweep.trials
"""
for _name in _MODULES.split():
    importlib.import_module(_name)
# A collection would write to, and so copy, all memory that a call shares with this.
gc.freeze()
gc.set_threshold(50_000, 10, 10)
