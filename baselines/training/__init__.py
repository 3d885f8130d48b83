"""What both tasks share about training: losses, the loop, and the run it leaves behind."""
