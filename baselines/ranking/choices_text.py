"""Ranked configurations as tables for a terminal."""

from typing import Any, Dict, List, Optional

from baselines import text
from baselines.ranking import choices

# Layouts of a whole program are long.
_MAX_WORDS = 100


def module_table(ranked: choices.Ranked, top: int) -> str:
    """Returns a heading, the first `top` configurations, and the default."""
    rows = list(ranked.rows(top))
    if ranked.default is not None and ranked.default >= len(rows):
        rows.append(ranked.row(ranked.default))
    cells = [['rank', 'run', 'score', 'runtime', 'slowdown', 'configuration']]
    cells += map(_cells, rows)
    if ranked.fastest is None:
        cells = [row[:3] + row[5:] for row in cells]
    lines = [
        f'{ranked.module}  {ranked.nodes:,} nodes, '
        f'{len(ranked.scores):,} configurations',
        *text.table(cells, '>' * (len(cells[0]) - 1) + '<', indent=2),
    ]
    return '\n'.join(lines + _costs(choices.figures(ranked)))


def _cells(row: Dict[str, Any]) -> List[str]:
    words, time = row['config'], row['runtime_ns']
    if len(words) > _MAX_WORDS:
        words = words[: _MAX_WORDS - 3] + '...'
    return [
        f'{row["rank"]:,}',
        str(row['run_index']),
        f'{row["score"]:.4f}',
        text.duration(time) if time else '-',
        text.cell(row['slowdown'], '.3f'),
        words + ' (default)' * row['is_default'],
    ]


def _costs(found: Optional[Dict[str, Any]]) -> List[str]:
    if not found:
        return []
    best = ' / '.join(f'{found["slowdown"][k]:.3f}' for k in choices.TOP_K)
    line = f'  best of the first 1 / 5 / 10: {best} x the fastest'
    if found['against_default']:
        ratio = f'{found["against_default"]:.3f}'
        line += f"; the first takes {ratio} x the default's time"
    return [line]


def summary_table(summary: Dict[str, Any]) -> str:
    """Returns the closing lines over all modules, of `choices.Summary.to_json`."""
    measured, default = summary['measured_modules'], summary['default']
    lines = [
        f'{text.count(summary["modules"], "module")} with '
        f'{text.count(summary["configurations"], "configuration")} ranked'
    ]
    if not measured:
        return lines[0]
    lines.append(
        f'slowdown over the fastest, mean of {text.count(measured, "module")} with '
        'known runtimes'
    )
    rows = [['best of the first', *map(str, choices.TOP_K)]]
    for name, key in (('model', 'slowdown'), ('random choice', 'random')):
        rows.append([name, *(f'{value:.3f}' for value in summary[key].values())])
    if default:
        rows.append(["compiler's default", f'{default["slowdown"]:.3f}', '', ''])
    lines += text.table(rows, indent=2)
    if default:
        # In some modules the default may not have been measured.
        lines[-1] += f'  (of {default["modules"]:,})' * (default['modules'] < measured)
        lines.append(
            f"the model's first choice takes {default['ratio']:.3f} x the "
            f"default's time (geometric mean): faster in {default['faster']}, "
            f'the same in {default["same"]}, slower in {default["slower"]}'
        )
    return '\n'.join(lines)


def remarks(skipped: Dict[str, List[str]], opcodes: Dict[str, int]) -> List[str]:
    """Returns lines about modules left out by reason, and nodes of unknown opcodes."""
    lines = [
        f'skipped: {text.reasons({reason: names})}' for reason, names in skipped.items()
    ]
    if opcodes:
        lines.append(
            'note: the model does not know these opcodes, and takes all for '
            f'one: {text.most_common(opcodes)}'
        )
    return lines
