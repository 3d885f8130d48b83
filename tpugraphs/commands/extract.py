"""Turn raw HLO protobufs (.pb) into npz files for training and ranking.

    tpugraphs extract ~/raw/tuning_data.pb ~/data/mine/train
    tpugraphs extract ~/raw 'more/*.pb' ~/data/mine/train --pad=-1
    tpugraphs extract ~/raw ~/data/mine --split 80/10/10 --by file

A raw file is a TuningData (tile collection: many kernels) or a
ModuleTuningData (layout collection: one program); which one it is shows in its
bytes.  Each module becomes OUT/<module name>_<fingerprint>.npz, in the schema
of the published dataset; files appear whole or not at all.

Modules whose file is in OUT already are not extracted again, so a broken-off
job goes on where it was; --overwrite replaces them.  A file or module that is
wrong is named, the others are extracted, and the exit code is 1.

More than 64 files, or any --runner, go through Apache Beam: its local runner
uses all cores, any other installed one works too if its workers see the same
folders (docs/guide/scale.md):

    tpugraphs extract ~/raw OUT --runner=FlinkRunner \\
        --beam_options='--flink_master=host:8081'
"""

import argparse

from baselines.core import exits
from baselines.core import settings as settings_lib
from baselines.hlo import reading
import tpugraphs
from tpugraphs import extract
from tpugraphs.commands import _options
from tpugraphs.extract import splitting


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument(
        'inputs',
        nargs='+',
        metavar='IN.pb',
        help='raw files, folders (searched for *.pb) or globs',
    )
    parser.add_argument('output', metavar='OUT', help='folder of the npz files')
    about = 'read raw files of this collection (default: that of the first file)'
    _options.add_option(parser, '--kind', str, about, choices=reading.KINDS)
    about = 'fill absent list entries with this; 0 as published looks like dimension 0'
    _options.add_option(parser, '--pad', 0, about, choices=(0, -1))
    about = 'also write node_feat_extra: dimension numbers and more'
    _options.add_switch(parser, '--extra', about)
    _options.add_switch(parser, '--overwrite', 'replace files in OUT')
    about = 'cut into OUT/train, OUT/valid and OUT/test, such as 80/10/10'
    _options.add_option(parser, '--split', '', about, metavar='SHARES')
    about = 'keep together in a split: a program (the name without its fingerprint), '
    about += 'a raw file, or only a module'
    _options.add_option(parser, '--by', splitting.BY[0], about, choices=splitting.BY)
    _options.add_beam_arguments(parser)


@exits.log_progress()
def run(args: argparse.Namespace) -> int:
    """Extracts the files, and prints a summary."""
    tpugraphs.beam.check_arguments(args)
    options = settings_lib.make_from_options(extract.extractor.ExtractionOptions, args)
    return extract.extraction.extract(args.inputs, options)
