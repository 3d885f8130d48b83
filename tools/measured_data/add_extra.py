"""Adds node_feat_extra to npz files of kernels that were measured without it.

  python tools/measured_data/add_extra.py FOLDER PROGRAM.pb ...
  python tools/measured_data/add_extra.py FOLDER --random

FOLDER and the folders in it hold files of `tpugraphs collect`.  Their programs, or with
--random the random programs in the files' names, are cut into kernels again, which
takes the jaxlib that they were measured with.  A file belongs to the kernel with the
digest in its name.  Nothing is timed, and the other arrays stay as they are.
"""

import argparse
import glob
import os
import pathlib
import sys
from typing import Any, Dict, Iterator, List, Sequence

import numpy as np
import tqdm

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from baselines import command_line
from baselines.core import text
from baselines.data import families
from baselines.data import graph_files
from baselines.data import npz
from baselines.hlo import graph
from tpugraphs.clock import session as session_lib
from tpugraphs.collect import random_programs
from tpugraphs.kernels import cutting
from tpugraphs.kernels import preparation
from tpugraphs.programs import reader

_MAX_BYTES = 1 << 30


def main() -> None:
    """Adds the columns, and prints how many files got them."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument('folder')
    parser.add_argument('programs', nargs='*')
    parser.add_argument('--random', action='store_true')
    args = parser.parse_args()
    paths = sorted(glob.glob(os.path.join(args.folder, '**', '*.npz'), recursive=True))
    if bool(args.programs) == args.random or not paths:
        raise ValueError(
            f'{args.folder}: say programs or --random, and a folder of npz files '
            f'(there: {text.count(len(paths), "file")})'
        )
    missing: Dict[str, List[str]] = {}  # digest -> files
    for path in paths:
        missing.setdefault(_stem(path).rpartition('_')[2], []).append(path)
    if args.random:
        names = {families.program_of_kernel(_stem(path)) for path in paths}
        programs = _random(sorted(n for n in names if n.startswith('random_')))
    else:
        programs = map(preparation.load, tqdm.tqdm(reader.find_sources(args.programs)))
    added = 0
    with session_lib.Session() as session:
        for program in programs:
            if not missing:
                break
            module = preparation.optimise(program, session)
            for kernel in cutting.cut(module, program.name)[0]:
                for path in missing.pop(kernel.name.rpartition('_')[2], ()):
                    add(path, kernel.module)
                    added += 1
    print(f'{added} of {text.count(len(paths), "file")} have node_feat_extra now')


def add(path: str, module: Any) -> None:
    """Adds the array to a file of the kernel with a module.

    Raises:
        ValueError: the file is of another kernel, or damaged.
        OSError: it cannot be read or written.
    """
    arrays = npz.read_all(path, _MAX_BYTES)
    nodes = graph.extract_graph(module, extra=True)
    if not np.array_equal(arrays['node_feat'], nodes.node_feat):
        raise ValueError(f'{path}: node_feat is not that of the kernel with its digest')
    key = 'node_feat_extra'
    npz.check_arrays(path, {key: nodes.node_feat_extra}, graph_files.EXTRA)
    npz.write_arrays(path, {**arrays, key: nodes.node_feat_extra})


def _random(names: Sequence[str]) -> Iterator[reader.Program]:
    """Yields random programs; says which can no longer be made."""
    for name in tqdm.tqdm(names):
        try:
            yield random_programs.load(name)
        except (KeyError, ValueError) as error:
            tqdm.tqdm.write(f'{name}: {text.one_line(error)}', file=sys.stderr)


def _stem(path: str) -> str:
    return os.path.splitext(os.path.basename(path))[0]


if __name__ == '__main__':
    sys.exit(command_line.guarded(main))
