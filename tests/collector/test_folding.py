"""Pods folded by workload."""

from builders import GIB, NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.workload_means import MeasuredPod, fold
from equipoise.contracts.messages.resources import Resources


def a_pod(
    cpu: float | None = 1.0, memory: float | None = GIB, sampled_at: float = NOW, name: str = "web"
) -> MeasuredPod:
    return MeasuredPod(workload=a_workload(name), usage=Resources(cpu=cpu, memory=memory), sampled_at=sampled_at)


def test_usage_is_per_replica() -> None:
    """The mean of the pods that were measured, at the time of the oldest; unknown is not 0."""
    folded = fold([a_pod(1.0, None, NOW - 9), a_pod(3.0, None), a_pod(None, GIB), a_pod(5.0, name="other")])

    web = folded[a_workload()]
    assert (Resources(cpu=2.0, memory=GIB), 3, NOW - 9) == (web.usage, web.replicas, web.sampled_at)
    assert 5.0 == folded[a_workload("other")].usage.cpu


@given(st.lists(st.none() | st.floats(0, 1e6)))
def test_a_mean_lies_between_its_parts(values: list[float | None]) -> None:
    """And is unknown only when every part is."""
    known = [value for value in values if value is not None]
    folded = fold([a_pod(value) for value in values])
    mean = folded[a_workload()].usage.cpu if values else None

    assert (mean is None) == (not known)
    assert mean is None or min(known) * 0.999_999 <= mean <= max(known) * 1.000_001
