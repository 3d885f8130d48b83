"""The store of a layout split: what it holds, when it is packed, what it takes."""

import dataclasses
import os
import subprocess
import sys

import numpy as np
import pytest

from baselines.data.layout import store as layout_store
from tests.helpers import layout_files
from tests.helpers import places
from tests.helpers import same_records

_ROOT = places.ROOT


def _open(split, **kwargs):
    return layout_store.LayoutStore.open(
        str(split), str(split.parent / 'cache'), **kwargs
    )


def test_programs_in_memory_are_checked():
    program = layout_files.make_program(np.random.default_rng(0))
    features = np.full_like(program.node_config_feat, 200)
    wrong = dataclasses.replace(program, node_config_feat=features)
    with pytest.raises(
        ValueError, match=': node_config_feat has 200.0 in configuration'
    ):
        layout_store.LayoutStore.of_records('here', [wrong])


def test_codes_of_all_widths_lie_side_by_side(tmp_path):
    rng = np.random.default_rng(0)
    programs = []
    # 15 codes of one byte, 900 of two, 15 of one; odd so that padding matters.
    for name, configs, nodes in (('a', 5, 3), ('b', 300, 3), ('c', 5, 3)):
        features = rng.integers(-1, 6, (configs, nodes, 18)).astype(np.float32)
        programs.append(
            layout_files.make_program(
                rng,
                name,
                configurable=nodes,
                configs=configs,
                node_config_feat=features,
            )
        )
    layout_files.write_split(tmp_path / 'train', programs)
    store = _open(tmp_path / 'train')
    assert [store.group_codes(i).dtype for i in range(3)] == [
        np.uint8,
        np.uint16,
        np.uint8,
    ]
    for i, program in enumerate(programs):
        codes = store.group_codes(i)
        assert codes.flags.aligned and not codes.flags.writeable
        same_records.assert_same(store.record(i), program)


def _child(split):
    """Starts a process that opens the split; prints fingerprint and peak MB."""
    program = """
import os, re, sys
from baselines.data.layout import store as layout_store
store = layout_store.LayoutStore.open(sys.argv[1], sys.argv[2])
# Not ru_maxrss, which a process inherits from the one that started it.
kilobytes = 0
if os.path.exists('/proc/self/status'):
    with open('/proc/self/status') as status:
        kilobytes = int(re.search('VmHWM:[^0-9]*([0-9]+)', status.read())[1])
print(store.fingerprint, kilobytes / 1024)
"""
    return subprocess.Popen(
        [sys.executable, '-c', program, str(split), str(split.parent / 'cache')],
        cwd=_ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.mark.slow
@pytest.mark.skipif(
    not os.path.exists('/proc/self/status'), reason='needs Linux to measure'
)
def test_a_large_file_takes_little_memory(tmp_path):
    # 230 MB of features; Python with NumPy takes 30 to 60 MB.
    features = np.zeros((1000, 3200, 18), np.float32)
    features[::3, ::2] = 1
    features[np.arange(1000), np.arange(1000)] = 2
    program = layout_files.make_program(
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
        **layout_files.arrays_of(program, node_config_feat=features),
    )
    output, errors = _child(tmp_path / 'train').communicate(timeout=60)
    assert not errors
    assert float(output.split()[1]) < 150
    store = _open(tmp_path / 'train')
    assert store.group_counts.tolist() == [1000]
    np.testing.assert_array_equal(
        store.record(0).node_config_feat[[999, 998]], features[[999, 998]]
    )
