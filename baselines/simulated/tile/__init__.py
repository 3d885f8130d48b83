"""Simulated tile data: kernels of invented programs, timed by a formula.

    from baselines.simulated import tile as sample
    root = sample.ensure_sample()            # what --sample_data trains on
    record = sample.generate_kernel('train', 0, seed=0)

`hlo` builds modules and `hlo_rows` turns them into the published features;
`programs`, `snippets`, `kernels` and `products` decide what is built; `tiles`
proposes configurations, `tpu` and `workload` time them; `generate` puts one
kernel together and `dataset` writes folders of them.
"""

from baselines.simulated.tile.dataset import Sizes as Sizes
from baselines.simulated.tile.dataset import ensure_sample as ensure_sample
from baselines.simulated.tile.dataset import generate_dataset as generate_dataset
from baselines.simulated.tile.generate import generate_kernel as generate_kernel
