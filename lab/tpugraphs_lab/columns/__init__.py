"""Columns of tiles that `collect` measures on a CPU, whose bounds count elements."""
