"""Reads candidate configurations as JSON, and puts them into tuning data.

    [{"output_bounds": [8, 128], "kernel_bounds": [256]}, ...]              tiles
    [{"layouts": {"12": {"output": [1, 0], "input": [0, 1]}}}, ...]         layouts

A tile candidate has `output_bounds`, `kernel_bounds` and `input_bounds`, fastest
dimension last as in the raw files; a list that is not there is empty, and others have
as many bounds as those of the module's own runs, or of the first candidate.  A layout
candidate has, for each configurable node by its number, minor_to_major of `output`,
`input` and `kernel`; all candidates name the same nodes.  `"is_default": true` marks
the compiler's own choice.  What else `tpugraphs rank --json` writes is passed over;
any other key is refused.
"""

from collections.abc import Sequence
from typing import Any

from google.protobuf import message

from baselines.core import files
from baselines.core import registry
from baselines.core import text
from baselines.core import untrusted
from baselines.hlo import protos
from baselines.hlo import reading
from baselines.hlo import schema

_MAX_BYTES = 1 << 30
# The largest bound that the message can hold, and the largest dimension.
_HIGHEST = {reading.TILE: 2**63 - 1, reading.LAYOUT: 127}
# Keys next to the configuration in the JSON of a ranking, which is valid input.
_OF_RANKING = (
    *('rank', 'run_index', 'score', 'runtime_ns', 'slowdown', 'is_default', 'config'),
    *('measured_ns', 'noise', 'ratio', 'outcome'),
    'iteration_bounds',
)


def read(path: str) -> list[Any]:
    """Reads the list of candidates in a JSON file, which is untrusted.

    Raises:
        ValueError: it is no JSON, or no list of objects.
        OSError: it cannot be read.
    """
    content = untrusted.read(files.expand(path), _MAX_BYTES)
    with text.locate_errors(f'--candidates: {path} is not JSON'):
        candidates = untrusted.loads(content)
    if not isinstance(candidates, list):
        raise ValueError(
            f'--candidates: {path} must be a list of configurations such as '
            '[{"output_bounds": [8, 128]}]'
        )
    return candidates


def make_tuning_data(
    tuning: message.Message, candidates: Sequence[Any], kind: str
) -> message.Message:
    """Copies a module's tuning data, with the candidates instead of its runs.

    Args:
        candidates: at least two, see above.
        kind: 'tile' or 'layout'.

    Raises:
        ValueError: a candidate is malformed; gives its number.
    """
    if len(candidates) < 2:
        raise ValueError(
            f'--candidates: {text.count(len(candidates), "configuration")}, so there '
            'is nothing to choose'
        )
    data = protos.ModuleTuningData(fingerprint=tuning.fingerprint)
    data.module.CopyFrom(tuning.module)
    reader = TileBounds(tuning)
    # Of layouts: the configurable nodes, which the first candidate defines.
    nodes: list[str] = []
    for number, candidate in enumerate(candidates):
        with text.locate_errors(f'--candidates: number {number}'):
            if not isinstance(candidate, dict):
                raise ValueError(f'it must be an object, not {text.quoted(candidate)}')
            run = data.runs.add(is_default=bool(candidate.get('is_default')))
            if kind == reading.TILE:
                sizes = run.op_config.tile_size_config
                for name, bounds in reader.read(candidate).items():
                    getattr(sizes, name).extend(bounds)
            else:
                _check_keys(candidate, ('layouts',))
                layouts = candidate.get('layouts')
                if not isinstance(layouts, dict) or not layouts:
                    raise ValueError('it has no "layouts" {node: {"output": [..]}}')
                nodes = nodes or sorted(layouts, key=_parse_node_number)
                if set(layouts) != set(nodes):
                    raise ValueError('its nodes are not those of the first')
                _set_layouts(run, [layouts[node] for node in nodes])
    data.config_index_to_node.extend(map(_parse_node_number, nodes))
    return data


class TileBounds:
    """Reads the lists of the tile candidates of one module.

    Args:
        tuning: a ModuleTuningData, whose runs' lists have the right lengths; if None or
            without runs, the first candidate with a list sets its length.
    """

    def __init__(self, tuning: message.Message | None = None):
        runs = [run.op_config.tile_size_config for run in tuning.runs] if tuning else []
        self._lengths = {
            name: {len(getattr(sizes, name)) for sizes in runs}
            for name in schema.TILE_LISTS
        }
        self._whose = "the module's own runs" if runs else 'a candidate before it'

    def read(self, candidate: text.JsonObject) -> dict[str, list[int]]:
        """Returns the lists of a candidate that are features; empty ones fit any.

        Raises:
            ValueError: there is no list, one is no list of whole numbers or has the
                wrong length, or a key is unknown.
        """
        _check_keys(candidate, schema.TILE_LISTS)
        lists = {n: candidate[n] for n in schema.TILE_LISTS if n in candidate}
        if not lists:
            raise ValueError(f'it has none of {", ".join(schema.TILE_LISTS)}')
        for name, bounds in lists.items():
            _check_numbers(name, bounds, reading.TILE)
            lengths = self._lengths[name]
            if bounds and not lengths:
                lengths.add(len(bounds))
            if bounds and len(bounds) not in lengths:
                allowed = ' or '.join(map(str, sorted(lengths)))
                raise ValueError(
                    f'{name} has {text.count(len(bounds), "bound")}, and {allowed} in '
                    f'{self._whose}: {text.quoted(bounds)}'
                )
        return lists


def _check_keys(candidate: text.JsonObject, names: Sequence[str]) -> None:
    """Raises ValueError for a key that is not among `names` or those of a ranking."""
    for key in candidate:
        if key not in names and key not in _OF_RANKING:
            meant = registry.suggest_nearest(str(key), names)
            raise ValueError(f'there is no key {text.quoted(key)}{meant}')


def _set_layouts(run: message.Message, layouts: Sequence[Any]) -> None:
    """Puts the layouts of nodes, {'output': [..], ..} each, into a ConfigProfile."""
    config = run.module_config.layout_config
    for arrays in layouts:
        node = config.nodes.add()
        if not isinstance(arrays, dict) or set(arrays) - set(schema.LAYOUT_ARRAYS):
            raise ValueError(f'a node has {", ".join(schema.LAYOUT_ARRAYS)} alone')
        present = [name for name in schema.LAYOUT_ARRAYS if name in arrays]
        if present != list(schema.LAYOUT_ARRAYS[: len(present)]):
            raise ValueError(f'a node with {present[-1]} has the arrays before it, too')
        for name in present:
            _check_numbers(name, arrays[name], reading.LAYOUT)
            node.tensors.add().dims.extend(arrays[name])


def _check_numbers(name: str, numbers: object, kind: str) -> None:
    """Raises ValueError unless `numbers` is a list of possible bounds or dimensions."""
    highest = _HIGHEST[kind]
    if not isinstance(numbers, list) or not all(
        type(n) is int and 0 <= n <= highest for n in numbers
    ):
        raise ValueError(
            f'{name} must be a list of whole numbers, not {text.quoted(numbers)}'
        )


def _parse_node_number(number: str) -> int:
    """Returns the number of a node, of which JSON has the digits."""
    # `isdigit` alone takes other digits, such as superscripts, which `int` refuses.
    if not (isinstance(number, str) and number.isascii() and number.isdigit()):
        raise ValueError(
            f'a node must be a number in quotes, not {text.quoted(number)}'
        )
    return int(number)
