"""What `import tpugraphs` offers: runs, data, rankings, and their results."""

from baselines.core import starting

__getattr__ = starting.submodules(__name__)
