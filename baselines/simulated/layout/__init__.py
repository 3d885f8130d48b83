"""Simulated layout data: whole invented programs, timed by a formula.

    from baselines.simulated import layout as layout_sample
    root = layout_sample.ensure_layout_sample()

`ops` builds instructions, `gradients` differentiates them, `layers` and
`programs` make networks of them; `layouts` lists what a configuration can
choose, `costs` prices one instruction and `model` a program; `search` decides
what is measured, `generate` puts one file together and `dataset` writes all.
"""

from baselines.simulated.layout.dataset import LayoutSizes as LayoutSizes
from baselines.simulated.layout.dataset import (
    ensure_layout_sample as ensure_layout_sample,
)
from baselines.simulated.layout.dataset import (
    generate_layout_dataset as generate_layout_dataset,
)
