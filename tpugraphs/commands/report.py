"""Write a report of finished runs with pictures, as one HTML file.

  tpugraphs report --dir latest --output=report.html
  tpugraphs report --dir wide latest

Models of one collection are side by side, the best first; runs that differ in seed or
fold alone are one model, with mean and standard deviation.  Shown are a table of
errors, learning curves, errors program by program with intervals and next to random
choice, the slowdown of trying k configurations, for layouts tau against the noise
ceiling, and the settings.  The file needs no network, names no folders of this
machine, and reads on a phone, in print, light and dark.
"""

import argparse
from typing import cast

from baselines import scoring
from baselines.core import exits
from baselines.core import files
from baselines.core import settings as settings_lib
from baselines.core import text
from baselines.runs import run_files
from tpugraphs import report
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_run_arguments(parser, split='valid')
    _options.add_collection(parser, estimate=False)
    output = 'report.html'
    _options.add_option(parser, '--output', output, 'write this HTML file')


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Measures the runs and writes the report.

    Raises:
        ValueError: the runs are of different collections; one of them or the data
            are unusable, or no runtime is known.
        OSError: --output cannot be written.
    """
    files.check_file_writable(args.output, 'output', ['<!DOCTYPE html>'])
    options = settings_lib.make_from_options(scoring.prediction.Options, args)
    predictors = scoring.ensemble.load(_options.get_run_names(args), options)
    labels = scoring.ensemble.label_predictors(predictors)
    drawn = []
    for model_dir, predictor in predictors.items():
        summary, graphs = scoring.measuring.measure(predictor, args.split)
        name, model = labels[model_dir]
        run = cast(run_files.RunFile, predictor.run)  # none of them is the estimate
        drawn.append(report.measured.MeasuredRun(name, model, run, summary, graphs))
    report.page.write_page(args.output, drawn)
    print(f'report: {text.printable(files.expand(args.output))}')
