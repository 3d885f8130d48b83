"""Writes the page of a report: sections with pictures and tables, in one file."""

from collections.abc import Sequence
import json
import os
from typing import NamedTuple

import jinja2

from baselines.core import files
from baselines.core import text
from baselines.evaluation import metrics
from baselines.evaluation import report
from baselines.runs import differences
from tpugraphs.report import figures
from tpugraphs.report import measured
from tpugraphs.report import pictures

_LONGEST = 300  # characters of a setting


class Section(NamedTuple):
    """Pictures under a title."""

    title: str
    introduction: str  # text before its pictures, plain
    pictures: list[pictures.Picture]


def write_page(path: str, runs: Sequence[measured.MeasuredRun]) -> None:
    """Writes the HTML report of measured runs of one collection; raises OSError.

    All that comes from run files and data is escaped and stripped of the folders of
    this machine, and the page forbids itself scripts and anything from elsewhere.
    """
    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    models = measured.group_runs(runs)
    first = runs[0].summary
    data = dict.fromkeys(os.path.dirname(run.summary['data']) for run in runs)
    splits = dict.fromkeys(report.data_title(run.summary) for run in runs)
    measured_on = f'{"; ".join(splits)} ({"; ".join(map(text.hide_folders, data))})'
    page = environment.get_template('page.html').render(
        title=_make_title(models, first['collection']),
        data=text.printable(measured_on),
        notes=_make_notes(models),
        results=_make_results(models),
        sections=_draw_sections(models),
        settings=_make_settings([run for model in models for run in model.runs]),
        run_names=[run.name for model in models for run in model.runs],
    )
    with files.write_atomically(path, encoding='utf-8') as stream:
        stream.write(page)


def _make_title(models: Sequence[measured.ReportedModel], collection: str) -> str:
    """Returns a title such as '3 runs of 2 models on tile:xla'."""
    num_runs = sum(len(model.runs) for model in models)
    title = text.count(len(models), 'model')
    if num_runs > len(models):
        title = f'{text.count(num_runs, "run")} of {title}'
    return f'{title} on {collection}'


def _make_notes(models: Sequence[measured.ReportedModel]) -> list[str]:
    """Explains the order, intervals and deviations of the table of results."""
    notes = []
    if len(models) > 1:
        measure = report.ORDERED_BY[models[0].runs[0].summary['task']][1]
        notes.append(f'Models are in the order of their {measure}, best first.')
    if any(len(model.runs) == 1 for model in models):
        over = models[0].runs[0].summary['interval_over']
        notes.append(f'In brackets: 95 % intervals over {over}, without other seeds.')
    if any(len(model.runs) > 1 for model in models):
        notes.append('±: standard deviation over the runs of a model.')
    return notes


def _draw_sections(models: Sequence[measured.ReportedModel]) -> list[Section]:
    """Draws the sections of the page, without empty ones."""
    is_layout = models[0].runs[0].summary['task'] == 'layout'
    noun = 'program' if is_layout else 'kernel'
    sections = [
        Section(
            'Learning curves',
            'Scores and losses during training, on configurations drawn once for '
            'validation.',
            figures.draw_curves(models),
        ),
        Section(
            'Program by program',
            'The worst programs stand first.',
            [figures.draw_groups(models, 'kendall_tau', "Kendall's tau")]
            if is_layout
            else [
                figures.draw_groups(models, 'top_5_error', 'top-5 error'),
                figures.draw_groups(models, 'opa', 'OPA'),
            ],
        ),
        Section(
            'The value of trying more',
            f'An autotuner measures the k favourites of a {noun}.',
            [figures.draw_slowdowns(models)],
        ),
    ]
    return [section for section in sections if section.pictures]


def _make_results(models: Sequence[measured.ReportedModel]) -> list[list[str]]:
    """Returns a table with its head: a measure in each row, a model in each column."""
    first = models[0].runs[0].summary
    rows = [['', *(model.name for model in models), 'at random', 'default first']]
    if any(len(model.runs) > 1 for model in models):
        rows.append(['runs', *(str(len(model.runs)) for model in models), '', ''])
    for measure in metrics.MEASURES[first['task']]:
        estimates = [model.average_measure(measure.key) for model in models]
        untrained = [first['overall'][measure.key][k] for k in ('random', 'default')]
        rows.append(
            [
                measure.title,
                *(estimate.format(measure.show) for estimate in estimates),
                *(text.format_value(value, measure.show) for value in untrained),
            ]
        )
    if not any(row[-1].strip('-') for row in rows[1:]):  # layouts have no default
        rows = [row[:-1] for row in rows]
    return rows


def _make_settings(runs: Sequence[measured.MeasuredRun]) -> dict[str, list[list[str]]]:
    """Returns tables of settings: 'differing', a run in each column, and 'same'."""
    settings_of_runs: list[text.JsonObject] = []
    for run in runs:
        info, seconds = run.run.info, run.run.seconds
        versions = info.get('versions')
        settings_of_runs.append(
            {
                'finished': f'{run.run.finished:%Y-%m-%d %H:%M}',
                'minutes': text.format_value(seconds and seconds / 60, '.1f'),
                'directory': os.path.basename(run.run.model_dir),
                'command': info.get('command', '-'),
                **differences.collect_settings(run.run),
                **(versions if isinstance(versions, dict) else {}),
            }
        )
    names = list(dict.fromkeys(name for one in settings_of_runs for name in one))
    rows = [
        [name, *(_format_value(settings.get(name)) for settings in settings_of_runs)]
        for name in names
    ]
    return {
        'differing': [row for row in rows if len(set(row[1:])) > 1],
        'same': [row[:2] for row in rows if len(set(row[1:])) == 1],
    }


def _format_value(value: object) -> str:
    """Returns a setting as text for the page; '-' for one that a run does not have."""
    if value is None:
        return '-'
    plain = value if isinstance(value, str) else json.dumps(value)
    return text.shorten(text.hide_folders(plain), _LONGEST) or '-'
