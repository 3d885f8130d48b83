"""Tuning records: what was measured on which machine, read, written and exported."""
