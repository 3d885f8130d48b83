"""The run that ships with the laboratory, `--dir pretrained`.

`tools/measured_data/pretrain.py` makes it, and about.json, which describes it.
"""

import os
import pathlib

from baselines.core import untrusted

_INSTALL_AGAIN = 'install tpugraphs-lab again'


def folder() -> str:
    """Returns the folder of the run."""
    return str(pathlib.Path(__file__).with_name('pretrained'))


def describe() -> str:
    """Describes the run in one line: its data, and how well it ranks.

    Raises:
        ValueError: the installation is damaged.
    """
    path = os.path.join(folder(), 'about.json')
    try:
        about = untrusted.loads(untrusted.read(path))
        return (
            f'pretrained: {about["model"]} of {about["kernels"]:,} kernels measured '
            f'on {about["hardware"]}; on {about["unseen"]:,} kernels of unseen '
            f'programs its first choice saves {about["first"]:.0%} of the time that '
            f"could be saved over XLA's default, the best of ten {about['ten']:.0%}"
        )
    except (OSError, *untrusted.DAMAGE):
        raise ValueError(f'{path}: damaged; {_INSTALL_AGAIN}') from None
