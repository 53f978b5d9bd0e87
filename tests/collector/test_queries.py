"""One query per question, in words that Prometheus understands."""

from itertools import product
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.questions import Ask, Resource, Subject, What
from equipoise.collector.sources.queries import PROFILES, milliseconds, promql, selector

KUBELET = PROFILES["kubelet"]


def an_ask(**fields: object) -> Ask:
    defaults: dict[str, object] = {
        "subject": "node", "resource": "cpu", "what": "mean", "length": 300.0, "at": 0.0, "step": 15.0,
    }  # fmt: skip
    return Ask(**(defaults | fields))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "rate(node_cpu_usage_seconds_total[300000ms])"),
        ({"resource": "memory"}, "avg_over_time(node_memory_working_set_bytes[300000ms])"),
        ({"subject": "pod"}, "rate(pod_cpu_usage_seconds_total[300000ms])"),
        ({"what": "count"}, "count_over_time(node_cpu_usage_seconds_total[300000ms])"),
        ({"what": "newest"}, "timestamp(node_cpu_usage_seconds_total)"),
        ({"what": "last"}, "max_over_time(timestamp(node_cpu_usage_seconds_total)[300000ms:15000ms])"),
        ({"what": "spacing"}, "node_cpu_usage_seconds_total[300000ms]"),
        (
            {"what": "p95"},
            "quantile_over_time(0.95, rate(node_cpu_usage_seconds_total[15000ms])[300000ms:15000ms])",
        ),
        (
            {"what": "max", "resource": "memory"},
            "max_over_time(node_memory_working_set_bytes[300000ms])",
        ),
        (
            {"what": "deviation", "resource": "memory"},
            "stddev_over_time(node_memory_working_set_bytes[300000ms])",
        ),
    ],
)
def test_the_words_of_a_query(fields: dict[str, object], expected: str) -> None:
    """A mean of cpu is the rate of the counter; memory is averaged; statistics of cpu go over inner rates."""
    assert expected == promql(an_ask(**fields), KUBELET, {})


@pytest.mark.parametrize(("seconds", "expected"), [(1.3333, "1333ms"), (86_400, "86400000ms"), (0.0001, "1ms")])
def test_durations_may_be_very_short(seconds: float, expected: str) -> None:
    """Compressed time needs fractions of seconds, which PromQL knows as milliseconds."""
    assert expected == milliseconds(seconds)


def test_matchers_are_quoted() -> None:
    """A label value cannot end the selector."""
    assert r'm{a="x\\\"\n",b="y"}' == selector("m", {"b": "y", "a": 'x\\"\n'})


@given(length=st.floats(0.001, 1e7), step=st.floats(0.001, 1e6))
def test_every_question_has_one_query(length: float, step: float) -> None:
    """Whatever is asked, the text names the metric once and its window in whole milliseconds."""
    whats = [what for part in get_args(What) for what in (get_args(part) or (part,))]
    for subject, resource, what in product(get_args(Subject), get_args(Resource), whats):
        text = promql(an_ask(subject=subject, resource=resource, what=what, length=length, step=step), KUBELET, {})

        assert 1 == text.count(KUBELET.metrics[subject, resource])
        assert text.count("(") == text.count(")")
        assert what == "newest" or f"[{milliseconds(length)}" in text
