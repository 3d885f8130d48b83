"""What `import tpugraphs` offers: runs, data, rankings, tuning, and their results."""
