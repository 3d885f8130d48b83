"""Draws a kernel or program: its graph, and the distribution of its runtimes."""

import collections
import textwrap
from typing import Any

import numpy as np

from baselines import files
from baselines import text
from tpugraphs.inspect import contents
from tpugraphs.inspect import layers

MAX_NODES = 400
_RIGHT_HEIGHT = 4.0  # inches
_DPI = 110
_MAX_PIXELS = 16_000  # to a side; viewers give up not far above

_TICKS = (1, 2, 5, 10, 20, 50, 100, 1000, 10000)
_LINE = {'color': '#777777', 'linewidth': 0.8, 'zorder': 1}
_OUTLINE = {'edgecolor': '#555555', 'linewidth': 0.6}
_LABEL = {
    'ha': 'center',
    'va': 'center',
    'parse_math': False,
    'fontsize': 7,
    'zorder': 2,
}

# Kinds of work -> (fill colour, opcodes); the rest is elementwise.
_GROUPS = {
    'input': ('#d9d9d9', 'parameter constant iota infeed rng'),
    'contraction': ('#f4a582', 'convolution dot fft cholesky triangular-solve'),
    'reduction, sort': (
        '#fddbc7',
        'reduce reduce-window select-and-scatter sort all-reduce '
        'batch-norm-training batch-norm-inference batch-norm-grad',
    ),
    'data movement': (
        '#b8d8ec',
        'copy transpose reshape broadcast slice concatenate pad '
        'reverse gather scatter dynamic-slice dynamic-update-slice bitcast '
        'copy-start copy-done',
    ),
    'control, tuple': (
        '#d4c4e8',
        'tuple get-tuple-element while conditional call fusion '
        'custom-call outfeed after-all map',
    ),
    'elementwise': ('#d5ecc2', ''),
}
_GROUP_OF = {
    name: group for group, (_, names) in _GROUPS.items() for name in names.split()
}


def draw(content: contents.Content, path: str) -> None:
    """Draws a graph and its runtimes into a file.

    Up to MAX_NODES nodes the graph is drawn, data flowing down; of larger
    graphs the opcodes are counted.

    Args:
        content: the graph.
        path: the file; its ending tells the format (png, svg, pdf).

    Raises:
        ValueError: matplotlib does not know the format.
        OSError: the file cannot be written.
    """
    # matplotlib takes half a second to import.
    from matplotlib import figure
    from matplotlib.backends import backend_agg

    ending = path.rpartition('.')[2].lower()
    picture = figure.Figure(layout='constrained')
    canvas = backend_agg.FigureCanvasAgg(picture)
    if ending not in canvas.get_supported_filetypes():
        formats = ', '.join(sorted(canvas.get_supported_filetypes()))
        raise ValueError(f'{path}: pictures can be {formats}')
    drawn = 0 < len(content.opcodes) <= MAX_NODES
    drawing = _Drawing(content) if drawn else None
    width, height = drawing.size if drawing else (7.0, 5.0)
    height = max(height, _RIGHT_HEIGHT)
    right_width = 4.5 if content.runtimes.any() else 2.5
    picture.set_size_inches(width + right_width, height)
    heights = [_RIGHT_HEIGHT, max(height - _RIGHT_HEIGHT, 0.01)]
    grid = picture.add_gridspec(
        2, 2, width_ratios=[width, right_width], height_ratios=heights
    )
    left = picture.add_subplot(grid[:, 0])
    right = picture.add_subplot(grid[0, 1])
    if drawing:
        drawing.draw(left)
    else:
        _draw_opcodes(left, content)
    left.set_title(
        f'{content.name}\n{len(content.opcodes):,} nodes, {len(content.edges):,} edges',
        fontsize=10,
    )
    _draw_runtimes(right, content)
    dpi = min(_DPI, _MAX_PIXELS / max(picture.get_size_inches()))
    with files.write_atomically(path, 'wb') as stream:
        picture.savefig(stream, format=ending, dpi=dpi)


class _Drawing:
    """A graph with the positions of its nodes; `size` is in inches."""

    _ROW = 0.72  # inches from layer to layer
    _EDGE = 0.2  # from the middle of a box to its edge, in layers
    _LETTER = 0.068  # inches per letter of a label

    def __init__(self, content: contents.Content):
        self._labels = [
            _plain(opcode) + (f'\n{shape}' if shape not in ('', opcode) else '')
            for opcode, shape in zip(content.opcodes, content.shapes)
        ]
        self._groups = [
            _GROUP_OF.get(opcode, 'elementwise') for opcode in content.opcodes
        ]
        longest = [
            max(len(part) for part in label.split('\n')) for label in self._labels
        ]
        room = [self._LETTER * (letters + 2) / 2 + 0.06 for letters in longest]
        self._layer = layers.layers(len(room), content.edges)
        self._x, self._paths = layers.place(self._layer, content.edges, room)
        self._left = float((self._x - room).min())
        self._right = float((self._x + room).max())
        self.size = (
            max(4.0, self._right - self._left + 0.2),
            self._ROW * (int(self._layer.max()) + 1) + 1.4,
        )

    def draw(self, axes: Any) -> None:
        """Draws boxes, lines between them, and a legend of the colours."""
        for points in self._paths:
            # From the lower edge of a box to the upper edge of the next.
            points = points.copy()
            points[0, 1] += self._EDGE
            points[-1, 1] -= self._EDGE
            axes.plot(*points.T, solid_joinstyle='round', **_LINE)
        for label, group, x, y in zip(self._labels, self._groups, self._x, self._layer):
            box = {'boxstyle': 'round,pad=0.3', 'facecolor': _GROUPS[group][0]}
            axes.text(x, y, label, linespacing=1.1, bbox={**box, **_OUTLINE}, **_LABEL)
        axes.set_xlim(self._left - 0.1, self._right + 0.1)
        axes.set_ylim(int(self._layer.max()) + 0.6, -0.6)
        axes.set_axis_off()
        present = [g for g in _GROUPS if g in self._groups]
        for group in present:
            colour = _GROUPS[group][0]
            axes.scatter(
                [], [], marker='s', s=60, color=colour, label=group, **_OUTLINE
            )
        place = {'loc': 'upper center', 'bbox_to_anchor': (0.5, 0.0)}
        axes.legend(fontsize=7, ncols=min(3, len(present)), frameon=False, **place)


def _draw_opcodes(axes: Any, content: contents.Content) -> None:
    counts = collections.Counter(content.opcodes).most_common(20)
    names = [_plain(name) for name, _ in counts]
    lengths = [count for _, count in counts]
    groups = [_GROUP_OF.get(name, 'elementwise') for name, _ in counts]
    colours = [_GROUPS[group][0] for group in groups]
    axes.barh(range(len(counts)), lengths, color=colours, **_OUTLINE)
    axes.set_yticks(range(len(counts)), names, fontsize=8, parse_math=False)
    axes.invert_yaxis()
    axes.set_xlabel(
        f'nodes (graphs of more than {MAX_NODES} nodes are not drawn)', fontsize=8
    )
    axes.spines[['top', 'right']].set_visible(False)


def _draw_runtimes(axes: Any, content: contents.Content) -> None:
    runtimes = content.runtimes
    axes.set_title(f'{len(runtimes):,} configurations', fontsize=10)
    if not runtimes.any():
        why = content.problem or 'runtimes are not published'
        words = '\n'.join(textwrap.wrap(_plain(why), 40))
        axes.text(0.5, 0.5, words, **{**_LABEL, 'fontsize': 9})
        axes.set_axis_off()
        return
    fastest = max(int(runtimes.min()), 1)
    slowdown = runtimes / fastest
    wide = slowdown.max() > 4
    edges = np.linspace(1, max(slowdown.max(), 1 + 1e-6), 31)
    if wide:
        edges = np.geomspace(1, slowdown.max(), 31)
        axes.set_xscale('log')
        ticks = [t for t in _TICKS if t <= slowdown.max()]
        axes.set_xticks(ticks, [f'{t:g}' for t in ticks])
        axes.minorticks_off()
    else:
        axes.locator_params(axis='x', nbins=5)
    axes.locator_params(axis='y', integer=True)
    axes.hist(slowdown, bins=edges, color='#5b8db8', edgecolor='white', linewidth=0.4)
    marks = [('median', float(np.median(slowdown)), '#333333', '--')]
    if content.default:
        marks.insert(0, ('default', content.default / fastest, '#c0392b', '-'))
    for name, at, colour, style in marks:
        label = f'{name}, {at:.3g}'
        axes.axvline(at, color=colour, linewidth=1.2, linestyle=style, label=label)
    axes.legend(fontsize=8, frameon=False)
    axes.set_xlabel(f'runtime / fastest ({text.duration(fastest)})', fontsize=9)
    axes.set_ylabel('configurations', fontsize=9)
    axes.spines[['top', 'right']].set_visible(False)


def _plain(label: str) -> str:
    """Returns a label without characters that a font cannot draw."""
    return ''.join(c if c.isprintable() else '?' for c in label)[:40]
