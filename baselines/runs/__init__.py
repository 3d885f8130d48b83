"""Runs on disk: found by name, listed, and told apart.  No TensorFlow."""
