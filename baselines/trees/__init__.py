"""Gradient-boosted trees: the file of a booster, its scores, and how it is grown."""
