import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.units import format_bits, format_count, format_si


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.2e-9, "1.2 nJ"), (0, "0 J"), (-0.0, "0 J"), (1, "1 J"), (999.9, "1 kJ"), (123.4e6, "123 MJ"),
        (-5e-6, "-5 µJ"), (math.inf, "inf J"), (-math.inf, "-inf J"), (math.nan, "nan J"), (1e40, "1e+40 J"),
    ],
)  # fmt: skip
def test_quantities_have_three_digits_and_a_prefix(value, text):
    assert format_si(value, "J") == text


def test_without_unit_the_prefix_stands_alone():
    assert format_si(2000, "") == "2 k"
    assert format_si(2, "") == "2"


@given(st.floats(1e-25, 1e25))
def test_a_prefix_leaves_between_one_and_a_thousand(value):
    assert 1 <= float(format_si(value, "s").split()[0]) < 1000


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"), (65536, "65,536"), (-1234, "-1,234"), (2.5, "2.5"), (1234.5, "1,234.5"), (1_234_567_890, "1.23e9"),
        (1e9, "1e9"), (0.001234, "1.23e-3"), (math.inf, "inf"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_counts_are_exact_when_small_and_compact_when_large(n, text):
    assert format_count(n) == text


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 bits"), (1, "1 bit"), (96, "96 bits"), (8191, "8,191 bits"), (8192, "1 KiB"),
        (128 * 1024 * 8, "128 KiB"), (1024 * 1024 * 8 - 1, "1 MiB"), (1.5 * 8 * 2**30, "1.5 GiB"),
        (math.inf, "inf bits"), (math.nan, "nan bits"),
    ],
)  # fmt: skip
def test_data_is_in_bits_when_little_and_in_bytes_when_much(n, text):
    assert format_bits(n) == text
