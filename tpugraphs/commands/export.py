"""Write a run for programs without this package: a SavedModel, or LightGBM's file.

    tpugraphs export --dir latest out/

The signature of the SavedModel takes a graph's raw arrays by name and gives `scores`,
lower for faster configurations; sizes are free, and the normaliser is inside.  A
program that serves it needs neither this package nor TF-GNN: docs/guide/models.md.

Of a run with trees next to its graph model (--recipe=strong) the graph model is
exported, and how much accuracy that costs is printed.  A run of trees alone becomes
LightGBM's own text file, which LightGBM reads in any language.
"""

import argparse

from baselines import scoring
from baselines.runs import finding
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_runs(parser)
    parser.add_argument('output', metavar='OUT', help='a new folder')
    _options.add_models_file(parser)
    _options.add_collection(parser, estimate=False)


def run(args: argparse.Namespace) -> None:
    """Writes the run, and prints a description of the files."""
    run_file = finding.load(_options.get_run_name(args))
    export = scoring.exporting.export
    lines = export(run_file, args.output, args.models_file, args.collection)
    print(*lines, sep='\n')
