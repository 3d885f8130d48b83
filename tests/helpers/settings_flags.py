"""The flags of settings: those that are published, and how a script reads them."""

import functools

from absl import flags
import pytest

from baselines import config
from baselines import scripts

# The published flags (docs/design-contracts.md, 2), with defaults as absl writes them.
_TILE = """
epochs=100 early_stop=20 eval_every=5 losses=ListMLELoss:1,MSE:0.02 lr=0.001 configs=10
clip_norm=0.001 batch=10 model=EarlyJoinSAGE model_kwargs_json={} test_mode=predictions
out_dir=~/out/tpugraphs_tiles results_csv= validate_batches=-1 run_id= toy_data=false
data_root=~/data/tpugraphs/npz/tile/xla cache_dir=~/data/tpugraphs/cache/tile
"""
_LAYOUT = """
epochs=50 early_stop=25 lr=0.001 clip_norm=0.01 configs=16 max_configs=-1 batch=8
model=ResModel model_kwargs_json={} keep_nodes=5000 out_dir=~/out/tpugraphs_layout
results_csv= validate_batches=10 run_id= source=xla search=random toy_data=false
data_root=~/data/tpugraphs/npz/layout cache_dir=~/data/tpugraphs/cache/layout
"""
PUBLISHED = {
    kind: dict(word.split('=') for word in text.split())
    for kind, text in ((config.TileConfig, _TILE), (config.LayoutConfig, _LAYOUT))
}


def parse(*words, kind=config.TileConfig):
    """Reads settings as a script of its own would from the command line."""
    values = flags.FlagValues()
    scripts.define_flags(kind, values=values)
    values(['script', *scripts.rewrite_negations(words, values)])
    return scripts.read_flags(kind, values)


def is_option_text(about):
    """Tells whether a help text is one line from a small letter, without full stop."""
    return about[0].islower() and '\n' not in about and about[-1] != '.'


def check_upper_bounds(parser, capsys):
    """Checks that a command refuses huge numbers."""
    for action in parser._actions:
        assert action.type not in (int, float), 'declare it by `_options.add_option`'
        if isinstance(action.type, functools.partial):
            with pytest.raises(SystemExit) as caught:
                parser.parse_args([action.option_strings[0], str(10**20)])
            assert caught.value.code == 2
            errors = capsys.readouterr().err
            assert action.option_strings[0] in errors and str(10**20) in errors
