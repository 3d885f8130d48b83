"""Checks a hand-in for a course: the contract of a model, and a grader's run.

importable        what a models.py may import there
conformance       the contract of a model, rule by rule
grading           models.py, a model directory and its run file, as the script uses them
published_script  the same by the published code itself, in a copy of a clone
verdict           the lines of the report, and the last one
"""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
