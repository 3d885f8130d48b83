"""Deletes finished runs: only the files that their trainings wrote."""

import contextlib
import os
import shutil

from baselines.core import files
from baselines.runs import finding
from baselines.runs import run_files


def paths_of(model_dir: str) -> list[str]:
    """Returns what `delete` removes of a run: its directory, CSV and run file.

    The CSV is the one at the default path.  A file of --results_csv is kept: a run file
    may come from someone else, and name any path.

    Args:
        model_dir: absolute.

    Raises:
        ValueError: it is the run that ships, or no run: a folder of the user may have
            such a name; or a training of its settings is running.
    """
    if finding.is_pretrained(model_dir):
        raise ValueError(f'--delete: {finding.PRETRAINED} is a part of the package')
    run_file = run_files.run_file(model_dir)
    if not os.path.lexists(run_file):
        raise ValueError(
            f'--delete: {model_dir} is no run, as there is no {run_file}; remove it '
            'yourself'
        )
    paths, process = [model_dir], ''
    with contextlib.suppress(ValueError, OSError):  # damaged, or a published run
        run = run_files.read(model_dir)
        process = files.holder(run.lock_file)
        paths.extend(run.ranking_files)
    if process:
        raise ValueError(
            f'--delete: {process} trains with the settings of {model_dir}; wait for it'
        )
    return [path for path in (*paths, run_file) if os.path.lexists(path)]


def delete(model_dir: str) -> None:
    """Removes a run; raises ValueError, see `paths_of`, or OSError.

    The run file is removed last, so that an interrupted deletion can be repeated.
    """
    for path in paths_of(model_dir):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
