"""The generated example of the demo."""

import pytest

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE


def test_the_same_seed_gives_the_same_example() -> None:
    """A demo can be repeated."""
    first, again, other = example_trace(3), example_trace(3), example_trace(4)

    assert (first.workloads, first.pods) == (again.workloads, again.pods)
    assert (first.cpu_milli == again.cpu_milli).all()
    assert first.pods != other.pods


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_example_has_the_documented_size(seed: int) -> None:
    """40 nodes of two sizes, at least 600 pods of at least 40 workloads, some of them excluded from evictions."""
    trace = example_trace(seed)

    assert 40 == len(trace.nodes)
    assert 2 == len({node.cpu_milli for node in trace.nodes})
    assert len(trace.pods) >= 600
    assert len(trace.workloads) >= 40
    assert any(workload.namespace == EXCLUDED_NAMESPACE for workload in trace.workloads)


def test_requests_and_usage_of_the_example_differ() -> None:
    """Some workloads request ten times what they use, and usage has a peak hour."""
    trace = example_trace()
    peak, lowest = trace.cpu_milli.max(axis=1), trace.cpu_milli.min(axis=1)

    assert any(workload.request_cpu_milli > 8 * used for workload, used in zip(trace.workloads, peak, strict=True))
    assert (peak > 1.4 * lowest).any()
