"""Bulk work on many processes and machines."""
