"""What a file holds: in words, and as a picture."""
