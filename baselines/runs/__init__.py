"""Runs on disk: finding them by name, listing and comparing them.  No TensorFlow."""
