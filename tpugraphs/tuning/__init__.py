"""Searches for faster configurations of a program, and proves the gain by timing."""
