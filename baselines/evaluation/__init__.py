"""From scores to answers: metrics, rankings, submissions and reports."""
