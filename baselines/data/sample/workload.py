"""What a simulated kernel does per tile, read off its HLO graph.

A `Workload` is made from the computations alone: parameters of the entry are
read from HBM, results are written there, every instruction of the called
fusions costs vector or matrix operations.  `runtime_ns` puts it through the
formulas of `tpu`.
"""

from typing import Dict, List, Sequence, Tuple

import numpy as np

from baselines.data.sample import tpu
from baselines.data.sample.hlo import Computation, Instruction, Tensor
from baselines.data.sample.tiles import Space

