"""What several tests make use of."""
