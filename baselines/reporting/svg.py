"""Pictures as SVG that takes part in a page: its colours, its width, its readers.

matplotlib draws with colours that stand for others; in the page they become CSS
variables, which differ between light and dark.  Texts stay texts.
"""

import io
import re
from typing import Any, Callable, NamedTuple, Tuple

import markupsafe

SERIES = 6  # colours of runs
MARKERS = 'os^DvP'
INK, FAINT, GRID = '#010101', '#020202', '#030303'
_COLOURS = {INK: 'ink', FAINT: 'faint', GRID: 'grid'}
_SIZE = (4.4, 2.9)  # inches; on a phone 9 points are still 9 pixels
_STYLE = {
    'svg.fonttype': 'none',
    'svg.hashsalt': 'report',
    'text.parse_math': False,  # names come from files: a $ is a $
    'font.size': 9,
    'axes.labelsize': 9,
    'legend.fontsize': 8,
    'legend.frameon': False,
    'text.color': INK,
    'axes.labelcolor': INK,
    'axes.edgecolor': FAINT,
    'xtick.color': FAINT,
    'ytick.color': FAINT,
    'xtick.labelcolor': INK,
    'ytick.labelcolor': INK,
    'axes.spines.top': False,
    'axes.spines.right': False,
    'axes.grid': True,
    'axes.axisbelow': True,
    'grid.color': GRID,
    'lines.linewidth': 1.6,
    'lines.markersize': 5,
}


class Picture(NamedTuple):
    """A figure of a page.

    Attributes:
        svg: an <svg> element, safe to be put into HTML.
        caption: what it shows, plain text.
    """

    svg: markupsafe.Markup
    caption: str


def colour(series: int) -> str:
    """The colour of a run, the same in all pictures."""
    return f'#0000{0xA0 + series % SERIES:02x}'


def marker(series: int) -> str:
    """The sign of a run, so that colour is not all that tells runs apart."""
    return MARKERS[series % len(MARKERS)]


def picture(
    draw: Callable[[Any], None],
    alt: str,
    caption: str,
    size: Tuple[float, float] = _SIZE,
) -> Picture:
    """Draws a picture.

    Args:
        draw: is given matplotlib axes.
        alt: what somebody who does not see it should know.
        caption: what stands below.
        size: width and height in inches.
    """
    # matplotlib takes half a second to import.
    # pylint: disable=import-outside-toplevel
    import matplotlib
    from matplotlib import figure

    content = io.StringIO()
    with matplotlib.rc_context(_STYLE):
        drawn = figure.Figure(figsize=size, layout='constrained')
        draw(drawn.add_subplot())
        drawn.savefig(content, format='svg', transparent=True)
    return Picture(_inline(content.getvalue(), alt), caption)


def _inline(content: str, alt: str) -> markupsafe.Markup:
    """An SVG document as an element of a page."""
    content = content[content.index('<svg') :]
    content = re.sub(r'<metadata>.*?</metadata>|<!--.*?-->', '', content, flags=re.S)
    head, bracket, body = content.partition('>')
    box = re.search(r'viewBox="([^"]*)"', head)[1]  # type: ignore[index]
    for number, name in _COLOURS.items():
        body = body.replace(number, f'var(--{name})')
    for series in range(SERIES):
        body = body.replace(colour(series), f'var(--run{series})')
    alt = markupsafe.escape(alt)
    return markupsafe.Markup(
        f'<svg viewBox="{box}" role="img" aria-label="{alt}">{body.strip()}'
    )


def numbered(content: markupsafe.Markup, number: int) -> markupsafe.Markup:
    """Makes the ids of a picture its own among those of a page."""
    found = re.sub(r'\bid="', f'id="p{number}-', content)
    return markupsafe.Markup(re.sub(r'(url\(|href=")#', rf'\1#p{number}-', found))
