"""Raw HLO files -> npz files."""
