"""What `import tpugraphs` offers: runs, data, rankings, and their results."""

from baselines.core import starting

__getattr__ = starting.import_on_use(__name__)
