"""Whole jobs, one call each: train, predict, evaluate.  Commands are thin over them."""
