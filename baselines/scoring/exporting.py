"""Exports a finished run for programs without this package.

print(*exporting.export(finding.load('latest'), 'out/'), sep='\\n')
"""

import dataclasses
from typing import cast

from baselines.core import files
from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.features import normalizer as normalizer_lib
from baselines.hlo import reading
from baselines.runs import run_files
from baselines.scoring import measuring
from baselines.scoring import prediction

_MEASURES = ('top_1_error', 'top_5_error', 'opa', 'kendall_tau')


def export(
    run: run_files.RunFile,
    output: str,
    models_file: registry.Own = '',
    collection: str = '',
) -> list[str]:
    """Writes the graph model of a run as a SavedModel, or trees as LightGBM's file.

    Of a run with both, the trees are left out.

    Args:
        output: a folder that does not exist yet, or is empty.
        models_file: a models.py, or classes, next to ours.
        collection: name of the graphs to score, for a run of several.

    Returns:
        Lines that describe what was written, and what leaving out the trees costs.

    Raises:
        ValueError: the folder is in use, or the run cannot be read or exported.
        OSError: it cannot be written.
    """
    files.check_new_folder(output)
    starting.start_tensorflow()
    from baselines.runs import export as export_lib
    from baselines.runs import raw_scoring

    title = f'{output}: {run.args["model"]} on '
    if not run.has_model:
        title += run.collection.name
        trees = export_lib.export_trees(run, output)
        count = text.count(trees.count, 'tree')
        lines = [title, f'  trees.txt: {count} of LightGBM; round columns to 2^-13']
        if trees.prior:
            weight, column = trees.prior.weight, trees.prior.column
            lines.append(
                f'  score = trees + {weight} * normal scores of {column} in the graph'
            )
        return lines
    options = prediction.Options(models_file=models_file)
    predictor = prediction.Predictor(
        run.collection.select_part(collection, run.model_dir), options, run
    )
    scorer = predictor.scorer
    # A layout model of --estimate was trained to correct the formula's scores.
    exported = raw_scoring.GraphModel(
        run,
        scorer.keras_model,
        cast(normalizer_lib.Scaling, scorer.scaling),  # of every run
        scorer.variant,
        predictor.collection,
        adds_to_formula=scorer.adds_to_formula and run.task == reading.LAYOUT,
        flags=scorer.flag.values if scorer.flag else (),
    )
    shapes = export_lib.export_model(exported, output)
    lines = [title + predictor.collection.name]
    for name, shape in shapes.items():
        lines.append(f'  {name} {shape}'.replace('None', '?'))
    lines.append('  -> scores [?]')
    if run.has_trees:
        lines.append(text.wrap_line(_describe_cost_of_trees(predictor), 2))
    return lines


def _describe_cost_of_trees(predictor: prediction.Predictor) -> str:
    """Says how much accuracy is lost on the validation split without the trees."""
    alone = 'note: the graph model alone, without the trees of the run'
    try:
        if not predictor.open_split('valid').has_runtimes:
            return alone
    except (ValueError, OSError) as error:
        return f'{alone}; the cost is not measured: {text.one_line(error)}'
    with_trees, _ = measuring.measure(predictor, 'valid')
    # The same run with its graph model as the only member.
    scorer = dataclasses.replace(predictor.scorer, trees=None, weights=None)
    predictor.scorer = scorer
    without_trees, _ = measuring.measure(predictor, 'valid')
    changes = []
    for measure in metrics.MEASURES[predictor.collection.task]:
        before, after = (
            summary['overall'][measure.key]['mean']
            for summary in (with_trees, without_trees)
        )
        # A mean is None where the measure is defined on no graph.
        if measure.key in _MEASURES and before is not None:
            changes.append(f'{measure.title} {before:.3f} -> {after:.3f}')
    return f'{alone}; {report.data_title(with_trees)}: {", ".join(changes)}'
