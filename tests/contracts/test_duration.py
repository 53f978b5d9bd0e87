"""Lengths of time in a configuration."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.duration import Duration


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("250ms", 0.25), ("90s", 90), ("5m", 300), ("1h30m", 5_400), ("1d", 86_400), ("0s", 0), ("1.5h", 5_400)],
)
def test_reads_what_people_write(text: str, seconds: float) -> None:
    """Numbers with units add up."""
    assert Duration.parse(text) == seconds


@pytest.mark.parametrize(
    "text", [5, 5.0, True, None, "", "5", "-5s", "5 s", "s", "5w", "1e3s", "nan", "٥s", "5s\n", "9" * 400 + "d", ["5s"]]
)
def test_refuses_what_has_no_plain_meaning(text: object) -> None:
    """Bare numbers, signs, unknown units, foreign digits and infinite lengths are errors that show examples."""
    with pytest.raises(ValueError, match=r"is not a duration .*90s"):
        Duration.parse(text)


@pytest.mark.parametrize("text", ["0s", "250ms", "1m30s", "5m", "1h30m", "1d", "1d2h3m4s5ms", "1.333333333s"])
def test_is_written_as_it_was_read(text: str) -> None:
    """The usual ones come back as they were."""
    assert str(Duration.parse(text)) == text


@given(st.floats(min_value=0, max_value=1e7))
def test_survives_being_written(seconds: float) -> None:
    """Writing and reading loses less than a nanosecond and a millionth, also of a compressed length."""
    assert math.isclose(Duration.parse(str(Duration(seconds))), seconds, rel_tol=1e-6, abs_tol=1e-9)
