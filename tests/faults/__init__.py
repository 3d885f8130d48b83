"""Faults of the machine and of files, for every command that they concern."""
