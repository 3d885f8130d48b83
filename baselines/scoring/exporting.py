"""Exports a finished run for programs without this package.

print(*exporting.export(finding.load('latest'), 'out/'), sep='\\n')
"""

from baselines.core import registry
from baselines.core import starting
from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.hlo import reading
from baselines.runs import run_files
from baselines.scoring import graph_source
from baselines.scoring import loading
from baselines.scoring import prediction
from baselines.scoring import scorers

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
        collection: whose graphs the model is to score, of a run of several.

    Returns:
        Lines that describe what was written, and what leaving out the trees costs.

    Raises:
        ValueError: the folder is in use, or the run cannot be read or exported.
        OSError: it cannot be written.
    """
    starting.start_tensorflow()
    from baselines.runs import export as export_lib
    from baselines.runs import raw_scoring

    # Before the model is read, which takes seconds.
    export_lib.check_output(output)
    title = f'{output}: {run.args["model"]} on '
    if not run.has_model:
        title += run.collection().name
        trees = export_lib.export_trees(run, output)
        count = text.count(trees.count, 'tree')
        lines = [title, f'  trees.txt: {count} of LightGBM; round columns to 2^-13']
        if trees.prior:
            weight, column = trees.prior.weight, trees.prior.column
            lines.append(
                f'  score = trees + {weight} * normal scores of {column} in the graph'
            )
        return lines
    options = graph_source.SourceOptions(models_file=models_file, collection=collection)
    source = graph_source.RunSource(run, options)
    scorer = loading.run_scorer(run, source)
    # A layout model of --estimate was trained to correct the formula's scores.
    exported = raw_scoring.GraphModel(
        *(run, scorer.keras_model, scorer.scaling, scorer.variant, source.collection),
        adds_to_formula=scorer.estimate and run.task == reading.LAYOUT,
        flags=scorer.flag.values if scorer.flag else (),
    )
    shapes = export_lib.export(exported, output)
    lines = [title + source.collection.name]
    for name, shape in shapes.items():
        lines.append(f'  {name} {shape}'.replace('None', '?'))
    lines.append('  -> scores [?]')
    if run.has_trees:
        lines.append(text.wrapped(_cost_without_trees(run, source, scorer), 2))
    return lines


def _cost_without_trees(
    run: run_files.RunFile, source: graph_source.Source, scorer: scorers.RunScorer
) -> str:
    """Says how much accuracy is lost on the validation split without the trees."""
    alone = 'note: the graph model alone, without the trees of the run'
    try:
        if not source.open('valid').has_runtimes:
            return alone
    except (ValueError, OSError) as error:
        return f'{alone}; the cost is not measured: {text.one_line(error)}'
    # The same run with its graph model as the only member.
    models = scorer.models._replace(trees=None, weights=None)
    without = scorers.RunScorer(
        *(models, scorer.scaling, scorer.variant, scorer.keras_model),
        *(scorer.estimate, scorer.flag),
    )
    with_trees, without_trees = (
        prediction.Predictor(compared, source, run).measure('valid')[0]
        for compared in (scorer, without)
    )
    changes = []
    for measure in metrics.MEASURES[source.collection.task]:
        before, after = (
            summary['overall'][measure.key]['mean']
            for summary in (with_trees, without_trees)
        )
        # A mean is None where the measure is defined on no graph.
        if measure.key in _MEASURES and before is not None:
            changes.append(f'{measure.title} {before:.3f} -> {after:.3f}')
    return f'{alone}; {report.data_title(with_trees)}: {", ".join(changes)}'
