"""Files in, packed and memory-mapped arrays out.  Knows no TensorFlow."""
