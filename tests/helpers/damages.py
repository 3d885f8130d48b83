"""Damaged npz files, and what a training makes of them: one line, no output."""

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
