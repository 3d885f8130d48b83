"""Runs `tpugraphs show`: prints and draws the graphs of a file."""

import dataclasses
import difflib

from baselines.core import files
from baselines.core import text
from tpugraphs.inspect import contents
from tpugraphs.inspect import description
from tpugraphs.inspect import plot


@dataclasses.dataclass(frozen=True)
class Description:
    """The graphs of a file."""

    graphs: list[contents.Content]  # one for each module, at least one
    # about the kernels of a program, as an object and as lines
    kernels: text.JsonObject | None = None
    lines: tuple[str, ...] = ()

    def to_text(self) -> str:
        """Describes one graph in lines, or lists several in a table."""
        if len(self.graphs) > 1:
            return description.list_graphs(self.graphs)
        return '\n'.join([description.describe_graph(self.graphs[0]), *self.lines])

    def to_json(self) -> text.JsonObject:
        """Returns the object of `tpugraphs show --json`."""
        modules = [description.graph_to_json(graph) for graph in self.graphs]
        return {'modules': modules, 'program': self.kernels}


def describe_file(
    path: str, module: str | None = None, picture: str | None = None
) -> Description:
    """Describes the graphs and configurations of a file, and draws one on request.

    Args:
        path: an npz file, a raw file, or a message with an HLO module.
        module: the name or number of the module to describe; None for all.
        picture: the file to draw it to; the ending tells the format.

    Raises:
        ValueError: the file holds no graph, or no such module, or several graphs of
            which one is to be drawn.
        OSError: a file cannot be read or written.
    """
    graphs = contents.read_contents(path)
    path = files.expand(path)
    if not graphs:
        raise ValueError(f'{path}: has no modules')
    if module is not None:
        graphs = [_choose(path, graphs, module)]
    if all(graph.problem and not graph.opcodes for graph in graphs):
        raise ValueError(f'{path}: {graphs[0].problem}')
    if picture:
        draw_only_graph(path, graphs, picture)
    return Description(graphs)


def draw_only_graph(path: str, graphs: list[contents.Content], picture: str) -> None:
    """Draws the only graph of a file; raises ValueError for several."""
    if len(graphs) > 1:
        raise ValueError(f'{path}: has {len(graphs)} modules; --module must name one')
    plot.draw_graph(graphs[0], files.expand(picture))


def _choose(path: str, graphs: list[contents.Content], module: str) -> contents.Content:
    """Returns the module of a number, a name, or a name without its fingerprint."""
    if module.isdecimal() and int(module) < len(graphs):
        return graphs[int(module)]
    safe = module.replace('.', '_')
    names = [content.name for content in graphs]
    for content in graphs:
        if content.name == safe or content.name.rpartition('_')[0] == safe:
            return content
    near = difflib.get_close_matches(safe, names, n=1, cutoff=0.3) or names
    raise ValueError(
        f'{path}: has no module {module!r}; it has {len(names)}, such as {near[0]}'
    )
