"""TpuGraphs from Python: load a run, train one, look at data, rank configurations.

    import tpugraphs

    run = tpugraphs.load('latest')
    for kernel, order, scores in run.rank('kernels.pb'):
        print(kernel, order[:5])

docs/guide/python.md describes every name here.  TensorFlow is imported when it is
needed, not before; import this package first, for it chooses the Keras that TF-GNN
needs.
"""

import baselines  # noqa: F401  chooses Keras before TensorFlow is imported
from tpugraphs.api import Ranked
from tpugraphs.api import Ranker
from tpugraphs.api import Ranking
from tpugraphs.api import Run
from tpugraphs.api import hlo_module
from tpugraphs.api import load
from tpugraphs.api import runs
from tpugraphs.api import train
from tpugraphs.data import Records
from tpugraphs.data import open_records as open

__version__ = '0.1.0'
__all__ = [
    'Ranked',
    'Ranker',
    'Ranking',
    'Records',
    'Run',
    'hlo_module',
    'load',
    'open',
    'runs',
    'train',
]
