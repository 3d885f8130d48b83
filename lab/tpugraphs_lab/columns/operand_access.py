"""How the rounds of a tile go through the operands of a kernel, as columns.

`element_tiles` see the output, what is reduced and the largest operand; these follow a
tile through all nodes (`node_tiles`) to every operand.  Shares are of the
bytes of operands that a round reads:

    turns         share of operands whose dimensions, of those above 1 in their tile,
                  come in another order than the output's
    moved         1 + bytes that all rounds read
    set           1 + bytes of the tiles of operands and output: a round's working set
    work          (1 + operations of all rounds) / (1 + those of the untiled kernel):
                  what windows, joined parts and clamped tiles compute again
    operations    (1 + operations) / elements of the output; an exponential counts ten
    run           elements of operands that lie together, a mean by bytes

and of the innermost loop of a tile, over the last dimension that is not 1, once of the
output (`output`) and once of what is reduced (`reduced`):

    inner         its rounds
    tail_8, tail_32  the share of them that does not fill a vector of 8, or four at a
                  time, as LLVM unrolls loops: these elements go one by one
    jumps         share of operands whose neighbours along it do not lie side by side
    stays         share of operands that are the same all along it
    splits        share of operands of which it is several dimensions: each element's
                  place takes divisions
    fast          whether it is the array's fastest dimension above 1

Columns that end in `change` are less their value of the untiled kernel.  `moved`,
`set`, `work`, `operations`, `run` and `inner` are natural logarithms.
"""

import numpy as np

from baselines.features import tiling
from baselines.hlo import schema
from tpugraphs_lab.columns import node_groups
from tpugraphs_lab.columns import node_tiles

_LOOP = ('inner', 'tail_8', 'tail_32', 'jumps', 'stays', 'splits', 'fast')
_OWN = (
    *('turns', 'moved', 'set', 'work', 'operations', 'run'),
    *(f'{loop}_{name}' for loop in ('output', 'reduced') for name in _LOOP),
)
_CHANGING = (  # of `_OWN`, less their value of the untiled kernel
    *('turns', 'moved', 'run'),
    *(
        f'{loop}_{name}'
        for loop in ('output', 'reduced')
        for name in ('tail_32', 'jumps', 'stays', 'splits')
    ),
)
_RANK = schema.RANK
_VECTORS = (8, 32)
_CHANGED = [_OWN.index(name) for name in _CHANGING]


class OperandAccess:
    """The columns of a split's configurations.

    Args:
        groups: the groups of the kernels' nodes.
    """

    names = (
        *(f'exact_access_{name}' for name in _OWN),
        *(f'exact_access_{name}_change' for name in _CHANGING),
    )

    def __init__(self, groups: node_groups.NodeGroups):
        self._groups, self._fastest = groups, groups.fastest
        loops = np.arange(2 * _RANK)
        self._follows = (groups.source[..., np.newaxis] == loops).any(axis=2)
        kernels = np.arange(len(groups.whole))
        untiled = self._own(kernels, groups.cut(kernels, groups.whole))
        self._untiled = untiled[:, _CHANGED]

    def __call__(self, kernels: np.ndarray, cut: node_groups.Cut) -> np.ndarray:
        """Computes the columns of cut kernels: float32 [rows, len(names)]."""
        own = self._own(kernels, cut)
        change = own[:, _CHANGED] - self._untiled[kernels]
        return np.concatenate([own, change], axis=1)

    def _own(self, kernels: np.ndarray, cut: node_groups.Cut) -> np.ndarray:
        """Computes the columns `_OWN`: float32 [rows, len(_OWN)]."""
        groups, tile, part = self._groups, cut.tile, cut.part
        whole, source, size = (
            values[kernels] for values in (groups.whole, groups.source, groups.size)
        )
        bytes_ = groups.bytes[kernels] * cut.elements  # [rows, 8]
        read = bytes_.sum(axis=1)
        shares = bytes_ / np.maximum(read, 1e-9)[:, np.newaxis]
        work = groups.work(kernels, cut)
        whole_work = (groups.operations[kernels] * size.prod(axis=2)).sum(axis=1)
        output = tiling.multiply(np.maximum(whole[:, :_RANK], 1))
        written = tiling.multiply(tile[:, :_RANK]) * groups.result_width[kernels]
        # Elements are contiguous along a dimension if all faster ones are whole: `kept`
        # [rows, 8, 5] is that for dimensions 0 to 4; dimension 5 always counts.
        kept = np.cumprod(~cut.is_cut[..., :0:-1], axis=2)[..., ::-1]
        run = np.log(part[..., -1]) + (np.log(part[..., :-1]) * kept).sum(axis=2)
        # The output's dimension behind each of an operand's, of those above 1.
        seen = np.where((part > 1) & (source < node_tiles.WHOLE), source, -1)
        turned = (seen >= 0) & (seen < np.maximum.accumulate(seen, axis=2))
        columns = [
            (shares * turned.any(axis=2)).sum(axis=1),
            np.log1p(read * cut.rounds),
            np.log1p(read + written),
            np.log1p(work) - np.log1p(whole_work),
            np.log1p(whole_work) - np.log(output),
            (shares * run).sum(axis=1),
        ]
        # The innermost loop over the output, then over what is reduced: [rows] each,
        # `moves` and the masks [rows, 8].
        for first in (0, _RANK):
            sizes = tile[:, first : first + _RANK]
            exists = (sizes > 1).any(axis=1)
            inner = node_groups.last_above_1(sizes)
            length = np.take_along_axis(sizes, inner[:, np.newaxis], axis=1)[:, 0]
            loop = (inner + first)[:, np.newaxis, np.newaxis]
            moves = np.take_along_axis(self._follows[kernels], loop, axis=2)[..., 0]
            moves &= exists[:, np.newaxis]
            jumps = moves & (self._fastest[kernels] != loop[..., 0])
            divided = (seen == loop).sum(axis=2) > 1
            of_bytes = [jumps, ~moves, divided & exists[:, np.newaxis]]
            columns += [
                np.log(length),
                *(length % vector / length for vector in _VECTORS),
                *((shares * mask).sum(axis=1) for mask in of_bytes),
                exists
                & (inner == node_groups.last_above_1(whole[:, first : first + _RANK])),
            ]
        return np.stack(columns, axis=1).astype(np.float32)
