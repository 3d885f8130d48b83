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
from tpugraphs.api import Ranker
from tpugraphs.api import Run
from tpugraphs.api import hlo_module
from tpugraphs.api import load
from tpugraphs.api import load_program
from tpugraphs.api import runs
from tpugraphs.api import train
from tpugraphs.api import tune
from tpugraphs.callbacks import Callback
from tpugraphs.callbacks import Training
from tpugraphs.catalogue import Catalogue
from tpugraphs.catalogue import losses
from tpugraphs.catalogue import models
from tpugraphs.data import Records
from tpugraphs.data import open_records
from tpugraphs.data import read_program
from tpugraphs.results import Ranked
from tpugraphs.results import Ranking
from tpugraphs.results import Runs

__version__ = '0.1.0'
open = open_records
# Without `open`: `from tpugraphs import *` leaves Python its own.
__all__ = [
    'Callback',
    'Catalogue',
    'Ranked',
    'Ranker',
    'Ranking',
    'Records',
    'Run',
    'Runs',
    'Training',
    'hlo_module',
    'load',
    'load_program',
    'losses',
    'models',
    'open_records',
    'read_program',
    'runs',
    'train',
    'tune',
]
