"""Simulated layout data: whole invented programs, timed by a formula.

    from baselines.simulated.layout import dataset
    root = dataset.Programs().ensure()      # what --sample_data trains on

`ops` builds instructions, `gradients` differentiates them, `layers` and
`programs` make networks of them; `layouts` lists what a configuration can
choose, `costs` prices one instruction and `model` a program; `search` decides
what is measured, and `dataset` puts files together and writes them.
"""
