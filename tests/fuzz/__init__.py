"""Damaged files of strangers, and processes killed at random moments."""
