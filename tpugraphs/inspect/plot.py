"""Draws a kernel or program: its graph, and the distribution of its runtimes."""

from typing import Any

import numpy as np

from baselines.core import files
from baselines.core import text
from tpugraphs.inspect import contents
from tpugraphs.inspect import layers

_CHARACTERS = 40  # of a label
_DPI = 110
_MAX_PIXELS = 16_000  # on a side; viewers give up not far above

_BEGINNINGS = {'png': '\x89PNG', 'svg': '<?xml', 'pdf': '%PDF'}  # by ending
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


def draw_graph(content: contents.Content, path: str) -> None:
    """Draws a graph, data flowing down, and a histogram of its runtimes.

    Args:
        content: the graph, which is drawn up to `layers.MOST` nodes.
        path: the file; its ending tells the format (png, svg, pdf).

    Raises:
        ValueError: matplotlib does not write the format, the graph is too large and
            has no runtimes, or its edges form a cycle.
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
    known = [start for name, start in _BEGINNINGS.items() if name == ending]
    files.check_file_writable(path, 'plot', known)
    drawings: list[_Graph | _Runtimes] = []
    if 0 < len(content.opcodes) <= layers.MOST:
        drawings.append(_Graph(content))
    if content.runtimes.any():
        drawings.append(_Runtimes(content))
    if not drawings:
        raise ValueError(
            f'{text.printable(content.name)}: has no runtimes to draw, and must have '
            f'up to {layers.MOST} nodes, not {len(content.opcodes):,}'
        )
    widths, heights = zip(*(drawing.size for drawing in drawings))
    picture.set_size_inches(sum(widths), max(heights))
    panels = picture.subplots(1, len(drawings), squeeze=False, width_ratios=widths)
    for drawing, axes in zip(drawings, panels[0]):
        drawing.draw(axes)
    nodes = text.count(len(content.opcodes), 'node')
    edges = text.count(len(content.edges), 'edge')
    title = f'{text.printable(content.name, _CHARACTERS)}\n{nodes}, {edges}'
    picture.suptitle(title, fontsize=10, parse_math=False)
    dpi = min(_DPI, _MAX_PIXELS / max(picture.get_size_inches()))
    with files.write_atomically(path, 'wb') as stream:
        picture.savefig(stream, format=ending, dpi=dpi)


class _Graph:
    """A graph with the positions of its nodes; `size` is in inches."""

    _ROW = 0.72  # inches from layer to layer
    _EDGE = 0.2  # from the middle of a box to its edge, in layers
    _CHARACTER = 0.068  # inches per character of a label

    def __init__(self, content: contents.Content):
        self._labels = [
            text.printable(opcode, _CHARACTERS)
            + (f'\n{shape}' if shape not in ('', opcode) else '')
            for opcode, shape in zip(content.opcodes, content.shapes)
        ]
        self._groups = [_GROUP_OF.get(o, 'elementwise') for o in content.opcodes]
        longest = [max(map(len, label.split('\n'))) for label in self._labels]
        # Inches to either side of the middle of each box.
        room = [self._CHARACTER * (length + 2) / 2 + 0.06 for length in longest]
        with text.locate_errors(text.printable(content.name)):
            self._layer = layers.compute_layers(len(room), content.edges)
        self._x, self._paths = layers.place_nodes(self._layer, content.edges, room)
        # At least as high as the histogram next to it.
        self._rows = max(int(self._layer.max()) + 1, 4)
        self._left = float((self._x - room).min())
        self._right = float((self._x + room).max())
        width = max(4.0, self._right - self._left + 0.2)
        self.size = width, self._ROW * self._rows + 1.4

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
        # Upside down: layer 0 is at the top.
        axes.set_ylim(self._rows - 0.4, -0.6)
        axes.set_axis_off()
        present = [g for g in _GROUPS if g in self._groups]
        square = {'marker': 's', 's': 60, **_OUTLINE}
        for group in present:
            # An entry of the legend; nothing is drawn.
            axes.scatter([], [], color=_GROUPS[group][0], label=group, **square)
        place = {'loc': 'upper center', 'bbox_to_anchor': (0.5, 0.0)}
        axes.legend(fontsize=7, ncols=min(3, len(present)), frameon=False, **place)


class _Runtimes:
    """A histogram of the runtimes of a graph; `size` is in inches."""

    size = 4.5, 4.5

    def __init__(self, content: contents.Content):
        self._fastest = max(int(content.runtimes.min()), 1)
        self._slowdowns = content.runtimes / self._fastest
        self._default = content.default

    def draw(self, axes: Any) -> None:
        """Draws the histogram, and lines at the default's and the median runtime."""
        most = max(self._slowdowns.max(), 1 + 1e-6)
        # 30 bars, by logarithm where the slowest are many times as slow.
        edges = np.linspace(1, most, 31)
        if most > 4:
            edges = np.geomspace(1, most, 31)
            axes.set_xscale('log', subs=[])  # no ticks between these
            axes.xaxis.get_major_locator().set_params(subs=(1, 2, 5))
            axes.xaxis.set_major_formatter('{x:g}')
        axes.hist(self._slowdowns, edges, color='#5b8db8', edgecolor='white')
        marks = [('median', float(np.median(self._slowdowns)), '#333333', '--')]
        if self._default:
            marks.insert(0, ('default', self._default / self._fastest, '#c0392b', '-'))
        for name, at, colour, style in marks:
            label = f'{name}, {at:.3g}'
            axes.axvline(at, color=colour, linestyle=style, label=label)
        axes.legend(fontsize=8, frameon=False)
        axes.set_title(text.count(len(self._slowdowns), 'configuration'), fontsize=10)
        axes.set_xlabel(f'runtime / fastest ({text.format_duration(self._fastest)})')
        axes.set_ylabel('configurations')
        axes.spines[['top', 'right']].set_visible(False)
        axes.set_box_aspect(0.8)
        axes.set_anchor('N')
