"""Losses, optimisation, the training loop and its checkpoints, for both tasks."""
