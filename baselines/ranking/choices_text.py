"""Ranked configurations as tables for a terminal."""

from typing import Any, Dict, List, Optional

from baselines.extraction import report as extract_report
from baselines.inspection import text as show_text
from baselines.ranking import choices

# Layouts of a whole program are long.
_MAX_WORDS = 100
_DEFAULT = "compiler's default"


def module_table(ranked: choices.Ranked, top: int) -> str:
    """Returns a heading, the first `top` configurations, and the default.

    Args:
        ranked: a module.
        top: rows, at least 1.
    """
    rows = list(range(min(top, len(ranked.scores))))
    cells = [['rank', 'run', 'score', 'runtime', 'slowdown', 'configuration']]
    cells += [_row(ranked, position) for position in rows]
    if ranked.default is not None and ranked.default not in rows:
        cells.append(_row(ranked, ranked.default))
    if ranked.fastest is None:
        cells = [row[:3] + row[5:] for row in cells]
    widths = [max(map(len, column)) for column in zip(*cells)]
    lines = [
        f'{ranked.module}  {ranked.nodes:,} nodes, '
        f'{len(ranked.scores):,} configurations'
    ]
    for row in cells:
        right = [cell.rjust(width) for cell, width in zip(row, widths)]
        lines.append('  ' + '  '.join(right[:-1] + [row[-1]]))
    return '\n'.join(lines + _costs(choices.figures(ranked)))


def _row(ranked: choices.Ranked, position: int) -> List[str]:
    words = ranked.config(position)
    if len(words) > _MAX_WORDS:
        words = words[: _MAX_WORDS - 3] + '...'
    if position == ranked.default:
        words += ' (default)'
    runtime = slowdown = '-'
    time = int(ranked.runtimes[position])
    if time:
        runtime = show_text.duration(time)
        slowdown = f'{time / ranked.fastest:.3f}'
    return [
        f'{position + 1:,}',
        str(ranked.run_index[position]),
        f'{ranked.scores[position]:.4f}',
        runtime,
        slowdown,
        words,
    ]


def _costs(found: Optional[choices.Figures]) -> List[str]:
    if not found:
        return []
    best = ' / '.join(f'{found.slowdown[k]:.3f}' for k in choices.TOP_K)
    line = f'  best of the first 1 / 5 / 10: {best} x the fastest'
    if found.against_default:
        line += f"; the first takes {found.against_default:.3f} x the default's time"
    return [line]


def summary_table(summary: Dict[str, Any]) -> str:
    """Returns the closing lines over all modules.

    Args:
        summary: from `choices.Summary.to_json`.
    """
    lines = [
        f'{_count(summary["modules"], "module")} with '
        f'{_count(summary["configurations"], "configuration")} ranked'
    ]
    measured, default = summary['measured_modules'], summary['default']
    if not measured:
        return lines[0]
    lines.append(
        f'slowdown over the fastest, mean of {_count(measured, "module")} with '
        'known runtimes'
    )
    lines.append(
        f'  {"best of the first":<20}' + ''.join(f'{k:>8}' for k in choices.TOP_K)
    )
    for name, key in (('model', 'slowdown'), ('random choice', 'random')):
        lines.append(
            f'  {name:<20}'
            + ''.join(f'{value:>8.3f}' for value in summary[key].values())
        )
    if default:
        # In some modules the default may not have been measured.
        of = f'  (of {default["modules"]:,})' * (default['modules'] < measured)
        lines.append(f'  {_DEFAULT:<20}{default["slowdown"]:>8.3f}{of}')
        lines.append(
            f"the model's first choice takes {default['ratio']:.3f} x the "
            f"default's time (geometric mean): faster in {default['faster']}, "
            f'the same in {default["same"]}, slower in {default["slower"]}'
        )
    return '\n'.join(lines)


def remarks(skipped: Dict[str, List[str]], opcodes: Dict[str, int]) -> List[str]:
    """Returns lines about what was left out or not known.

    Args:
        skipped: reason -> modules.
        opcodes: opcode -> nodes with it.
    """
    lines = [
        f'skipped: {extract_report.reasons({reason: names})}'
        for reason, names in skipped.items()
    ]
    if opcodes:
        lines.append(
            'note: the model does not know these opcodes, and takes all for '
            f'one: {extract_report.most_common(opcodes)}'
        )
    return lines


def _count(number: int, noun: str) -> str:
    return f'{number:,} {noun}{"s" * (number != 1)}'
