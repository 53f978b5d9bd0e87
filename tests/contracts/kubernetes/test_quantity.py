"""Kubernetes quantities as numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.quantity import parse_quantity


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0),
        ("250m", 0.25),
        ("2", 2),
        ("1.5", 1.5),
        (".5", 0.5),
        ("5.", 5),
        ("+1", 1),
        ("-1", -1),
        ("100n", 1e-7),
        ("3u", 3e-6),
        ("1k", 1e3),
        ("512Mi", 512 * 2**20),
        ("1Gi", 2**30),
        ("1E", 1e18),
        ("1Ei", 2**60),
        ("1e3", 1e3),
        ("1E3", 1e3),
        ("12e-1", 1.2),
    ],
)
def test_every_form_is_parsed(text: str, number: float) -> None:
    """Plain, decimal and binary suffixes, exponents."""
    assert parse_quantity(text) == pytest.approx(number)


@pytest.mark.parametrize(
    "text",
    ["", "m", "Gi", "1GI", "1K", "1 Gi", " 1", "1\n", "1_000", "nan", "inf", "infinity", "0x10", "1mm", "1iM",
     "1e", "1e3Mi", "٣", "--1", "1.2.3"],
)  # fmt: skip
def test_what_the_api_server_refuses_is_refused(text: str) -> None:
    """Python's own number formats are not quantities."""
    with pytest.raises(ValueError, match="is not a Kubernetes quantity"):
        parse_quantity(text)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_an_error(text: str) -> None:
    """A result is finite, and the only exception is ValueError."""
    try:
        number = parse_quantity(text)
    except ValueError:
        return
    assert abs(number) < float("inf")


@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 400])
def test_what_is_no_float_is_an_error(text: str) -> None:
    """The API server accepts it."""
    with pytest.raises(ValueError, match="is more than any machine has"):
        parse_quantity(text)
