"""What a course asks of a hand-in: models that keep the contract, and a grader's run.

conformance   the contract of a model, rule by rule
grading       models.py, a model directory and its run file, as a grader uses them
"""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
