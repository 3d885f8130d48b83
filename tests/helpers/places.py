"""Where the checkout is, and the optional data next to it that some tests read."""

import pathlib

ROOT = pathlib.Path(__file__).parents[2]
SHARED = ROOT.parent / 'shared' / 'data'
