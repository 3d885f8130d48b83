"""Cuts programs into kernels, chooses their tiles, rewrites and reassembles."""
