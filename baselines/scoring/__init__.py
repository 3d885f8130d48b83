"""Scores and ranks graphs with finished runs, ensembles, or the untrained estimate."""
