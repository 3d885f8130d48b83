"""Names and numbers of the dataset, against what the extractor writes."""

import json

import pytest

from baselines.hlo import schema
from tests.helpers import hlo_modules

_NAMES = hlo_modules.SHARED / 'feature_names.json'


@pytest.mark.skipif(not _NAMES.exists(), reason=hlo_modules.NO_SHARED)
def test_columns_are_the_published_ones():
    names = json.loads(_NAMES.read_text())
    assert list(schema.NODE.names) == names['node_tile'] == names['node_layout']
    assert list(schema.TILE.names) == names['tile_config']


def test_positions():
    assert (len(schema.NODE), len(schema.TILE), len(schema.LAYOUT)) == (140, 24, 18)
    assert (schema.IS_ROOT, schema.NODE.at('is_stable')) == (0, 133)
    assert schema.NODE.block('window_size') == slice(37, 43)
    assert schema.NODE.block('dynamic_slice_sizes') == slice(121, 123)
    assert schema.TILE.block('output_bounds') == slice(8, 14)
    assert schema.LAYOUT.block('kernel') == slice(12, 18)
    assert (schema.TYPES, schema.DIMENSIONS) == (slice(2, 21), slice(21, 27))
    assert schema.MINOR_TO_MAJOR == slice(134, 140)


def test_numbers_of_opcodes():
    assert len(schema.OPCODES) == 120 and schema.OPCODES[-1] == 'tan'
    found = schema.find_opcode_numbers(['abs', 'convolution', 'Add', 'erf', 'tan'])
    assert found == [1, 26, 0, 0, 120]
