"""Losses, optimisation, the loop, and the run that it leaves: for both tasks."""
