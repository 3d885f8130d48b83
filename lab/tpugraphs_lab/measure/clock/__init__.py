"""Times XLA modules in a separate process; does not know about kernels."""
