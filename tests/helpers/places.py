"""Where the checkout is, and the data beside it that some tests read if it is there."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / 'shared' / 'data'
