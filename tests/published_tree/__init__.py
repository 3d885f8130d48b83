"""The published tree as far as our files meet it, from docs/design-contracts.md alone.

These files stand in for the published code and its users; the tests copy them
into a folder of their own, where they run without ours.
"""
