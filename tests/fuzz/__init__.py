"""Damaged files of strangers, in every format."""
