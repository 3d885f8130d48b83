"""Measures the kernels of programs into a collection of npz files."""
