"""A file's content in words and tables."""

import collections
from typing import List, Optional, Sequence, Tuple

import numpy as np

from baselines.inspection import content as show_content

_BAR = 30
_TOP_OPCODES = 15
_MAX_ROWS = 100


def describe(content: show_content.Content) -> str:
    """Returns everything about one graph, in lines."""
    lines = [f'{content.name} ({content.kind})']
    if content.opcodes or not content.problem:
        lines.append(
            f'  graph           {len(content.opcodes):,} nodes, '
            f'{len(content.edges):,} edges, {content.feature_count} features '
            f'per node{content.variant and f" ({content.variant})"}'
        )
        lines += _histogram(content.opcodes)
    if any(content.repeated):
        same, *around = [f'{100 * share:.0f} %' for share in content.repeated]
        hops = ', '.join(f'{share} to {hop}' for hop, share in enumerate(around, 1))
        lines += [
            f'  repeats         {same} of nodes equal an earlier one; with all '
            'around them',
            f'                  {hops} hops',
        ]
    if content.problem:
        lines.append(f'  configurations  none usable: {content.problem}')
    if content.config_rows is not None:
        lines += _configurations(content)
        lines += _runtimes(content)
    return '\n'.join(lines)


def table(contents: Sequence[show_content.Content]) -> str:
    """Returns a line for each graph of a file, and the opcodes of all."""
    width = max(len(c.name) for c in contents[:_MAX_ROWS])
    lines = [
        f'{"module":<{width}} {"nodes":>7} {"edges":>7} {"configs":>8} '
        f'{"repeated":>8} {"dropped":>7} {"fastest":>10} {"default":>7} '
        f'{"slowest":>7}'
    ]
    for content in contents[:_MAX_ROWS]:
        start = (
            f'{content.name:<{width}} {len(content.opcodes):>7,} '
            f'{len(content.edges):>7,} '
        )
        if content.config_rows is None:
            lines.append(f'{start}  {content.problem}')
            continue
        _, repeated, _ = duplicates(content)
        fastest = max(int(content.runtimes.min()), 1)
        default = '-'
        if content.default:
            default = f'{content.default / fastest:.2f}x'
        lines.append(
            f'{start}{len(content.runtimes):>8,} {repeated:>8,} '
            f'{content.dropped:>7,} {duration(fastest):>10} {default:>7} '
            f'{content.runtimes.max() / fastest:>6.2f}x'
        )
    if len(contents) > _MAX_ROWS:
        lines.append(f'... and {len(contents) - _MAX_ROWS:,} more modules')
    everything = [opcode for c in contents for opcode in c.opcodes]
    configs = sum(len(c.runtimes) for c in contents)
    lines.append(
        f'{len(contents):,} modules, {len(everything):,} nodes, '
        f'{configs:,} configurations'
    )
    return '\n'.join(lines + _histogram(everything))


def duplicates(content: show_content.Content) -> Tuple[int, int, Optional[float]]:
    """Counts configurations with the same features.

    Args:
        content: with configurations.

    Returns:
        The number of distinct configurations; how many repeat an earlier one;
        the largest ratio of runtimes between equal ones (None if not known).
    """
    rows = np.ascontiguousarray(content.config_rows)
    if not rows.shape[1]:
        groups = np.zeros(len(rows), np.int64)
    else:
        keys = rows.view(np.dtype((np.void, rows.strides[0]))).ravel()
        groups = np.unique(keys, return_inverse=True)[1]
    distinct = int(groups.max()) + 1
    repeated = len(rows) - distinct
    if not repeated or not content.runtimes.all():
        return distinct, repeated, None
    fastest = np.full(distinct, np.iinfo(np.int64).max)
    slowest = np.zeros(distinct, np.int64)
    np.minimum.at(fastest, groups, content.runtimes)
    np.maximum.at(slowest, groups, content.runtimes)
    return distinct, repeated, float((slowest / fastest).max())


def duration(nanoseconds: float) -> str:
    """Returns a time with a unit of fitting size, to four digits."""
    for unit, size in (('s', 1e9), ('ms', 1e6), ('us', 1e3)):
        if nanoseconds >= size:
            return f'{nanoseconds / size:.4g} {unit}'
    return f'{nanoseconds:.0f} ns'


def _histogram(names: Sequence[str]) -> List[str]:
    counts = collections.Counter(names).most_common()
    lines = []
    for name, count in counts[:_TOP_OPCODES]:
        bar = '#' * max(1, round(_BAR * count / counts[0][1]))
        # Raw text may hold control characters.
        shown = name if name.isprintable() else repr(name)
        lines.append(f'    {shown or "(empty)":<24} {count:>7,} {bar}')
    if len(counts) > _TOP_OPCODES:
        rest = sum(count for _, count in counts[_TOP_OPCODES:])
        lines.append(f'    {f"{len(counts) - _TOP_OPCODES} others":<24} {rest:>7,}')
    return lines


def _configurations(content: show_content.Content) -> List[str]:
    distinct, repeated, ratio = duplicates(content)
    of_nodes = ''
    if content.configurable:
        of_nodes = f' of {content.configurable:,} configurable nodes'
    dropped = f'; {content.dropped:,} runs dropped' if content.dropped else ''
    lines = [
        f'  configurations  {len(content.runtimes):,}{of_nodes}, '
        f'{distinct:,} distinct{dropped}'
    ]
    if repeated:
        noise = ''
        if ratio is not None:
            noise = (
                ', whose runtimes differ by up to '
                f"{100 * (ratio - 1):.2g} % from their equals'"
            )
        lines.append(f'                  {repeated:,} repeat another{noise}')
    return lines


def _runtimes(content: show_content.Content) -> List[str]:
    runtimes = content.runtimes
    if not runtimes.any():
        return ['  runtime         not published (all 0)']
    fastest = max(int(runtimes.min()), 1)
    median = float(np.median(runtimes))
    lines = [f'  runtime         fastest {duration(fastest)}']
    for name, value in (
        ('default', content.default),
        ('median', median),
        ('slowest', int(runtimes.max())),
    ):
        if value is not None:
            lines.append(
                f'                  {name} {duration(value)} '
                f'({value / fastest:.3g} x the fastest)'
            )
    return lines
