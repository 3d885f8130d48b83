"""Damaged npz files, and what a training makes of them: one line, no output."""

import os

import numpy as np


def assert_refused(code, printed, *words):
    """Checks for exit code 1 and one line on stderr that has all the words."""
    assert code == 1
    assert printed.err.startswith('error: ') and printed.err.endswith('\n')
    assert printed.err.count('\n') == 1, printed.err
    for word in words:
        assert word in printed.err


def outputs(tmp_path):
    """What is there beside `data/`, but for finished or locked caches."""
    names = sorted(
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob('*')
        if path.is_file()
    )
    return [
        name
        for name in names
        if not name.startswith('data/')
        and (name.startswith('cache/.') or not name.startswith('cache/'))
    ]


def save(path, **arrays):
    """Replaces some arrays of a file; None removes one."""
    with np.load(path, allow_pickle=False) as stored:
        old = {key: stored[key] for key in stored.files}
    new = {key: value for key, value in {**old, **arrays}.items() if value is not None}
    np.savez(path, **new)


def changed(key, change):
    """Makes a damage of a file: an array is replaced by `change` of it."""

    def damage(path):
        with np.load(path, allow_pickle=False) as stored:
            array = stored[key].copy()
        save(path, **{key: change(array)})

    return damage


def entry(key, index, value):
    """Makes a damage of a file: one entry of an array is another."""

    def change(array):
        array[index] = value
        return array

    return changed(key, change)


# Those that files of both collections can have, and what names them.
COMMON = {
    'truncated': (
        lambda path: os.truncate(path, path.stat().st_size // 2),
        'not a complete npz file',
    ),
    'empty': (lambda path: os.truncate(path, 0), 'not a complete npz file'),
    'text': (lambda path: path.write_text('text'), 'not a complete npz file'),
    'pickled': (
        changed('node_feat', lambda array: array.astype(object)),
        'node_feat holds pickled Python objects',
    ),
    'missing key': (
        lambda path: save(path, edge_index=None),
        'the array edge_index is missing',
    ),
    'too short': (
        changed('node_opcode', lambda array: array[1:]),
        'node_opcode has shape',
    ),
    'wrong width': (
        changed('node_feat', lambda array: array[:, 1:]),
        'columns of node_feat: 139, but 140',
    ),
    'wrong type': (
        changed('node_opcode', lambda array: array.astype(np.float32)),
        'node_opcode holds float32',
    ),
    'NaN': (entry('node_feat', (1, 3), np.nan), 'node_feat has 1 NaN or infinite'),
    'edge outside': (entry('edge_index', (0, 0), 99), 'edge_index has 99 in row 0'),
    'negative edge': (entry('edge_index', (0, 1), -1), 'edge_index has -1 in row 0'),
    'negative runtime': (
        entry('config_runtime', 0, -5),
        'config_runtime has -5 in row 0',
    ),
}
