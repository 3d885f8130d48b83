"""Columns of tiles on a TPU, whose bounds count registers of 8 x 128 elements."""
