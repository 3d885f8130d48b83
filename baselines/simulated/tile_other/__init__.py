"""A second simulator of tile kernels: other programs, machine and rules."""
