"""Measure programs on this machine: collect, rank, show (the laboratory)."""
