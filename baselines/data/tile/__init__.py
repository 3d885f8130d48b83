"""Kernels of the tile collection: records, and splits of them."""
