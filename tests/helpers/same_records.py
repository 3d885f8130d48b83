"""Compares records of graphs field by field."""

import dataclasses
from typing import Any

import numpy as np


def assert_same(record: Any, expected: Any) -> None:
    """Asserts that records have equal fields, and arrays of equal dtypes."""
    for field in dataclasses.fields(expected):
        value, wanted = getattr(record, field.name), getattr(expected, field.name)
        if isinstance(wanted, np.ndarray):
            assert value.dtype == wanted.dtype, field.name
            np.testing.assert_array_equal(value, wanted, field.name)
        else:
            assert value == wanted
