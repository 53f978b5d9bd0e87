"""What is published of nodes while readings succeed, fail and age."""

from typing import Any

import pytest
from builders import GIB, NOW
from prometheus_client import CollectorRegistry

from equipoise.collector.decisions.query import ResourceName
from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.shell.metrics import CollectorMetrics
from equipoise.collector.state.utilization import (
    KEPT_WINDOWS,
    MAX_MISSING,
    NOT_MEASURED,
    UtilizationStore,
    unknown_summary,
)
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources

LOAD = LoadSettings()
SHORTEST = LOAD.shortest


def a_reading(mean: float | None = 2.0, age: float = 5.0, **fields: Any) -> NodeReading:
    return NodeReading(**({"mean": mean, "sampled_at": NOW - age} | fields))


def a_utilization(*readings: tuple[ResourceName, NodeReading], uid: str = "uid-a") -> UtilizationStore:
    utilization = UtilizationStore(LOAD)
    for resource, reading in readings:
        utilization.record(SHORTEST, resource, {uid: reading}, NOW)
    return utilization


def message_of(
    utilization: UtilizationStore,
    *pods: str,
    settled: tuple[str, ...] = (),
    young: tuple[str, ...] = (),
    starting: tuple[str, ...] = (),
    now: float = NOW,
    left_at: float = 0.0,
) -> NodeUtilization | None:
    """`settled`: the pods that have run for ten minutes; `young`, `starting`: further pods, placed a minute ago."""
    node = Node(metadata=ObjectMeta(name="a", uid="uid-a"))
    since = dict.fromkeys(settled, now - 600) | dict.fromkeys(young, now - 60)
    placed = [
        PlacedPod(
            uid=uid,
            namespace="shop",
            name=uid,
            placed_at=now - 60 if uid in (*young, *starting) else 0.0,
            running_since=since.get(uid),
        )
        for uid in (*pods, *young, *starting)
    ]
    base = Resources(cpu=10.0, memory=64 * GIB)
    return utilization.message(node, base, placed, now, left_at=left_at, epoch=1, sequence=1)


def test_a_node_without_any_sample_has_no_message() -> None:
    """There is no sample time."""
    assert message_of(a_utilization()) is None
    assert message_of(a_utilization(("cpu", NodeReading(unknown=UnknownUsage("no sample", "no sample"))))) is None


def test_a_window_has_the_time_of_its_older_sample() -> None:
    """Nothing looks younger than it is."""
    published = message_of(a_utilization(("cpu", a_reading(age=5)), ("memory", a_reading(8 * GIB, age=30))))

    assert published is not None
    assert (NOW - 30, NOW - 5) == (published.windows["5m"].sampled_at, published.sampled_at)
    assert Resources(cpu=2.0, memory=8 * GIB) == published.windows["5m"].mean


def test_only_the_resource_with_an_old_reading_is_unknown() -> None:
    """The other one is known."""
    utilization = a_utilization(("cpu", a_reading(age=5)), ("memory", a_reading(8 * GIB, age=100)))
    published = message_of(utilization, now=NOW + 90)

    assert published is not None
    assert Resources(cpu=2.0) == published.windows["5m"].mean


def test_an_unknown_reading_removes_the_value_and_keeps_the_time() -> None:
    """The age continues from the last sample."""
    duplicate = NodeReading(unknown=UnknownUsage("duplicate", "cpu: 2 series claim to be this node"))
    utilization = a_utilization(("cpu", a_reading()), ("cpu", duplicate))
    published = message_of(utilization)

    assert published is not None
    assert ({}, NOW - 5) == (published.windows, published.sampled_at)
    assert "2 series" in (utilization.why_unknown("uid-a", NOW) or NOT_MEASURED)[1]


def test_the_system_usage_is_the_node_minus_its_pods() -> None:
    """The last known value is kept while a settled pod is not measured."""
    utilization = a_utilization(("cpu", a_reading(2.0)), ("memory", a_reading(8 * GIB)))
    utilization.record_pods({"p": Resources(cpu=0.5, memory=GIB)}, NOW)
    unmeasured = message_of(utilization, "p", "q", settled=("p", "q"))
    whole = message_of(utilization, "p", "young", settled=("p",))
    utilization.record(SHORTEST, "cpu", {"uid-a": a_reading(9.0)}, NOW)
    later = message_of(utilization, "p", "q", settled=("p", "q"))

    assert unmeasured is not None
    assert whole is not None
    assert later is not None
    assert Resources() == unmeasured.system
    assert Resources(cpu=1.5, memory=7 * GIB) == whole.system == later.system


@pytest.mark.parametrize("change", ["comes", "starts", "leaves"])
def test_a_pod_that_comes_or_leaves_is_no_usage_of_the_system(change: str) -> None:
    """The window has a part of its usage. Where pods come and go all the time, an old value would be worse."""
    utilization = a_utilization(("cpu", a_reading(2.0)))
    utilization.record_pods({"p": Resources(cpu=0.5)}, NOW)
    before = message_of(utilization, "p", settled=("p",))
    utilization.record(SHORTEST, "cpu", {"uid-a": a_reading(4.0)}, NOW)
    at = {"comes": "young", "starts": "starting"}.get(change)
    fields: dict[str, Any] = {at: ("new",)} if at else {"left_at": NOW - 60}
    during = message_of(utilization, "p", settled=("p",), **fields)
    later = NOW + KEPT_WINDOWS * SHORTEST.length
    utilization.record(SHORTEST, "cpu", {"uid-a": a_reading(4.0, age=5 - (later - NOW))}, later)
    utilization.record_pods({"p": Resources(cpu=0.5)}, later)
    fields = {at: ("new",)} if at else {"left_at": later - 60}
    afterwards = message_of(utilization, "p", settled=("p",), now=later, **fields)

    assert before is not None
    assert during is not None
    assert afterwards is not None
    assert (before.system.cpu, during.system.cpu, afterwards.system.cpu) == (1.5, 1.5, 3.5)


def test_the_system_usage_is_never_negative() -> None:
    """The queries of nodes and pods do not use exactly the same samples."""
    utilization = a_utilization(("cpu", a_reading(2.0)))
    utilization.record_pods({"p": Resources(cpu=2.1)}, NOW)
    published = message_of(utilization, "p")

    assert published is not None
    assert Resources(cpu=0.0) == published.system


def test_pods_become_unknown_when_their_query_is_too_old() -> None:
    """After the lifetime of the shortest window."""
    utilization = a_utilization(("cpu", a_reading()))
    utilization.record_pods({"p": Resources(cpu=0.5), "elsewhere": Resources(cpu=1.0)}, NOW)
    young, old = message_of(utilization, "p"), message_of(utilization, "p", now=NOW + 181)

    assert young is not None
    assert old is not None
    assert ({"p": Resources(cpu=0.5)}, {}) == (young.pods, old.pods)


def test_nodes_are_deleted_by_uid() -> None:
    """A new node of the same name has no readings."""
    utilization = a_utilization(("cpu", a_reading()))
    utilization.retain(["uid-b"])

    assert message_of(utilization) is None
    assert utilization.why_unknown("uid-a", NOW) == NOT_MEASURED


def test_a_cycle_names_some_of_the_missing_nodes() -> None:
    """All are counted, with the reason."""
    utilization = a_utilization(("cpu", a_reading()))
    expected = {"a": "uid-a"} | {f"n{number:02}": f"uid-{number}" for number in range(30)}
    reasons = {name: utilization.why_unknown(uid, NOW) for name, uid in expected.items()}
    unknown = {name: why for name, why in reasons.items() if why is not None}
    cycle = utilization.cycle(31, unknown, shard="all", cycle=3, skew=0.0, problem="")

    assert (31, 1, MAX_MISSING, "not measured yet") == (
        cycle.expected, cycle.fresh, len(cycle.missing), cycle.missing["n00"],
    )  # fmt: skip
    assert cycle.reasons == {"no result": 30}
    assert unknown_summary(unknown) == "unknown load: no result (30 nodes: n00, n01, n02, …)"
    old = utilization.why_unknown("uid-a", NOW + 176)
    assert old is not None
    late = {"a": old}
    stale = utilization.cycle(1, late, shard="all", cycle=4, skew=0.0, problem="")
    assert (0, "newest sample is 181 s old", {"stale": 1}) == (stale.fresh, stale.missing["a"], stale.reasons)
    assert (unknown_summary(late), unknown_summary({})) == ("unknown load: stale (1 node: a)", "")


def test_unknown_nodes_are_metrics_by_reason() -> None:
    """Every reason has its series, and no series has a node's name."""
    registry = CollectorRegistry()
    telemetry = CollectorMetrics(registry)
    stale = UnknownUsage("stale", "old")
    unknown = {"a": UnknownUsage("no sample", "cpu: no sample"), "b": stale, "c": stale}

    def counted(reason: str) -> float | None:
        return registry.get_sample_value("equipoise_collector_nodes_unknown", {"reason": reason})

    for found, expected in ((unknown, (1.0, 2.0, 0.0)), ({}, (0.0, 0.0, 0.0))):
        cycle = a_utilization().cycle(9, found, shard="all", cycle=1, skew=0.0, problem="")
        telemetry.on_cycle([cycle])
        assert (counted("no_sample"), counted("stale"), counted("frozen")) == expected


def test_what_was_measured_in_the_future_is_forgotten_when_the_clock_of_the_source_goes_back() -> None:
    """Older readings, and those of other resources, are kept."""
    utilization = a_utilization(("memory", a_reading(8 * GIB)))
    ahead, missing = NOW + 100_000, UnknownUsage("no sample", "no sample")
    utilization.start_round(ahead)
    utilization.record(SHORTEST, "cpu", {"uid-a": a_reading(age=-99_995)}, ahead)
    utilization.record_pods({"uid-1": Resources(cpu=1.0)}, ahead)
    utilization.start_round(NOW + 10)
    utilization.record(SHORTEST, "cpu", {"uid-a": NodeReading(unknown=missing)}, NOW + 10)
    published = message_of(utilization, "uid-1", now=NOW + 10)

    assert published is not None
    assert (NOW + 10, NOW - 5) == (published.queried_at, published.sampled_at)
    assert Resources(memory=8 * GIB) == published.windows["5m"].mean
    assert {} == published.pods


def test_a_slow_query_does_not_set_the_time_of_the_last_one_back() -> None:
    """Rounds of several windows run at the same time."""
    utilization = a_utilization(("cpu", a_reading()))
    utilization.record(LOAD.longest, "cpu", {"uid-a": a_reading(age=60)}, NOW - 50)

    assert NOW == utilization.queried_at
