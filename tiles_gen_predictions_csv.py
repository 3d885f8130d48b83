"""Ranks the test kernels with a trained tile model, from its directory alone.

  python tiles_gen_predictions_csv.py --dir latest

The run file run_<hash>.jsonz is expected next to the directory.  A run that was
trained with another models.py needs it: --models_file=path/to/models.py (its
code is run).  The result is for create_kaggle_csv.py.
"""

import baselines  # noqa: F401  says what is missing before the rest is imported

# isort: split
from collections.abc import Sequence

from absl import flags

from baselines import config
from baselines import scripts
from baselines.core import exits
from baselines.core import settings as settings_lib
from baselines.runs import finding


def define_flags() -> None:
    """Defines the flags; only the running script does."""
    flags.DEFINE_multi_string('dir', [], f'use this run: {finding.FORMS}')
    flags.DEFINE_list(
        'dirs',
        [],
        'use these runs, separated by commas; with more than one the files are named '
        'after --output and the hash',
    )
    flags.DEFINE_string('output', 'predictions_output_model.csv', 'write this CSV')
    flags.DEFINE_string(
        'data_root',
        '',
        'read the splits from this folder (default: where the run was trained, if '
        f'that is there, else {config.TileConfig.data_root})',
    )
    flags.DEFINE_string(
        'models_file', '', settings_lib.get_help(config.TileConfig, 'models_file')
    )
    scripts.define_flags(
        config.TileConfig, ('cache_dir', 'sample_data', 'toy_data', 'skip_bad_files')
    )


def main(argv: Sequence[str], values: flags.FlagValues = flags.FLAGS) -> int:
    """Reads the flags and predicts."""
    exits.refuse_arguments(argv)

    def work():
        dirs = [*values.dir, *values.dirs]
        if not dirs:
            raise ValueError(f'--dir is missing: name a run, which is {finding.FORMS}')
        from baselines.scoring import prediction

        options = settings_lib.make_from_options(
            prediction.Options, values, task='tile'
        )
        prediction.write_predictions(dirs, options, values.output)

    return exits.run_guarded(work)


if __name__ == '__main__':
    define_flags()
    scripts.run_script(main, __doc__)
