"""Programs of the layout collections: records, and splits of them."""
