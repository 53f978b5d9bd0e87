"""Parts of PromQL queries."""

import pytest

from equipoise.collector.decisions.profiles.query_profile import milliseconds, selector


@pytest.mark.parametrize(("seconds", "expected"), [(1.3333, "1333ms"), (86_400, "86400000ms"), (0.0001, "1ms")])
def test_short_durations_are_milliseconds(seconds: float, expected: str) -> None:
    """Compressed time needs fractions of seconds."""
    assert expected == milliseconds(seconds)


def test_matchers_are_quoted() -> None:
    """A label value cannot end the selector."""
    assert r'm{a="x\\\"\n",b="y"}' == selector("m", {"b": "y", "a": 'x\\"\n'})


def test_conditions_are_inserted_unchanged() -> None:
    """Before the matchers."""
    assert 'm{pod!="",cluster="blue"}' == selector("m", {"cluster": "blue"}, 'pod!=""')
