"""Download the published collections and unpack them.

The TpuGraphs dataset has five collections; each comes as three archives
(train, valid, test) of .npz files, one file per graph.  Files end up where
the training scripts look for them:

  <data_dir>/npz/tile/xla/train/...
  <data_dir>/npz/layout/xla/random/train/...

Examples:

  tpugraphs download
  tpugraphs download --collection tile:xla,layout:xla:random
  tpugraphs download --collection all --data_dir /mnt/disk/tpugraphs

The first fetches the tile collection, which is all that tiles_train.py needs.
An interrupted download goes on where it stopped when the command is run again;
files that are there already are kept, and whole splits are not fetched twice.
An archive and its contents are on the disk together until it is unpacked.

Without a network, or just to look around, --sample_data of the trainings takes
measured kernels or programs that ship, in the same format.
"""

from __future__ import annotations

import argparse

from baselines.core import exits
from baselines.core import text
from baselines.data import archives
from baselines.data import collections
from baselines.data import download
from tpugraphs.commands import _options


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    about = 'download these collections, separated by commas, or "all" (default: '
    about += f'%(default)s); there are {", ".join(collections.NAMES)}'
    _options.add_option(parser, '--collection', 'tile:xla', about)
    about = 'unpack the data into this folder'
    _options.add_option(parser, '--data_dir', '~/data/tpugraphs', about)
    about = 'fetch the archives from this address, such as a mirror'
    _options.add_option(parser, '--base_url', download.BASE_URL, about)
    about = 'keep the .tar files in <data_dir>/archives after unpacking'
    _options.add_switch(parser, '--keep_archives', about)


@exits.log_progress()
def run(args: argparse.Namespace) -> None:
    """Downloads split after split."""
    names = [name.strip() for name in args.collection.split(',')]
    for split in download.list_splits([name for name in names if name]):
        counts = download.download(
            split, args.data_dir, args.base_url, args.keep_archives
        )
        print(f'{split}: {_describe_outcome(counts)}', flush=True)


def _describe_outcome(counts: archives.Unpacked | None) -> str:
    """Describes the numbers of a split's files; None means it was on disk already."""
    if counts is None:
        return 'complete already'
    outcome = f'{text.count(counts.written, "file")} written, {counts.kept:,} kept'
    if counts.ignored:
        ignored = text.count(counts.ignored, 'other file')
        outcome += f', {ignored} in the archive ignored'
    return outcome
