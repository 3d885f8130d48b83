"""What models are shown: raw columns, expanded, estimated and scaled."""
