"""What every package uses: files, text, progress, registries, untrusted data."""
