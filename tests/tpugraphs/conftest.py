"""What tests of the toolkit share."""

import pytest


@pytest.fixture(autouse=True)
def _no_records_of_the_user(monkeypatch, tmp_path):
    """The records that are kept by default are in the home folder."""
    monkeypatch.setenv('HOME', str(tmp_path / 'home'))
