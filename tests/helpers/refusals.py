"""What users are told of their mistakes: one line."""

import pytest


def assert_refused(call, *words):
    """Makes sure that a call raises ValueError with these words in one line."""
    with pytest.raises(ValueError) as caught:
        call()
    message = str(caught.value)
    assert '\n' not in message
    for word in words:
        assert word in message
