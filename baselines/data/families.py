"""Graph ids -> programs, and the families that programs belong to.

inception_v3_batch_128_train_0a1b2c3d           a kernel's graph id
inception_v3_batch_128_train                    its program
inception_v3_train                              without its batch size
inception                                       the family
"""

import itertools
import re

# batch_128, batch_size_16, batch128.
_BATCH = re.compile(r'[_.]batch(_size)?_?\d+(?=[_.]|$)')
_SIZES = frozenset(
    'batch size tiny mini small medium base large xlarge xxlarge huge narrow wide '
    'deep tall few many'.split()
)


def program_of_kernel(graph_id: str) -> str:
    """Returns a kernel's program: its graph id without the last `_<hash>`."""
    return graph_id.rpartition('_')[0] or graph_id


def without_batch(program: str) -> str:
    """Returns a program's name without its batch size.

    A batch size is the word `batch`, or `batch_size`, followed by a number:
    `bert_batch_24_2x2` becomes `bert_2x2`; `bert_dynamic_batch_size` stays.
    """
    return _BATCH.sub('', program)


def family(program: str) -> str:
    """Returns a program's name with its sizes taken off.

    The name is cut at `_` and `.` into words.  The first word counts without
    its digits and what follows them; further words count until one has a digit.
    Of these, words of size (small, base, large, wide, batch, ...) are left out.
    Where nothing is left, the family is the program itself.

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
