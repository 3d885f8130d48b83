"""Print the settings of a run as TOML, which a training reads with --config.

    tpugraphs settings --dir latest > run.toml
    tpugraphs train tile --config=run.toml --seed=1

Settings that differ from the defaults are printed, also those that a recipe has set.
--resume and --results_csv belong to a single training, and are left out.
"""

import argparse

from baselines import scripts
from baselines.runs import finding
from baselines.runs import run_files
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    _options.add_runs(parser)


def run(args: argparse.Namespace) -> None:
    """Prints the settings."""
    run_file = run_files.read(finding.find_one(_options.get_run_name(args)))
    print(f'# {run_file.model_dir}')
    print(scripts.to_toml(scripts.list_changed_settings(run_file.args)), end='')
