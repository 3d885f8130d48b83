"""Damaged and malicious files, in every format.

TPUGRAPHS_EXAMPLES=5000 python -m pytest -m slow tests/fuzz    # a longer search
"""
