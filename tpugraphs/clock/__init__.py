"""Times modules of XLA in a process of its own; knows no kernels."""
