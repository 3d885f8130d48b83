"""Evaluates scores: metrics, rankings, submissions and reports."""
