"""Reads programs of all forms: files, functions, Keras models, SavedModels."""
