"""TpuGraphs from Python: load a run, train one, look at data, rank configurations.

    import tpugraphs

    run = tpugraphs.load('latest')
    for kernel, order, scores in run.rank('kernels.pb'):
        print(kernel, order[:5])

docs/api.md describes every name here.  TensorFlow is imported when it is needed,
not before; import this package first, for it chooses the Keras that TF-GNN needs.
"""

import baselines  # noqa: F401  chooses Keras before TensorFlow is imported
from tpugraphs.data import Records
from tpugraphs.data import open_records as open
from tpugraphs.runs import Ranked
from tpugraphs.runs import Ranker
from tpugraphs.runs import Ranking
from tpugraphs.runs import Run
from tpugraphs.runs import hlo_module
from tpugraphs.runs import load
from tpugraphs.runs import runs
from tpugraphs.runs import train

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
