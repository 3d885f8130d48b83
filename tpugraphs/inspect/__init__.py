"""Describes and draws the graphs and configurations of raw and npz files."""
