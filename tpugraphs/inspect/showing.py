"""Runs `tpugraphs show`: prints and draws the graphs of a file."""

from __future__ import annotations

import dataclasses
import difflib

from baselines.core import files
from baselines.core import text
from tpugraphs.inspect import contents
from tpugraphs.inspect import description
from tpugraphs.inspect import kernel_table
from tpugraphs.inspect import plot
from tpugraphs.programs import reader


@dataclasses.dataclass(frozen=True)
class Description:
    """The graphs of a file."""

    graphs: list[contents.Content]  # one for each module, at least one
    # the result of `kernel_table.describe` for a program; None for a file of
    # configurations
    kernels: text.JsonObject | None = None

    def to_text(self) -> str:
        """Describes one graph in lines, or lists several in a table."""
        if len(self.graphs) > 1:
            return description.table(self.graphs)
        lines = [description.describe(self.graphs[0])]
        if self.kernels is not None:
            lines += kernel_table.lines(self.kernels)
        return '\n'.join(lines)

    def to_json(self) -> text.JsonObject:
        """Returns the object of `tpugraphs show --json`."""
        modules = [description.to_json(graph) for graph in self.graphs]
        return {'modules': modules, 'program': self.kernels}


def describe(
    path: str,
    module: str | None = None,
    picture: str | None = None,
    batch_size: int | None = None,
    seconds: int | None = None,
) -> Description:
    """Describes the graphs and configurations of a file, and draws one on request.

    Args:
        path: an npz file, or a program as of `reader.read_program`.
        module: the name or number of the module to describe; None for all.
        picture: the file to draw it to; the ending tells the format.
        batch_size: see `reader.Options`.
        seconds: see `reader.Options`.

    Raises:
        ValueError: the file holds no graph, or no such module, or several graphs of
            which one is to be drawn.
        OSError: a file cannot be read or written.
    """
    kernels = None
    if contents.is_npz(path) or reader.tuning_kind(path):
        path = files.expand(path)
        graphs = contents.load(path)
        if module is not None:
            graphs = [_choose(path, graphs, module)]
    elif module is not None:
        raise ValueError(f'{path}: is one program; leave out --module')
    else:
        options = reader.Options(batch_size, seconds)
        program = reader.read_program(path, options=options)
        graphs = [contents.describe_program(program)]
        kernels = kernel_table.describe(program)
    if not graphs:
        raise ValueError(f'{path}: has no modules')
    if all(graph.problem and not graph.opcodes for graph in graphs):
        raise ValueError(f'{path}: {graphs[0].problem}')
    if picture:
        if len(graphs) > 1:
            raise ValueError(
                f'{path}: has {len(graphs)} modules; choose the one to draw with '
                '--module'
            )
        plot.draw(graphs[0], files.expand(picture))
    return Description(graphs, kernels)


def _choose(path: str, graphs: list[contents.Content], module: str) -> contents.Content:
    """Returns the module of a number, a name, or a name without its fingerprint."""
    if module.isdecimal() and int(module) < len(graphs):
        return graphs[int(module)]
    safe = module.replace('.', '_')
    names = [content.name for content in graphs]
    for content in graphs:
        if content.name == safe or content.name.rpartition('_')[0] == safe:
            return content
    near = difflib.get_close_matches(safe, names, n=1, cutoff=0.3) or names[:1]
    raise ValueError(
        f'{path}: has no module {module!r}; it has {len(names)}'
        + (f', such as {near[0]}' if near else '')
    )
