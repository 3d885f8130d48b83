"""Features of models: raw columns scaled, and columns computed from them."""
