"""Reads files into packed, memory-mapped arrays.  Does not use TensorFlow."""
