"""Pieces of PromQL."""

import pytest

from equipoise.collector.decisions.profiles.promql import milliseconds, selector


@pytest.mark.parametrize(("seconds", "expected"), [(1.3333, "1333ms"), (86_400, "86400000ms"), (0.0001, "1ms")])
def test_durations_may_be_very_short(seconds: float, expected: str) -> None:
    """Compressed time needs fractions of seconds, which PromQL knows as milliseconds."""
    assert expected == milliseconds(seconds)


def test_matchers_are_quoted() -> None:
    """A label value cannot end the selector."""
    assert r'm{a="x\\\"\n",b="y"}' == selector("m", {"b": "y", "a": 'x\\"\n'})


def test_conditions_stand_as_they_are_written() -> None:
    """Beside the labels that every series must have."""
    assert 'm{pod!="",cluster="blue"}' == selector("m", {"cluster": "blue"}, 'pod!=""')
