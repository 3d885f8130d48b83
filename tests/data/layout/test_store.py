"""The store of a layout split: what it holds, when it is packed, what it takes."""

import os
import subprocess
import sys

import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from tests.helpers import layout_files
from tests.helpers import places
from tests.helpers import same_records


def _open(split, **kwargs):
    return layout_store.LayoutStore.open(
        str(split), str(split.parent / 'cache'), **kwargs
    )


def test_codes_of_all_widths_lie_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    programs = []
    # 15 codes of one byte, 900 of two, 15 of one; odd so that padding matters.
    for name, configs, nodes in (('a', 5, 3), ('b', 300, 3), ('c', 5, 3)):
        features = rng.integers(-1, 6, (configs, nodes, 18)).astype(np.float32)
        fields = dict(configurable=nodes, node_config_feat=features, configs=configs)
        programs.append(layout_files.make_record(rng, name, **fields))
    layout_files.write_split(tmp_path / 'train', programs)
    store = _open(tmp_path / 'train')
    widths = [store.group_codes(i).dtype.itemsize for i in range(3)]
    assert widths == [1, 2, 1]
    for i, program in enumerate(programs):
        codes = store.group_codes(i)
        assert codes.flags.aligned and not codes.flags.writeable
        same_records.assert_same(store.record(i), program)


# Prints the peak memory of a process that opens a split.  Not ru_maxrss, which it
# inherits from the one that started it.
_OPEN = """
import re, sys
from baselines.data.layout import store as layout_store
layout_store.LayoutStore.open(sys.argv[1], sys.argv[2])
with open('/proc/self/status') as status:
    print(int(re.search('VmHWM:[^0-9]*([0-9]+)', status.read())[1]) / 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not os.path.exists('/proc/self/status'), reason='needs Linux to measure'
)
def test_a_large_file_takes_little_memory(tmp_path):
    # 230 MB of features; Python with NumPy takes 30 to 60 MB.
    features = np.zeros((1000, 3200, 18), np.float32)
    features[::3, ::2] = 1
    features[np.arange(1000), np.arange(1000)] = 2
    program = layout_files.make_record(
        np.random.default_rng(0),
        nodes=3200,
        configurable=3200,
        configs=1000,
        node_config_feat=features[:0],
        node_features=2,
    )
    (tmp_path / 'train').mkdir()
    np.savez_compressed(
        tmp_path / 'train/graph.npz',
        **layout_files.list_arrays(program, node_config_feat=features),
    )
    words = [sys.executable, '-c', _OPEN, tmp_path / 'train', tmp_path / 'cache']
    done = subprocess.run(words, cwd=places.ROOT, capture_output=True, check=True)
    assert float(done.stdout) < 150
    store = _open(tmp_path / 'train')
    assert store.group_counts.tolist() == [1000]
    np.testing.assert_array_equal(
        store.record(0).node_config_feat[[999, 998]], features[[999, 998]]
    )
