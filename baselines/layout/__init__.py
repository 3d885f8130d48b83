"""The layout task: whole programs, scored under layouts of their nodes."""
