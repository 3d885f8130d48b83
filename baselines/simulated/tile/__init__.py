"""Simulated tile data: kernels of invented programs, timed by a formula.

    from baselines.simulated.tile import dataset
    root = dataset.Kernels().ensure()       # what --sample_data trains on

`hlo` builds modules and `raw` turns them into the published features;
`programs`, `snippets`, `kernels` and `products` decide what is built; `tiles`
proposes configurations, `tpu` and `workload` time them; `dataset` puts kernels
together and writes folders of them.
"""
