"""The tile collection: one small fused kernel, many tile sizes."""
