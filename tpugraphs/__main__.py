"""`python -m tpugraphs`: the command `tpugraphs`."""

import sys

from tpugraphs.commands.__main__ import main

if __name__ == '__main__':
    sys.exit(main())
