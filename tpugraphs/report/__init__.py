"""Finished runs as one HTML file with pictures.  No TensorFlow, no network."""
