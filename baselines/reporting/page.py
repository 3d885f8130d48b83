"""The page: pictures in sections, tables, and one file of it all."""

import itertools
import json
import os
import types
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

from baselines import files
from baselines import text
from baselines.evaluation import metrics
from baselines.reporting import figures
from baselines.reporting import search
from baselines.reporting import svg
from baselines.runs import differences

_LONGEST = 300  # letters of a setting


class Section(NamedTuple):
    """Some pictures under a title.

    Attributes:
        title: of the section.
        words: what its pictures show, plain text.
        pictures: at least one, but where there are tables.
        tables: by title, rows of equal length, of which the first is the head.
    """

    title: str
    words: str
    pictures: List[svg.Picture]
    tables: Mapping[str, List[List[str]]] = types.MappingProxyType({})


def write(
    path: str, runs: Sequence[figures.Run], sweeps: Sequence[Dict[str, Any]] = ()
) -> None:
    """Writes a report of runs of one collection.

    All that comes from run files and data is escaped, and the page forbids itself
    scripts and anything from elsewhere.

    Args:
        path: the HTML file.
        runs: measured.
        sweeps: what `tpugraphs sweep show --json` says of each.

    Raises:
        ValueError: jinja2 is not installed.
        OSError: the file cannot be written.
    """
    try:
        # Only reports need it.
        import jinja2  # pylint: disable=import-outside-toplevel
    except ImportError:
        raise ValueError('reports need jinja2: pip install jinja2') from None

    environment = jinja2.Environment(
        autoescape=True,
        loader=jinja2.FileSystemLoader(os.path.dirname(__file__)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections, numbers = [], itertools.count(1)
    for section in [*map(_of_sweep, sweeps), *_sections(runs)]:
        pictures = [
            picture._replace(svg=svg.numbered(picture.svg, number))
            for picture, number in zip(section.pictures, numbers)
        ]
        sections.append(section._replace(pictures=pictures))
    first = runs[0].summary
    measured_on = dict.fromkeys(os.path.dirname(r.summary['data']) for r in runs)
    page = environment.get_template('page.html').render(
        title=f'{text.count(len(runs), "run")} of {first["collection"]}',
        data=text.printable(f'{first["split"]} of {"; ".join(measured_on)}'),
        collection=first['collection'],
        results=_results(runs),
        sections=sections,
        settings=_settings(runs),
        names=[text.printable(run.name) for run in runs],
    )
    with files.write_atomically(path, encoding='utf-8') as stream:
        stream.write(page)


def _of_sweep(found: Dict[str, Any]) -> Section:
    return Section(
        f'Sweep: {text.printable(found["study"])}',
        search.words(found),
        search.pictures(found),
        search.tables(found),
    )


def _sections(runs: Sequence[figures.Run]) -> List[Section]:
    layouts = runs[0].summary['task'] == 'layout'
    noun = 'programs' if layouts else 'kernels'
    found = [
        Section(
            'Learning curves',
            'How training went, on configurations drawn once for validation.',
            figures.curves(runs),
        ),
        Section(
            'Program by program',
            'Where it is good, and where it is not.',
            [figures.programs(runs, 'kendall_tau', "Kendall's tau")]
            if layouts
            else [
                figures.programs(runs, 'top_5_error', 'top-5 error'),
                figures.programs(runs, 'opa', 'OPA'),
            ],
        ),
        Section(
            'What trying more is worth',
            f'An autotuner measures the k favourites of a {noun[:-1]}.',
            [figures.slowdowns(runs)],
        ),
        Section(
            'Calibration',
            'Whether a larger difference of scores means a larger ratio of runtimes. '
            'Pairs are drawn at random, as many of each graph.',
            [p for p in map(figures.calibration, range(len(runs)), runs) if p],
        ),
    ]
    found += [
        Section(
            f'Single {noun}: {text.printable(run.name)}',
            f'Predicted rank against measured runtime; {noun} are ordered by tau.',
            figures.rankings(i, run),
        )
        for i, run in enumerate(runs)
    ]
    return [section for section in found if section.pictures]


def _results(runs: Sequence[figures.Run]) -> List[List[str]]:
    """A table: a measure in each row, a run in each column."""
    first = runs[0].summary
    rows = []
    for measure in metrics.MEASURES[first['task']]:
        row = [measure.title]
        for run in runs:
            one = run.summary['overall'][measure.key]
            row.append(figures.with_interval(one, measure.show))
        random = first['overall'][measure.key]['random']
        rows.append([*row, text.cell(random, measure.show)])
    return rows


def _settings(runs: Sequence[figures.Run]) -> Dict[str, List[List[str]]]:
    """Settings that differ and those that do not; a run in each column."""
    said: List[Dict[str, Any]] = []
    for run in runs:
        info = run.run.info
        versions = info.get('versions')
        said.append(
            {
                'finished': f'{run.run.finished:%Y-%m-%d %H:%M}',
                'minutes': text.cell(run.run.seconds and run.run.seconds / 60, '.1f'),
                'directory': run.run.model_dir,
                'command': info.get('command', '-'),
                **differences.settings_of(run.run),
                **(versions if isinstance(versions, dict) else {}),
            }
        )
    names = list(dict.fromkeys(name for one in said for name in one))
    rows = [[name, *(_shown(one.get(name)) for one in said)] for name in names]
    return {
        'differing': [row for row in rows if len(set(row[1:])) > 1],
        'same': [row[:2] for row in rows if len(set(row[1:])) == 1],
    }


def _shown(value: Any) -> str:
    words = value if isinstance(value, str) else json.dumps(value)
    return text.shortened(text.printable(words), _LONGEST) or '-'
