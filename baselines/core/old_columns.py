"""Names that versions before 0.4 have for the column sets of `--columns`.

Settings in run files, recipes and TOML are translated; flags are refused.
"""

from collections.abc import Iterable, Mapping

from baselines.core import text

# By setting: the name of the column set, in the order of the sets.
SETS = {
    'tile_columns': 'tile',
    'loop_columns': 'loop',
    'exact_columns': 'loop',
    'release_columns': 'release',
    'estimate': 'estimate',
}
# By column set: the parts of a normaliser that hold the ranges of its columns.
_PARTS = {
    'tile': ('tile_columns',),
    'loop': ('loop_columns', 'exact_access_columns', 'exact_cost_columns'),
    'release': ('release_columns',),
}


def translate(settings: Mapping[str, object], is_tile: bool) -> text.JsonObject:
    """Returns settings of tiles with `columns` for the names of earlier versions.

    Args:
        settings: by name.
        is_tile: whether they are of tiles; those of layouts are returned unchanged.
    """
    if not is_tile or not settings.keys() & SETS:
        return dict(settings)
    others = {name: value for name, value in settings.items() if name not in SETS}
    # --exact_columns changed --loop_columns, and nothing without it.
    on = [old for old in SETS if settings.get(old) and old != 'exact_columns']
    sets = [str(others.get('columns', '')), *(SETS[old] for old in on)]
    return {**others, 'columns': ','.join(filter(None, dict.fromkeys(sets)))}


def refuse(names: Iterable[str]) -> None:
    """Raises ValueError for the name of a flag of tiles of an earlier version."""
    for name in names:
        if name in SETS:
            raise ValueError(f'--{name} is now --columns={SETS[name]}')


def translate_ranges(described: text.JsonObject) -> text.JsonObject:
    """Returns the JSON of a normaliser with ranges by column set.

    Raises:
        ValueError: it has columns that were withdrawn.
    """
    if 'access_columns_min' in described:
        raise ValueError(
            'normalizer: the model reads columns access_* and cost_*, which were '
            'withdrawn; train it again'
        )
    ranges = dict(described)
    for name, parts in _PARTS.items():
        for end in ('min', 'max'):
            lists = [ranges.pop(f'{part}_{end}', []) for part in parts]
            if any(lists):
                # What is no list is refused where the lists are read.
                joined = all(isinstance(values, list) for values in lists)
                ranges[f'{name}_{end}'] = sum(lists, []) if joined else None
    return ranges
