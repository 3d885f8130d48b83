"""Draws a picture of a report with matplotlib, as SVG without a background.

The page shows it as an image, so nothing in it is run or looked up elsewhere; on a
dark screen the page inverts its lightness.
"""

import base64
from collections.abc import Callable, Collection
import io
import math
import textwrap
from typing import Any, NamedTuple

from baselines.core import text

# Of models: each is legible on white, and inverted on black.
_COLOURS = ('#0b62a8', '#c2410c', '#15803d', '#7e22ce', '#8a5a00', '#be185d')
_MARKERS = 'os^DvP'
INK, FAINT = '#1c1c1c', '#6b6b6b'
_SIZE = (4.4, 2.9)  # inches; on a phone 9 points are still 9 pixels
_HALF_WIDTH, _LABEL_WIDTH = 24, 40  # characters
_INCHES_PER_LINE = 0.17  # height of a line in a legend
_STYLE: Any = {
    'svg.hashsalt': 'report',  # the same picture has the same bytes
    'text.parse_math': False,  # names come from files: a $ is a $
    'font.size': 9,
    'axes.labelsize': 9,
    'legend.fontsize': 8,
    'legend.frameon': False,
    **dict.fromkeys(('text.color', 'axes.labelcolor'), INK),
    **dict.fromkeys(('xtick.labelcolor', 'ytick.labelcolor'), INK),
    **dict.fromkeys(('axes.edgecolor', 'xtick.color', 'ytick.color'), FAINT),
    **dict.fromkeys(('axes.spines.top', 'axes.spines.right'), False),
    'axes.grid': True,
    'axes.axisbelow': True,
    'grid.color': '#e2e2e2',
    'figure.constrained_layout.w_pad': 0.12,  # inches: for half of a tick's label
    'lines.linewidth': 1.6,
    'lines.markersize': 5,
}
_NO_METADATA = dict.fromkeys(('Date', 'Creator', 'Format', 'Type'))


class Picture(NamedTuple):
    """A picture of a page."""

    svg: str  # the SVG document
    alt: str  # its content for screen readers, plain text
    caption: str  # line below it, plain text

    @property
    def address(self) -> str:
        """Returns the picture as the address of an image."""
        encoded = base64.b64encode(self.svg.encode()).decode()
        return f'data:image/svg+xml;base64,{encoded}'


def choose_colour(model: int) -> str:
    """Returns the colour of a model, the same in all pictures."""
    return _COLOURS[model % len(_COLOURS)]


def choose_marker(model: int) -> str:
    """Returns the sign of a model, so that not colour alone tells models apart."""
    return _MARKERS[model % len(_MARKERS)]


def wrap_label(label: str) -> str:
    """Returns a label in lines, none of them longer than a picture is high."""
    return '\n'.join(textwrap.wrap(text.printable(label), _LABEL_WIDTH))


def add_legend(axes: Any, last: Collection[str] = (), fewest: int = 2) -> None:
    """Puts a legend above the picture, which becomes higher by as much.

    Args:
        last: labels that come after the others.
    """
    handles, labels = axes.get_legend_handles_labels()
    if len(handles) < fewest:
        return
    order = sorted(range(len(labels)), key=lambda i: labels[i] in last)
    handles = [handles[i] for i in order]
    labels = [wrap_label(labels[i]) for i in order]
    columns = 2 if max(map(len, labels)) <= _HALF_WIDTH else 1
    figure = axes.figure
    figure.legend(handles, labels, loc='outside upper center', ncols=columns)
    lines = sum(label.count('\n') + 1 for label in labels) / columns
    figure.set_figheight(figure.get_figheight() + _INCHES_PER_LINE * math.ceil(lines))


def draw_picture(
    plot: Callable[[Any], None],
    alt: str,
    caption: str,
    size: tuple[float, float] = _SIZE,
) -> Picture:
    """Draws a picture.

    Args:
        size: width and height in inches.
    """
    # matplotlib takes half a second to import.
    import matplotlib
    from matplotlib import figure

    content = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        canvas = figure.Figure(figsize=size, layout='constrained')
        plot(canvas.add_subplot())
        canvas.savefig(content, format='svg', transparent=True, metadata=_NO_METADATA)
    return Picture(content.getvalue(), alt, caption)
