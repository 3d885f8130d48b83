"""What most commands import, for `calls`."""

import importlib

_MODULES = """
lightgbm
matplotlib.backends.backend_svg
matplotlib.figure
scipy.stats
baselines.scoring.prediction
baselines.training.run_training
tests.faults.calls
tpugraphs.extract.extraction
tpugraphs.inspect.showing
tpugraphs.ranking.sources
tpugraphs.report.page
tpugraphs.run_reports
"""
for _name in _MODULES.split():
    importlib.import_module(_name)
