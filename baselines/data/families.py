"""Graph ids -> programs, and the families that programs belong to.

inception_v3_batch_128_train_0a1b2c3d           a kernel's graph id
inception_v3_batch_128_train                    its program
inception_v3_train                              without its batch size
inception                                       the family

Collections have many variants of some architectures and one of others: drawing graphs
evenly draws families unevenly.
"""

from collections.abc import Sequence
import itertools
import re

import numpy as np

# batch_128, batch_size_16, batch128.
_BATCH = re.compile(r'[_.]batch(_size)?_?\d+(?=[_.]|$)')
_SIZES = frozenset(
    'batch size tiny mini small medium base large xlarge xxlarge huge narrow wide '
    'deep tall few many'.split()
)


def find_program(graph_id: str) -> str:
    """Returns a kernel's program: its graph id without the last `_<hash>`."""
    return graph_id.rpartition('_')[0] or graph_id


def remove_batch_size(program: str) -> str:
    """Returns a program's name without its batch size.

    A batch size is the word `batch`, or `batch_size`, followed by a number:
    `bert_batch_24_2x2` becomes `bert_2x2`; `bert_dynamic_batch_size` stays.
    """
    return _BATCH.sub('', program)


def find_family(program: str) -> str:
    """Returns a program's name without its sizes.

    The name is split at `_` and `.` into words.  The first word is cut at its first
    digit; further words are kept up to the first one with a digit.  Words of size
    (small, base, large, wide, batch, ...) are left out.  If no word is left, the
    family is the program itself.

        resnet50.4x4.fp16                resnet
        mlperf_bert_batch_24_2x2         mlperf_bert
        albert_en_base_batch_size_16     albert_en
        tf2_bert_pretrain                tf_bert_pretrain
    """
    first, *others = re.split(r'[_.]', program)
    whole = itertools.takewhile(lambda word: not re.search(r'\d', word), others)
    words = [re.split(r'\d', first)[0], *whole]
    kept = [word for word in words if word and word not in _SIZES]
    return '_'.join(kept) or program


def compute_weights(names: Sequence[str], temperature: float) -> np.ndarray:
    """Returns how often to draw each graph: float64 [n], with a mean of 1.

    A family of k graphs is drawn with a probability proportional to k ** temperature:
    at 1 all graphs alike, at 0 all families alike.  The graphs of a family are alike.

    Args:
        names: the families of the n graphs.
        temperature: from 0 to 1.
    """
    _, family_of, sizes = np.unique(names, return_inverse=True, return_counts=True)
    of_graphs = (sizes ** (temperature - 1.0))[family_of]  # [families] -> [n]
    return of_graphs / of_graphs.mean()


def draw_graphs(rng: np.random.Generator, expected: np.ndarray) -> np.ndarray:
    """Draws as many graphs as there are, in random order: int64 [n].

    A graph that is expected 1.3 times is drawn once or twice, 1.3 times on average.
    This is systematic sampling: each graph is an interval of that length on a line, and
    the points u, u + 1, u + 2, ..., with a random u from 0 to 1, choose the graphs.

    Args:
        rng: the source of randomness; the same state gives the same order.
        expected: float64 [n], how often to draw each graph, with a mean of 1.
    """
    order = rng.permutation(len(expected))
    if not np.ptp(expected):  # each once
        return order
    ends = np.floor(np.cumsum(expected[order]) + rng.random())  # [n]
    ends[-1] = len(expected)  # but for rounding it is
    # Points of the line in each graph's interval.
    times = np.diff(ends, prepend=0).astype(np.int64)
    return rng.permutation(np.repeat(order, times))
