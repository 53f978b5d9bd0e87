"""What a move gains and costs: nothing unknown is zero, and more is never shown as less."""

from datetime import UTC, datetime

import msgspec
import pytest
from builders import GIB, NOW
from descheduler.snapshots import a_pod
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.decisions.planning.move_cost import LONGEST_START, cost_of_move, gain_of, start_of
from equipoise.scheduling.model.pod_info import PodInfo

replace = msgspec.structs.replace
BASE = Resources(cpu=10.0, memory=100.0)
amounts = st.none() | st.floats(0, 100)
usages = st.builds(Resources, cpu=amounts, memory=amounts)
overs = st.lists(st.sampled_from(["cpu", "memory", "pods"]), unique=True)


def became_ready(after: float | None, *, ready: bool = True) -> Pod:
    """A pod that was created at NOW; `after`: seconds until it was ready."""
    at = None if after is None else datetime.fromtimestamp(NOW + after, UTC)
    condition = Condition(type="Ready", status="True" if ready else "False", last_transition_time=at)
    pod = a_pod()
    created = datetime.fromtimestamp(NOW, UTC)
    return replace(
        pod,
        metadata=replace(pod.metadata, creation_timestamp=created),
        status=replace(pod.status, conditions=[condition]),
    )


@pytest.mark.parametrize(
    ("usage", "over", "gain"),
    [
        (Resources(cpu=1.0, memory=50.0), ["cpu"], 0.1),
        (Resources(cpu=1.0, memory=50.0), ["memory"], 0.5),
        (Resources(cpu=1.0, memory=50.0), ["cpu", "memory"], 0.5),
        (Resources(cpu=1.0, memory=50.0), [], 0.5),
        (Resources(memory=50.0), ["cpu"], None),
        (Resources(), [], None),
        (Resources(cpu=1.0), ["pods"], 0.1),
    ],
)
def test_the_gain_is_that_of_the_resource_that_is_too_high(
    usage: Resources, over: list[str], gain: float | None
) -> None:
    assert gain_of(usage, BASE, over) == gain


@given(usages, overs, st.floats(0, 100))
def test_a_pod_that_uses_more_never_gains_less(usage: Resources, over: list[str], more: float) -> None:
    larger = Resources(
        cpu=None if usage.cpu is None else usage.cpu + more,
        memory=None if usage.memory is None else usage.memory + more,
    )
    gain, other = gain_of(usage, BASE, over), gain_of(larger, BASE, over)
    assert (gain is None) == (other is None)
    assert gain is None or other is None or other >= gain


@given(usages, st.floats(0, NOW), st.none() | st.floats(0, LONGEST_START))
def test_what_is_unknown_of_a_cost_is_not_zero(usage: Resources, created_at: float, start: float | None) -> None:
    pod = MovablePod(
        uid="u", namespace="shop", name="web-1", node="node-a", usage=usage, created_at=created_at, start=start,
        info=PodInfo(a_pod()),
    )  # fmt: skip
    cost = cost_of_move(pod, NOW)
    assert cost.memory == usage.memory
    assert cost.start == start
    assert (cost.age is None) == (created_at == 0)
    assert cost.age is None or cost.age == pytest.approx(NOW - created_at)


@pytest.mark.parametrize(
    ("pod", "start"),
    [
        (became_ready(12.0), 12.0),
        (became_ready(0.0), 0.0),
        (became_ready(LONGEST_START + 1), None),  # it was unready in between
        (became_ready(-5.0), None),
        (became_ready(None), None),
        (became_ready(12.0, ready=False), None),
        (replace(a_pod(), status=replace(a_pod().status, conditions=[])), None),
    ],
)
def test_the_time_to_start_is_known_only_of_pods_that_have_been_ready_since(pod: Pod, start: float | None) -> None:
    assert start_of(pod) == start


def test_memory_is_that_of_the_pod() -> None:
    pod = MovablePod(
        uid="u", namespace="shop", name="web-1", node="node-a", usage=Resources(cpu=1.0, memory=GIB),
        created_at=NOW - 60, info=PodInfo(a_pod()),
    )  # fmt: skip
    cost = cost_of_move(pod, NOW)
    assert (cost.memory, cost.age, cost.start) == (GIB, 60.0, None)
