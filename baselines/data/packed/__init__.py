"""Splits as packed, memory-mapped columns: what both collections share."""
