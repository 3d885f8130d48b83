"""Write a report of finished runs with pictures, as one HTML file.

  tpugraphs report --dir latest --output=report.html
  tpugraphs report --dir 'wide*' latest

Models of one collection are side by side, the best first; runs that differ in seed or
fold alone are one model, with mean and standard deviation.  Shown are a table of
errors, learning curves, errors program by program with intervals and next to random
choice, the slowdown of trying k configurations, for layouts tau against the noise
ceiling, and the settings.  The file needs no network, names no folders of this
machine, and reads on a phone, in print, light and dark.
"""

import argparse
from typing import cast

from baselines import command_line
from baselines.core import files
from baselines.runs import run_files
from baselines.scoring import loading
from tpugraphs.distribute import beam
from tpugraphs.report import measured
from tpugraphs.report import page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    command_line.add_run_arguments(parser, split='valid')
    command_line.add_collection(parser, estimate=False)
    output = 'report.html'
    command_line.option(parser, '--output', output, 'the HTML file to write')


@command_line.logged()
def run(args: argparse.Namespace) -> None:
    """Measures the runs and writes the report.

    Raises:
        ValueError: the runs are of different collections; one of them or the data
            are unusable, or no runtime is known.
        OSError: --output cannot be written.
    """
    files.check_file_writable(args.output, 'output')
    names, options = command_line.runs_of(args), beam.data_options(args)
    predictors = loading.load_alike(names, options)
    labels = loading.labels_of(predictors)
    drawn = []
    for model_dir, predictor in predictors.items():
        summary, graphs = predictor.measure(args.split)
        name, model = labels[model_dir]
        run = cast(run_files.RunFile, predictor.run)  # none of them is the estimate
        drawn.append(measured.MeasuredRun(name, model, run, summary, graphs))
    page.write(args.output, drawn)
    print(f'report: {files.expand(args.output)}')
