"""Learned cost models for tensor compilers, on the TpuGraphs dataset."""
