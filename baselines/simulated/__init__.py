"""Simulated data in the published layout: no measurements."""
