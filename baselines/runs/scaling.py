"""The scaling of features that a run file holds."""

from typing import NamedTuple

from baselines.core import text
from baselines.features import normalizer as normalizer_lib
from baselines.runs import run_files


class Scaling(NamedTuple):
    """How features are scaled, and the opcodes that a model knows: below `num_ops`."""

    normalizer: normalizer_lib.Normalizer
    num_ops: int


def stored(run: run_files.RunFile) -> Scaling | None:
    """Returns the scaling in a run file; None in published runs; raises ValueError."""
    info = run.info
    if 'normalizer' not in info:
        return None
    num_ops = info.get('num_ops')
    if not isinstance(num_ops, int) or not 0 < num_ops <= 1 << 16:
        raise ValueError(
            f'num_ops should be a number up to 65536, not {text.quoted(num_ops)}'
        )
    normalizer = normalizer_lib.Normalizer.from_json(info['normalizer'])
    return Scaling(normalizer, num_ops)
