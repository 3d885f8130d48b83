"""Shares of splits as text, and groups put into parts by them."""

import pytest

from baselines.data import shares
from tests.helpers import refusals


def test_shares_in_words():
    assert shares.parse_shares('80/10/10') == (80, 10, 10)
    assert shares.parse_shares('2/1.5/0') == (2, 1.5, 0)
    assert shares.parse_shares('0/0/1') == (0, 0, 1)


@pytest.mark.parametrize('text', ['80/20', '0/0/0', '80/10/x', '1/1/-1', '80/nan/10'])
def test_what_are_no_shares(text):
    refusals.assert_refused(lambda: shares.parse_shares(text), '--split', repr(text))


def test_the_largest_go_first_to_where_most_is_missing():
    # 10 graphs: 6, 2 and 2 are missing.  a takes 5 of 6, then b 2 of 2 and c 2 of 2
    # (the first part has 1 left to miss), and d goes to the first.
    sizes = {'a': 5, 'b': 2, 'c': 2, 'd': 1}
    found = shares.share_out(sizes, (0.6, 0.2, 0.2))
    assert found == {'a': 0, 'b': 1, 'c': 2, 'd': 0}
    # A part without a share gets nothing.  Of 8, a and b take 3 of 6 each, c 2 of 2.
    found = shares.share_out({'a': 3, 'b': 3, 'c': 2}, (0.75, 0, 0.25))
    assert found == {'a': 0, 'b': 0, 'c': 2}


def test_every_part_gets_a_group():
    found = shares.share_out({'a': 9, 'b': 1, 'c': 1}, (0.8, 0.1, 0.1))
    assert found == {'a': 0, 'b': 1, 'c': 2}
    found = shares.share_out(dict.fromkeys('abcde', 1), (0.98, 0.01, 0.01))
    assert sorted(found.values()) == [0, 0, 0, 1, 2]
