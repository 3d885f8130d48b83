"""Simulated layout data: whole invented programs, timed by a formula.

    from baselines.data import layout_sample
    root = layout_sample.ensure_layout_sample()

`ops` builds instructions, `gradients` differentiates them, `layers` and
`programs` make networks of them; `layouts` lists what a configuration can
choose, `costs` prices one instruction and `model` a program; `search` decides
what is measured, `generate` puts one file together and `dataset` writes all.
"""

from baselines.data.layout_sample.dataset import LayoutSizes as LayoutSizes
from baselines.data.layout_sample.dataset import (
    ensure_layout_sample as ensure_layout_sample,
)
from baselines.data.layout_sample.dataset import (
    generate_layout_dataset as generate_layout_dataset,
)
