"""What a node offers, and what of it is written: laws over many nodes, and some nodes in numbers."""

import math
from typing import Any, Literal

import msgspec
import numpy as np
import pytest
from builders import (
    GIB,
    NOW,
    a_gone_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_workload,
    a_workload_utilization,
)
from hypothesis import given
from hypothesis import strategies as st
from reclaimer.worlds import NAMES, NODE, a_batch_pod

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.placement import NodeColocation, PlacedPod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.decisions.evaluation import Evaluated, ReclaimEvaluation, evaluate
from equipoise.reclaimer.decisions.strategy import (
    ForecastSettings,
    ReclaimPool,
    ReclaimStrategy,
    StrategyOverride,
)
from equipoise.reclaimer.state.deviations import LEVELS, Outlook
from equipoise.reclaimer.state.node_usage import WorkloadProfiles, band_requests, node_usage
from equipoise.reclaimer.state.observed_node import ObservedNode

MAX_AGE = 90.0
BATCH_CPU = "kubernetes.io/batch-cpu"


def a_node(
    *pods: PlacedPod,
    usage: dict[str, Resources] | None = None,
    system: Resources | None = None,
    age: float | None = 10.0,
    existing: dict[str, int] | None = None,
    profiles: WorkloadProfiles | None = None,
    highest: np.ndarray | None = None,
    **fields: Any,
) -> ObservedNode:
    """A node of 10 cores and 64 GiB. `usage`: by the name of a pod."""
    placement = a_placement(NODE, list(pods), **fields)
    utilization = a_node_utilization(
        NODE,
        pods={f"uid-{name}": each for name, each in (usage or {}).items()},
        system=system or Resources(cpu=1.0, memory=4 * GIB),
    )
    return ObservedNode(
        placement=placement,
        usage=None if age is None else node_usage(placement, utilization, profiles or WorkloadProfiles()),
        sampled_at=None if age is None else NOW - age,
        age=10_000.0 if age is None else age,
        highest=np.full((2, 24), np.nan, np.float32) if highest is None else highest,
        existing=existing or {},
        requests=band_requests(placement),
        last={},
    )


def result_of(node: ObservedNode, **settings: Any) -> Evaluated:
    return evaluate([node], ReclaimEvaluation(**settings), max_age=MAX_AGE, now=NOW)[0]


def batch_cpu(node: ObservedNode, **settings: Any) -> float:
    found = result_of(node, **settings).message.bands["batch"].reclaimed.cpu
    assert found is not None
    return found


amounts = st.integers(0, 2_000).map(lambda hundredths: hundredths / 100)


@st.composite
def nodes(draw: st.DrawFn) -> ObservedNode:
    pods, usage = [], {}
    for index in range(draw(st.integers(0, 5))):
        name, kind = f"pod-{index}", draw(st.sampled_from(["prod", "mid", "batch", "free"]))
        requests = Resources(cpu=draw(amounts), memory=draw(amounts) * GIB)
        fields: dict[str, Any] = {"priority_class": kind, "priority": {"free": 3_000}.get(kind, 0)}
        fields |= {"reclaimed_requests": requests} if kind in OFFERED_BANDS else {"requests": requests}
        pods.append(a_placed_pod(name, exclusive=draw(st.booleans()), **fields))
        if draw(st.booleans()):
            usage[name] = Resources(cpu=draw(amounts), memory=draw(amounts) * GIB)
    existing = {name: draw(st.integers(0, 20_000)) for name in NAMES if draw(st.booleans())}
    age = draw(st.one_of(st.none(), st.floats(0.0, 1_000.0)))
    system = Resources(cpu=draw(amounts), memory=draw(amounts) * GIB)
    capacity = draw(
        st.sampled_from([Resources(cpu=10.0, memory=64 * GIB), Resources(cpu=2.0, memory=GIB), Resources()])
    )
    return a_node(
        *pods, usage=usage, system=system, age=age, existing=existing, capacity=capacity, allocatable=capacity
    )


strategies = st.builds(
    ReclaimStrategy,
    enabled=st.booleans(),
    cpu_threshold=st.floats(0, 100),
    memory_threshold=st.floats(0, 100),
    cpu_policy=st.sampled_from(["usage", "maxUsageRequest"]),
    memory_policy=st.sampled_from(["usage", "request", "maxUsageRequest"]),
)


@given(node=nodes(), strategy=strategies)
def test_never_less_than_pods_request_unless_the_node_is_smaller(node: ObservedNode, strategy: ReclaimStrategy) -> None:
    result = result_of(node, strategy=strategy)
    capacity = node.placement.capacity
    for band in OFFERED_BANDS:
        found = result.message.bands[band]
        for resource in ("cpu", "memory"):
            offered, requested = getattr(found.offered, resource), getattr(found.requested, resource)
            limit = getattr(capacity, resource)
            assert offered >= (requested if limit is None else min(requested, limit)) - 1e-6


@given(node=nodes(), strategy=strategies)
def test_batch_is_never_more_than_what_is_idle_now(node: ObservedNode, strategy: ReclaimStrategy) -> None:
    bands = result_of(node, strategy=strategy).message.bands
    if "free" in bands:
        for resource in ("cpu", "memory"):
            free, batch = (getattr(bands[band].reclaimed, resource) for band in ("free", "batch"))
            assert (free is None) == (batch is None)
            assert free is None or batch <= free


@given(node=nodes(), strategy=strategies)
def test_a_node_that_is_not_measured_reclaims_nothing_new(node: ObservedNode, strategy: ReclaimStrategy) -> None:
    result = result_of(node, strategy=strategy)
    if node.age > MAX_AGE or node.usage is None:
        assert result.message.degraded
        for band in OFFERED_BANDS:
            assert result.message.bands[band].reclaimed == Resources()
        for name, amount in result.amounts.items():
            requested = math.ceil(sum(_requests(pod, name) for pod in node.placement.pods) - 1e-9)
            assert amount is None or amount <= max(node.existing.get(name, 0), requested)


def _requests(pod: PlacedPod, name: str) -> float:
    if f"-{'cpu' if name.endswith('cpu') else 'memory'}" not in name or f"/{pod.priority_class}-" not in name:
        return 0.0
    found = pod.reclaimed_requests
    return (found.cpu or 0.0) * 1_000 if name.endswith("cpu") else found.memory or 0.0


@given(node=nodes(), strategy=strategies)
def test_amounts_are_whole_and_not_negative(node: ObservedNode, strategy: ReclaimStrategy) -> None:
    for amount in result_of(node, strategy=strategy).amounts.values():
        assert amount is None or (isinstance(amount, int) and amount >= 0)


@given(node=nodes(), strategy=strategies, age=st.floats(0.0, 80.0))
def test_what_was_written_is_not_written_again_at_once(
    node: ObservedNode, strategy: ReclaimStrategy, age: float
) -> None:
    """Unless it still grows, step by step."""
    first = result_of(node, strategy=strategy)
    written = {name: amount for name, amount in first.amounts.items() if amount is not None}
    fields = {name: getattr(node, name) for name in ObservedNode.__struct_fields__}
    fields |= {"existing": written, "last": first.last, "since_write": age}
    again = result_of(ObservedNode(**fields), strategy=strategy)
    assert not again.due or any((amount or 0) > written.get(name, 0) for name, amount in again.amounts.items())


def test_an_annotation_that_cannot_be_read_leaves_only_what_pods_request() -> None:
    node = a_node(
        a_batch_pod(cpu=2.0), existing={BATCH_CPU: 6_000}, colocation=NodeColocation(invalid="THE ANNOTATION")
    )
    result = result_of(node)
    assert result.amounts[BATCH_CPU] == 2_000
    assert result.due
    assert "THE ANNOTATION" in result.message.degraded


def test_an_object_that_cannot_be_read_leaves_only_what_pods_request() -> None:
    """What its pods request, and what is idle, is not known."""
    node = a_node(a_batch_pod(cpu=2.0), existing={BATCH_CPU: 6_000})
    placement = msgspec.structs.replace(node.placement, unreadable="pod shop/web: cpu is '1e308'")
    result = result_of(msgspec.structs.replace(node, placement=placement))
    assert result.amounts[BATCH_CPU] == 2_000
    assert "an object cannot be read: pod shop/web" in result.message.degraded


def test_a_status_whose_capacity_has_another_amount_is_written_again() -> None:
    first = result_of(a_node())
    existing = {name: amount for name, amount in first.amounts.items() if amount is not None}
    for _ in range(12):
        grown = result_of(a_node(existing=existing)).amounts
        existing = {name: amount for name, amount in grown.items() if amount is not None}
    assert not result_of(a_node(existing=existing)).due
    assert result_of(msgspec.structs.replace(a_node(existing=existing), inconsistent=True)).due


@pytest.mark.parametrize(
    ("about", "node", "strategy", "expected"),
    [
        ("a threshold of 65 %, one core of the system, a margin of half a core", a_node(), {}, 5.0),
        ("a pod counts with its usage", a_node(a_placed_pod(), usage={"web-1": Resources(cpu=2, memory=0)}), {}, 3.0),
        ("or with its request, when it is not measured", a_node(a_placed_pod()), {}, 4.5),
        (
            "or with the higher of both",
            a_node(a_placed_pod(), usage={"web-1": Resources(cpu=0.1, memory=0)}),
            {"cpu_policy": "maxUsageRequest"},
            4.5,
        ),
        ("a pod that is measured but not placed counts", a_node(usage={"gone": Resources(cpu=1, memory=0)}), {}, 4.0),
        (
            "a pod that left does not, although it is still measured",
            a_node(gone=[a_gone_pod("batch-2")], usage={"batch-2": Resources(cpu=1, memory=0)}),
            {},
            5.0,
        ),
        ("a batch pod does not", a_node(a_batch_pod(), usage={"batch-1": Resources(cpu=3, memory=0)}), {}, 5.0),
        (
            "a mid pod counts with the higher of usage and request",
            a_node(a_batch_pod("mid-1", 2.0, priority_class="mid"), usage={"mid-1": Resources(cpu=1, memory=0)}),
            {},
            3.0,
        ),
        ("reserved cores count in place of the system", a_node(allocatable=Resources(cpu=7, memory=GIB)), {}, 3.0),
        (
            "allocations of other programs are subtracted",
            a_node(colocation=NodeColocation(third_party={"batch": Resources(cpu=2.0)})),
            {},
            3.0,
        ),
        ("a label of the node counts more than the strategy",
         a_node(labels={"node.koordinator.sh/cpu-reclaim-ratio": "0.8"}), {}, 6.5),
        ("a label that is no share is ignored",
         a_node(labels={"node.koordinator.sh/cpu-reclaim-ratio": "80%"}), {}, 5.0),
        ("a cap", a_node(), {"batch_cpu_cap": 20.0}, 2.0),
    ],
)  # fmt: skip
def test_batch_cores(about: str, node: ObservedNode, strategy: dict[str, Any], expected: float) -> None:
    assert batch_cpu(node, strategy=ReclaimStrategy(**strategy)) == pytest.approx(expected), about


def test_a_peak_of_the_typical_day_counts_when_it_is_near() -> None:
    """NOW is an hour of the day; the peak is three hours later, and in the day's other half."""
    hour = int(NOW // 3_600) % 24
    for distance, batch in ((3, 0.5), (12, 4.5)):
        day = [0.5] * 24
        day[(hour + distance) % 24] = 4.5
        profiles = WorkloadProfiles()
        memory = [float(GIB)] * 24
        profiles.on_workload(a_workload_utilization(profile={"cpu": list(day), "memory": memory}))
        usage = {"web-1": Resources(cpu=0.5, memory=GIB)}
        node = a_node(a_placed_pod(workload=a_workload()), usage=usage, profiles=profiles)
        bands = result_of(node).message.bands
        assert bands["batch"].reclaimed.cpu == pytest.approx(batch)
        assert bands["mid"].reclaimed.cpu == pytest.approx(0.5)
        assert bands["free"].reclaimed.cpu == pytest.approx(5.0)


def test_the_highest_usage_of_the_last_day_counts() -> None:
    highest = np.full((2, 24), np.nan, np.float32)
    highest[0, (int(NOW // 3_600) + 2) % 24] = 6.0
    assert batch_cpu(a_node(highest=highest)) == pytest.approx(0.5)


def test_the_hours_of_a_shorter_day_are_shorter() -> None:
    """Of a day of 24 minutes, the next six minutes count for batch pods."""
    minute = int(NOW // 60) % 24
    for distance, batch in ((2, 0.5), (12, 5.5)):
        highest = np.full((2, 24), np.nan, np.float32)
        highest[0, (minute + distance) % 24] = 6.0
        found = batch_cpu(a_node(highest=highest), forecast=ForecastSettings(margin=0.0, day=Duration(24 * 60)))
        assert found == pytest.approx(batch)


def test_settings_of_a_node_count_more_than_those_of_its_pool() -> None:
    pool = ReclaimPool(name="big", match_labels={"pool": "big"}, cpu_threshold=50.0, memory_threshold=10.0)
    node = a_node(labels={"pool": "big"})
    assert batch_cpu(node, pools=(pool,)) == pytest.approx(3.5)
    assert batch_cpu(node, pools=(pool,), nodes={NODE: StrategyOverride(cpu_threshold=40.0)}) == pytest.approx(2.5)
    assert batch_cpu(a_node(labels={"pool": "small"}), pools=(pool,)) == pytest.approx(5.0)


def test_nodes_do_not_change_each_other() -> None:
    alone = [result_of(node).message for node in (a_node(), a_node(a_placed_pod()))]
    together = evaluate([a_node(), a_node(a_placed_pod())], ReclaimEvaluation(), max_age=MAX_AGE, now=NOW)
    assert [each.message for each in together] == alone


def an_outlook(deviation: float = 0.0, error: float = 0.0) -> Outlook:
    """Shares of the node; the system is constant."""
    return Outlook(
        deviation=np.full((2, 6), deviation, np.float32),
        errors=np.full((2, 6, LEVELS), error),
        constant=np.array([0.1, 1 / 16]),
    )


def test_batch_uses_the_learned_errors_in_place_of_the_margin_and_of_the_last_day() -> None:
    """Of 6.5 cores, the system uses 1; usage is expected to be 1 core higher, and was then 0.5 above that."""
    node = msgspec.structs.replace(a_node(highest=np.full((2, 24), 5.0, np.float32)), outlook=an_outlook(0.1, 0.05))
    assert batch_cpu(node) == pytest.approx(4.0)


@given(node=nodes(), strategy=strategies, deviation=st.floats(-1, 1), error=st.floats(-1, 1), more=st.floats(0, 1))
def test_learned_errors_offer_what_is_idle_at_most_and_less_with_larger_ones(
    node: ObservedNode, strategy: ReclaimStrategy, deviation: float, error: float, more: float
) -> None:
    less, found = (
        result_of(msgspec.structs.replace(node, outlook=an_outlook(deviation, each)), strategy=strategy).message.bands
        for each in (error + more, error)
    )
    for resource in ("cpu", "memory"):
        amount, smaller = (getattr(each["batch"].reclaimed, resource) for each in (found, less))
        assert (amount is None) == (smaller is None)
        if amount is not None:
            assert 0.0 <= smaller <= amount * (1 + 1e-9) + 1e-6
            assert amount <= getattr(found["free"].reclaimed, resource)


def test_what_is_not_learned_yet_changes_nothing() -> None:
    node = a_node()
    assert batch_cpu(msgspec.structs.replace(node, outlook=an_outlook(0.1, math.nan))) == batch_cpu(node)


def two_requested_cores_unused() -> WorkloadProfiles:
    profiles = WorkloadProfiles()
    profiles.on_workload(a_workload_utilization(a_workload(), profile={"cpu": [0.5] * 24, "memory": [GIB] * 24}))
    return profiles


@pytest.mark.parametrize(("policy", "offered"), [("usage", 4.5), ("maxUsageRequest", 3.0)])
def test_the_forecast_counts_what_the_policy_counts(policy: Any, offered: float) -> None:
    """Of 6.5 cores, the system uses 1 and the margin is 0.5; the pod uses 0.5 and requests 2."""
    pod = a_placed_pod(workload=a_workload(), requests=Resources(cpu=2.0, memory=2 * GIB))
    node = a_node(pod, usage={"web-1": Resources(cpu=0.5, memory=GIB)}, profiles=two_requested_cores_unused())
    assert batch_cpu(node, strategy=ReclaimStrategy(cpu_policy=policy)) == pytest.approx(offered)


def test_with_the_policy_request_earlier_usage_and_the_margin_do_not_count() -> None:
    """Requests are the same all day: 65 % of 64 GiB minus 2 GiB."""
    pod = a_placed_pod(workload=a_workload(), requests=Resources(cpu=2.0, memory=2 * GIB))
    highest = np.full((2, 24), 40 * GIB, np.float32)
    node = a_node(pod, usage={"web-1": Resources(cpu=0.5, memory=GIB)}, highest=highest)
    found = result_of(node, strategy=ReclaimStrategy(memory_policy="request")).message.bands["batch"].reclaimed
    assert found.memory == pytest.approx((0.65 * 64 - 2) * GIB)


def test_profiles_that_nobody_measured_for_long_are_dropped() -> None:
    profiles = two_requested_cores_unused()
    profiles.prune(NOW - 1)
    pod, usage = a_placed_pod(workload=a_workload()), np.array([[3.0], [GIB]])
    assert profiles.days_of([pod], usage)[0][0, 0, 0] == 0.5
    profiles.prune(NOW + 1)
    assert profiles.days_of([pod], usage)[0][0, 0, 0] == 3.0


EXCLUSIVE = a_placed_pod("lse", workload=None, exclusive=True, requests=Resources(cpu=1.0, memory=GIB))


@pytest.mark.parametrize(
    ("policy", "used", "batch"),
    [
        ("maxUsageRequest", 3.0, 7.0),
        ("maxUsageRequest", 0.5, 9.0),
        ("maxUsageRequest", None, 9.0),
        ("usage", 3.0, 9.0),
        ("usage", 0.5, 9.0),
        ("usage", None, 9.0),
    ],
)
def test_the_higher_of_usage_and_request_counts_for_exclusive_pods_too(
    policy: Literal["usage", "maxUsageRequest"], used: float | None, batch: float
) -> None:
    """Under maxUsageRequest. Under the policy usage, the cores that a pod has for itself are its requests."""
    usage = {} if used is None else {"lse": Resources(cpu=used, memory=2 * GIB)}
    node = a_node(EXCLUSIVE, usage=usage, system=Resources(cpu=0.0, memory=0.0))
    strategy = ReclaimStrategy(enabled=True, cpu_threshold=100.0, cpu_policy=policy)

    found = result_of(node, strategy=strategy).message.bands["free"].reclaimed.cpu

    assert found == pytest.approx(batch)


@pytest.mark.parametrize(("used", "mid"), [(3.0, 7.0), (0.5, 9.0)])
def test_mid_resources_are_no_more_than_what_an_exclusive_pod_leaves(used: float, mid: float) -> None:
    """Its cores are in use, and what it uses beyond them is, too."""
    nothing = Resources(cpu=0.0, memory=0.0)

    usage = a_node(EXCLUSIVE, usage={"lse": Resources(cpu=used, memory=GIB)}, system=nothing).usage

    assert usage is not None
    assert 10.0 - usage.used[0] == pytest.approx(mid)


def test_a_mid_pod_without_an_amount_of_a_resource_counts_with_its_ordinary_request() -> None:
    """It asks for mid memory and for ordinary cpu."""
    pod = a_placed_pod(
        "mid-1",
        workload=None,
        priority_class="mid",
        requests=Resources(cpu=2.0),
        reclaimed_requests=Resources(memory=4 * GIB),
    )

    usage = a_node(pod, usage={}).usage

    assert usage is not None
    assert usage.requests[:, 0].tolist() == [2.0, 4 * GIB]
    assert usage.mid.tolist() == [2.0, 4 * GIB]
