"""Prints shell commands that download the published collections.

  python3 echo_download_commands.py | bash              # all of them
  python3 echo_download_commands.py tile | bash         # the tile collection alone

The files are unpacked in ~/data/tpugraphs; the archives stay there.  A second call
goes on where the first one stopped.  It needs curl, tar, and any Python from 3.6 on:
nothing has to be installed before.  `tpugraphs download` also checks the archives.
"""

import signal
import sys

URL = 'https://download.tensorflow.org/data/tpu_graphs/v0/'
FOLDER = '~/data/tpugraphs'
COLLECTIONS = (
    'npz_tile_xla',
    'npz_layout_xla_random',
    'npz_layout_xla_default',
    'npz_layout_nlp_random',
    'npz_layout_nlp_default',
)


def main(names: list):
    """Prints the commands for the collections with one of `names` in their name."""
    for name in names:
        if name not in ' '.join(COLLECTIONS):
            wrong = 'error: no collection has {!r} in its name; there are {}\n'
            sys.stderr.write(wrong.format(name, ', '.join(COLLECTIONS)))
            return 2
    print('set -eu\nmkdir -p {0}\ncd {0}'.format(FOLDER))
    for collection in COLLECTIONS:
        if names and not any(name in collection for name in names):
            continue
        for split in ('train', 'valid', 'test'):
            tar = '{}_{}.tar'.format(collection, split)
            curl = 'curl -fL --retry 5 -C - -o {0}.part {1}{0}'.format(tar, URL)
            print('test -e {0} || {{ {1} && mv {0}.part {0}; }}'.format(tar, curl))
            print('tar -xf {}'.format(tar))
    return 0


if __name__ == '__main__':
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` ends it silently
    sys.exit(main(sys.argv[1:]))
