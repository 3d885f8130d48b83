"""Describes programs and their kernels, for `tpugraphs lab show`."""

from __future__ import annotations

from tpugraphs.inspect import contents
from tpugraphs.inspect import showing
from tpugraphs_lab import kernel_table
from tpugraphs_lab.programs import reader


def describe(
    path: str, module: str | None, picture: str | None, options: reader.Options
) -> showing.Description:
    """Describes the graph and the kernels of a program; other files as the toolkit.

    Args:
        path: a program as of `reader.read_program`, a raw or npz file.
        module: the name or number of a module of a raw file; None for all.
        picture: the file to draw the graph to; the ending tells the format.
        options: how programs are read.

    Raises:
        ValueError: the file holds no graph, no such module, or several to draw.
        OSError: a file cannot be read or written.
    """
    if contents.is_npz(path) or reader.tuning_kind(path):
        return showing.describe_file(path, module, picture)
    if module is not None:
        raise ValueError(f'{path}: is one program; leave out --module')
    program = reader.read_program(path, options=options)
    graphs = [contents.describe_program(program)]
    if picture:
        showing.draw_only_graph(path, graphs, picture)
    kernels = kernel_table.describe(program)
    return showing.Description(graphs, kernels, (*kernel_table.lines(kernels),))
