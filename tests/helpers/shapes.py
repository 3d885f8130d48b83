"""Holds what commands print as JSON to the examples of docs/guide/json.md."""

import json
import re

from tests.helpers import documents

_PAGE = 'docs/guide/json.md'


def check_shape(heading, printed):
    """Parses JSON, fails unless it has the shape of its example, and returns it."""
    text = (documents.ROOT / _PAGE).read_text(encoding='utf-8')
    section = text.split(f'\n## {heading}\n')[1].split('\n## ')[0]
    example = json.loads(re.search('```json\n(.*?)```', section, re.DOTALL)[1])
    value = json.loads(printed)
    wrong = list_complaints(value, example)
    assert not wrong, f'{_PAGE}, {heading}: {wrong}'
    return value


def list_complaints(value, example, where='$'):
    """Lists where a value differs in shape from an example; null fits everything.

    A key in capitals stands for all keys that the example does not name.
    """
    if value is None or example is None:
        return []
    if isinstance(example, list) and isinstance(value, list):
        return [
            complaint
            for place, item in enumerate(value)
            for kind in example[:1]
            for complaint in list_complaints(item, kind, f'{where}[{place}]')
        ]
    if isinstance(example, dict) and isinstance(value, dict):
        rest = [key for key in example if key.isupper()]
        named = example.keys() - rest
        wrong = [f'{where} lacks {key}' for key in sorted(named - value.keys())]
        for key, item in value.items():
            if key not in named and not rest:
                wrong.append(f'{where}.{key} is not documented')
            else:
                kind = example[key if key in named else rest[0]]
                wrong += list_complaints(item, kind, f'{where}.{key}')
        return wrong
    numbers = (int, float)
    both = isinstance(value, numbers) and isinstance(example, numbers)
    both = both and isinstance(value, bool) == isinstance(example, bool)
    if both or type(value) is type(example):
        return []
    return [f'{where} is {value!r}, not like {example!r}']
