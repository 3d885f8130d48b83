"""Write a run as a SavedModel that scores raw features, for TensorFlow alone.

    tpugraphs export --dir latest out/

Its signature takes a graph's raw arrays by name and gives `scores`, lower for
what is predicted faster; sizes are free, and the normaliser is inside.  A program
that serves it needs neither this package nor TF-GNN: docs/guide/models.md.

What a run of tiles with --recipe=strong computes is more than TensorFlow can hold:
its scores are distilled into trees over raw columns, with the training data, and how
much accuracy that costs is printed.
"""

import argparse

from baselines import command_line
from baselines import starting
from baselines import text
from baselines.runs import finding


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    command_line.add_runs(parser)
    parser.add_argument('output', metavar='OUT', help='a new folder')
    command_line.add_models_file(parser)


def run(args: argparse.Namespace) -> None:
    """Writes the SavedModel, and prints its inputs."""
    starting.start_tensorflow()
    from baselines.runs import export
    from baselines.runs import prediction
    from baselines.runs import run_predictor
    from baselines.training import distilling

    run = finding.load(command_line.run_of(args))
    options = prediction.Options(models_file=args.models_file)
    predictor = run_predictor.RunPredictor(run, options)
    export.check_output(args.output)
    distilled = None
    if predictor.collection.task == 'tile' and export.parts_outside_tensorflow(
        predictor
    ):
        distilled = distilling.distil(predictor)
        print(text.wrapped(distilling.describe(predictor, distilled), indent=2))
    shapes = export.export(predictor, args.output, distilled)
    print(
        f'{args.output}: {predictor.run.args["model"]} on {predictor.collection.name}'
    )
    for name, shape in shapes.items():
        print(f'  {name} {shape}'.replace('None', '?'))
    print('  -> scores [?]')
