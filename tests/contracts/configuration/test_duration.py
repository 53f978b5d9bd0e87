"""Durations in a configuration."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.duration import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90s", 90), ("5m", 300), ("1h30m", 5_400), ("1d", 86_400), ("0s", 0), ("1.5h", 5_400)],
)
def test_numbers_with_units_are_parsed(text: str, seconds: float) -> None:
    """Several of them add up."""
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text", [5, 5.0, True, None, "", "5", "-5s", "5 s", "s", "5w", "1e3s", "nan", "٥s", "5s\n", "9" * 400 + "d", ["5s"]]
)
def test_ambiguous_durations_are_refused(text: object) -> None:
    """Numbers without unit, signs, unknown units, non-ASCII digits and infinite lengths, with examples in the error."""
    with pytest.raises(ValueError, match=r"is not a duration .*90s"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["0s", "250ms", "1m30s", "5m", "1h30m", "1d", "1d2h3m4s5ms", "1.333333333s"])
def test_usual_durations_are_written_as_they_were_parsed(text: str) -> None:
    assert str(Duration.parse(text)) == text


@given(st.floats(min_value=0, max_value=1e7))
def test_writing_and_parsing_is_almost_exact(seconds: float) -> None:
    """To a nanosecond and a millionth, even for compressed durations."""
    assert math.isclose(Duration.parse(str(Duration(seconds))), seconds, rel_tol=1e-6, abs_tol=1e-9)
