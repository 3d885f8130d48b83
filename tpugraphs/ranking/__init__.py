"""Ranks the configurations of raw files, programs and records with a run."""
