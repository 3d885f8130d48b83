"""What users are told of their mistakes: one line."""

import pytest


def read_message(call, error_type=ValueError):
    """Returns the one line with which a call fails."""
    with pytest.raises(error_type) as caught:
        call()
    message = str(caught.value)
    assert '\n' not in message
    return message


def assert_refused(call, *words):
    """Makes sure that a call raises ValueError with these words in one line."""
    message = read_message(call)
    for word in words:
        assert word in message
