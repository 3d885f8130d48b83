"""The data layer: files in, packed and memory-mapped arrays out.  Knows no TensorFlow."""
