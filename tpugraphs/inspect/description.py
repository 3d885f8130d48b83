"""Describes graphs and their configurations in lines and tables."""

import collections
from collections.abc import Sequence

import numpy as np

from baselines.core import text
from tpugraphs.inspect import contents

_BAR = 30  # characters of the longest bar of a histogram
_TOP_OPCODES = 15
_MAX_ROWS = 100
_HEAD = 'module nodes edges configs repeated dropped fastest default slowest'.split()


def describe_graph(content: contents.Content) -> str:
    """Describes one graph and its configurations, in lines."""
    lines = [f'{text.printable(content.name)} ({content.kind})']
    if content.opcodes or not content.problem:
        lines.append(
            f'  graph           {text.count(len(content.opcodes), "node")}, '
            f'{text.count(len(content.edges), "edge")}, {content.feature_count} '
            f'features per node{content.variant and f" ({content.variant})"}'
        )
        lines += _draw_histogram(content.opcodes)
    if content.problem:
        lines.append(f'  configurations  none usable: {content.problem}')
    if content.config_groups is not None:
        lines += _describe_configs(content, content.config_groups)
        lines += _describe_runtimes(content)
    return '\n'.join(lines)


def graph_to_json(content: contents.Content) -> text.JsonObject:
    """Describes one graph and its configurations, as `tpugraphs show --json` does."""
    described: text.JsonObject = {
        'name': content.name,
        'kind': content.kind,
        'nodes': len(content.opcodes),
        'edges': len(content.edges),
        'opcodes': dict(collections.Counter(content.opcodes).most_common()),
        'configurations': None,
        'problem': content.problem,
    }
    if content.config_groups is not None:
        runtimes = content.runtimes
        distinct, repeated, _ = count_repeats(content.config_groups, runtimes)
        timed = bool(runtimes.any())
        described['configurations'] = {
            'count': len(runtimes),
            'distinct': distinct,
            'repeated': repeated,
            'dropped': content.dropped,
            'fastest_ns': int(runtimes.min()) if timed else None,
            'default_ns': content.default if timed else None,
            'median_ns': float(np.median(runtimes)) if timed else None,
            'slowest_ns': int(runtimes.max()) if timed else None,
        }
    return described


def list_graphs(graphs: Sequence[contents.Content]) -> str:
    """Lists the graphs of a file, one to a line, and counts the opcodes of all."""
    shown = graphs[:_MAX_ROWS]
    lines = text.format_table([_HEAD, *map(_format_row, shown)])
    for number, content in enumerate(shown, 1):
        if content.config_groups is None:
            lines[number] += f'  {content.problem}'
    if len(graphs) > _MAX_ROWS:
        lines.append(f'... and {text.count(len(graphs) - _MAX_ROWS, "more module")}')
    opcodes = [opcode for graph in graphs for opcode in graph.opcodes]
    configs = sum(len(graph.runtimes) for graph in graphs)
    lines.append(
        f'{text.count(len(graphs), "module")}, {text.count(len(opcodes), "node")}, '
        f'{text.count(configs, "configuration")}'
    )
    return '\n'.join(lines + _draw_histogram(opcodes))


def _format_row(content: contents.Content) -> list[str]:
    """Returns the cells of a graph, by the columns of `_HEAD`."""
    start = [content.name, f'{len(content.opcodes):,}', f'{len(content.edges):,}']
    if content.config_groups is None:
        return start + [''] * (len(_HEAD) - len(start))
    _, repeated, _ = count_repeats(content.config_groups, content.runtimes)
    fastest = max(int(content.runtimes.min()), 1)
    return [
        *start,
        f'{len(content.runtimes):,}',
        f'{repeated:,}',
        f'{content.dropped:,}',
        text.format_duration(fastest),
        f'{content.default / fastest:.2f}x' if content.default else '-',
        f'{content.runtimes.max() / fastest:.2f}x',
    ]


def count_repeats(
    groups: np.ndarray, runtimes: np.ndarray
) -> tuple[int, int, float | None]:
    """Counts configurations with equal features.

    Args:
        groups: int [c], equal numbers for configurations with equal features.
        runtimes: int64 [c], nanoseconds; all 0 where not published.

    Returns:
        The number of distinct configurations; how many repeat an earlier one;
        the largest ratio of runtimes between equal ones (None without any).
    """
    distinct, groups = np.unique(groups, return_inverse=True)
    repeated = len(groups) - len(distinct)
    if not repeated or not runtimes.all():
        return len(distinct), repeated, None
    # [distinct], the bounds of the runtimes of equal configurations.
    fastest = np.full(len(distinct), np.inf)
    slowest = np.zeros(len(distinct))
    np.minimum.at(fastest, groups, runtimes)
    np.maximum.at(slowest, groups, runtimes)
    return len(distinct), repeated, float((slowest / fastest).max())


def _draw_histogram(names: Sequence[str]) -> list[str]:
    """Draws a histogram of the most common names, as lines of text."""
    counts = collections.Counter(names).most_common()
    rows = []
    for name, count in counts[:_TOP_OPCODES]:
        bar = '#' * max(1, round(_BAR * count / counts[0][1]))
        rows.append([name or '(empty)', f'{count:,}', bar])
    if len(counts) > _TOP_OPCODES:
        rest = sum(count for _, count in counts[_TOP_OPCODES:])
        rows.append([text.count(len(counts) - _TOP_OPCODES, 'other'), f'{rest:,}', ''])
    return text.format_table(rows, '<><', indent=4) if rows else []


def _describe_configs(content: contents.Content, groups: np.ndarray) -> list[str]:
    """Describes how many configurations there are, and how many repeat another."""
    distinct, repeated, ratio = count_repeats(groups, content.runtimes)
    nodes = content.configurable
    of_nodes = f' of {text.count(nodes, "configurable node")}' if nodes else ''
    dropped = ''
    if content.dropped:
        dropped = f'; {text.count(content.dropped, "run")} dropped'
    lines = [
        f'  configurations  {len(content.runtimes):,}{of_nodes}, '
        f'{distinct:,} distinct{dropped}'
    ]
    if repeated:
        lines.append(f'                  {repeated:,} repeat another')
    if ratio is not None:
        apart = f"{100 * (ratio - 1):.2g} % from their equals'"
        lines[-1] += f', whose runtimes differ by up to {apart}'
    return lines


def _describe_runtimes(content: contents.Content) -> list[str]:
    """Describes the fastest, default, median and slowest runtimes."""
    runtimes = content.runtimes
    if not runtimes.any():
        return ['  runtime         not published (all 0)']
    fastest = max(int(runtimes.min()), 1)
    marks = [('median', float(np.median(runtimes))), ('slowest', int(runtimes.max()))]
    if content.default is not None:
        marks.insert(0, ('default', content.default))
    return [
        f'  runtime         fastest {text.format_duration(fastest)}',
        *(
            f'                  {name} {text.format_duration(value)} '
            f'({value / fastest:.3g} x the fastest)'
            for name, value in marks
        ),
    ]
