"""Search for settings: many trainings, compared."""
