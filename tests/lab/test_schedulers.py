"""kube-scheduler in a replay: the pods and nodes of a trace, its rules, and what the lab adds."""

import random
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.traces import a_trace

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import PreferredNodes, Toleration
from equipoise.contracts.messages.pod_demand import POD_DEMAND
from equipoise.lab.model.trace import AntiAffinity, Trace, TraceNode, TraceSpreadConstraint, TraceTaint
from equipoise.lab.schedulers import SimulatedScheduler
from equipoise.scheduling.model.arrays import Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.scheduler import Extender

IDLE = (10.0,) * 96


def a_scheduler(trace: Trace) -> SimulatedScheduler:
    return SimulatedScheduler(trace, random.Random(1))


def a_pod(scheduler: SimulatedScheduler, workload: int, number: int, revision: int = 0) -> PodInfo:
    return scheduler.template(workload, revision).replica(f"pod-{number}", f"uid-{number}")


def a_trace_of(
    *,
    kind: str = "Deployment",
    tolerations: tuple[Toleration, ...] = (),
    node: TraceNode | None = None,
    request_cpu_milli: int = 500,
) -> Trace:
    """Four nodes, or this one; one workload."""
    trace = a_trace(curves=(IDLE,), replicas=(1,), request_cpu_milli=request_cpu_milli)
    workload = msgspec.structs.replace(trace.workloads[0], kind=kind, tolerations=tolerations)
    return msgspec.structs.replace(trace, workloads=(workload,), nodes=trace.nodes if node is None else (node,))


rules = st.lists(
    st.builds(AntiAffinity, beside=st.integers(0, 2), limited=st.integers(0, 2), most=st.integers(1, 2)), max_size=4
)


@given(arriving=st.lists(st.integers(0, 2), max_size=40), rules=rules, seed=st.integers(0, 9))
@settings(max_examples=40, deadline=None)
def test_pods_on_feasible_nodes_violate_no_rule(arriving: list[int], rules: list[AntiAffinity], seed: int) -> None:
    """For any choice among the feasible nodes, with pods removed in between."""
    trace = a_trace(curves=(IDLE,) * 3, replicas=(1,) * 3, rules=tuple(rules))
    scheduler, generator = a_scheduler(trace), random.Random(seed)
    running: list[tuple[PodInfo, int]] = []
    for number, workload in enumerate(arriving):
        pod = a_pod(scheduler, workload, number)
        feasible = scheduler.feasible(pod).tolist()
        excluded = scheduler.excluded(workload)
        assert sorted(feasible) == sorted(set(range(4)) - set(excluded))
        if feasible:
            running.append((pod, generator.choice(feasible)))
            scheduler.place(*running[-1])
        if running and generator.random() < 0.2:
            scheduler.remove(*running.pop(generator.randrange(len(running))))

    assert 0 == scheduler.anti_affinity.violations()


def test_a_rule_of_the_trace_leads_a_pod_to_another_node() -> None:
    rule = AntiAffinity(beside=0, limited=0, most=1)
    scheduler = a_scheduler(a_trace(nodes=2, curves=(IDLE,), replicas=(3,), rules=(rule,)))
    chosen = []
    for number in range(3):
        pod = a_pod(scheduler, 0, number)
        node = scheduler.choose(pod, POD_DEMAND, 0.0).node
        chosen.append(node)
        if node is not None:
            scheduler.place(pod, node)

    assert [0, 1, None] == chosen


def test_a_terminating_pod_occupies_its_node_and_is_not_spread_from() -> None:
    """Two pods of 4 of 8 cores fill a node."""
    scheduler = a_scheduler(a_trace(nodes=2, curves=(IDLE, IDLE), replicas=(4, 1), request_cpu_milli=4_000))
    first, second, third = (a_pod(scheduler, 0, number) for number in range(3))
    scheduler.place(first, 0)
    scheduler.place(second, 0)
    scheduler.terminate(second, 0)

    assert [1] == scheduler.feasible(third).tolist()

    scheduler.remove(second, 0)

    assert [0, 1] == scheduler.feasible(third).tolist()


@pytest.mark.parametrize(
    ("kind", "revision", "node"),
    [("Deployment", 0, 1), ("Deployment", 1, 0), ("StatefulSet", 1, 1), ("ReplicationController", 0, 1), ("Job", 0, 0)],
)
def test_pods_of_the_same_revision_are_spread(kind: str, revision: int, node: int) -> None:
    """A pod of another workload makes the other node the fuller one. A ReplicaSet is not spread from an old one."""
    trace = a_trace(nodes=2, curves=(IDLE, IDLE), replicas=(2, 1))
    first = msgspec.structs.replace(trace.workloads[0], kind=kind)
    larger = msgspec.structs.replace(trace.workloads[1], request_cpu_milli=700)
    scheduler = a_scheduler(msgspec.structs.replace(trace, workloads=(first, larger)))
    scheduler.place(a_pod(scheduler, 0, 0), 0)
    scheduler.place(a_pod(scheduler, 1, 1), 1)

    assert node == scheduler.choose_alone(a_pod(scheduler, 0, 2, revision)).node


def in_zones(trace: Trace, zones: str) -> Trace:
    """One letter per node; blank: none."""
    nodes = [msgspec.structs.replace(node, zone=zone.strip()) for node, zone in zip(trace.nodes, zones, strict=True)]
    return msgspec.structs.replace(trace, nodes=tuple(nodes))


@pytest.mark.parametrize(("zones", "node"), [("    ", 1), ("aaab", 3), ("aabb", 2)])
def test_pods_of_a_workload_are_spread_over_zones(zones: str, node: int) -> None:
    """By the default constraints of kube-scheduler. Without zones, the pod goes to the empty node."""
    scheduler = a_scheduler(in_zones(a_trace(curves=(IDLE, IDLE), replicas=(2, 1)), zones))
    for number, (workload, place) in enumerate([(0, 0), (1, 2), (1, 3)]):
        scheduler.place(a_pod(scheduler, workload, number), place)

    assert node == scheduler.choose_alone(a_pod(scheduler, 0, 3)).node


def spreading_over_zones(**fields: Any) -> TraceSpreadConstraint:
    return TraceSpreadConstraint(topology_key="topology.kubernetes.io/zone", **fields)


EVERY_APP = LabelSelector(match_expressions=[SelectorRequirement(key="app", operator="Exists")])


@pytest.mark.parametrize(
    ("constraint", "feasible"),
    [
        (spreading_over_zones(), [2, 3]),
        (spreading_over_zones(max_skew=3), [0, 1, 2, 3]),
        (spreading_over_zones(when_unsatisfiable="ScheduleAnyway"), [0, 1, 2, 3]),
        (spreading_over_zones(match_label_keys=["pod-template-hash"]), [0, 1, 2, 3]),
        (spreading_over_zones(label_selector=EVERY_APP), [0, 1]),
    ],
    ids=["own pods", "a skew of 3", "preferred", "of the new revision", "pods of all workloads"],
)
def test_topology_spread_constraints_of_the_trace_apply(constraint: TraceSpreadConstraint, feasible: list[int]) -> None:
    """Zone a has two pods of an old revision of the workload, and zone b four of another workload."""
    trace = in_zones(a_trace(curves=(IDLE, IDLE), replicas=(3, 4)), "aabb")
    first = msgspec.structs.replace(trace.workloads[0], topology_spread=(constraint,))
    scheduler = a_scheduler(msgspec.structs.replace(trace, workloads=(first, trace.workloads[1])))
    for number, (workload, place) in enumerate([(0, 0), (0, 1), *[(1, 2), (1, 3)] * 2]):
        scheduler.place(a_pod(scheduler, workload, number), place)

    assert feasible == sorted(scheduler.feasible(a_pod(scheduler, 0, 9, revision=1)).tolist())


@pytest.mark.parametrize(
    ("effect", "tolerations", "feasible"),
    [
        ("NoSchedule", (), False),
        ("NoExecute", (), False),
        ("PreferNoSchedule", (), True),
        ("NoSchedule", (Toleration(key="gpu", operator="Exists"),), True),
    ],
)
def test_taints_and_tolerations_of_the_trace_apply(
    effect: str, tolerations: tuple[Toleration, ...], feasible: bool
) -> None:
    taints = (TraceTaint(key="gpu", effect=effect),)
    node = TraceNode(name="node-0", cpu_milli=4_000, memory_mib=8_192, taints=taints)
    scheduler = a_scheduler(a_trace_of(node=node, tolerations=tolerations))

    assert feasible == bool(len(scheduler.feasible(a_pod(scheduler, 0, 0))))


@pytest.mark.parametrize(
    ("request_cpu_milli", "pods", "feasible"), [(4_000, 1, 1), (4_001, 1, 0), (0, 1, 1), (1, 0, 0)]
)
def test_a_node_has_the_amounts_of_the_trace(request_cpu_milli: int, pods: int, feasible: int) -> None:
    """All of them may be requested. A request of 0 is none."""
    node = TraceNode(name="node-0", cpu_milli=4_000, memory_mib=8_192, pods=pods)
    scheduler = a_scheduler(a_trace_of(node=node, request_cpu_milli=request_cpu_milli))

    assert feasible == len(scheduler.feasible(a_pod(scheduler, 0, 0)))


@pytest.mark.parametrize(("request_", "feasible"), [({}, 2), ({"nvidia.com/gpu": 2}, 1), ({"nvidia.com/gpu": 3}, 0)])
def test_extended_resources_of_the_trace_are_required(request_: dict[str, int], feasible: int) -> None:
    """One of two nodes has two GPUs."""
    trace = a_trace(nodes=2, curves=(IDLE,), replicas=(1,))
    first = msgspec.structs.replace(trace.nodes[0], extended_resources={"nvidia.com/gpu": 2})
    workload = msgspec.structs.replace(trace.workloads[0], extended_resources=request_)
    scheduler = a_scheduler(msgspec.structs.replace(trace, nodes=(first, trace.nodes[1]), workloads=(workload,)))

    assert feasible == len(scheduler.feasible(a_pod(scheduler, 0, 0)))


def preferring(*names: str) -> list[PreferredNodes]:
    rule = SelectorRequirement(key="kubernetes.io/hostname", operator="In", values=list(names))
    return [PreferredNodes(weight=100, preference=NodeSelectorTerm(match_expressions=[rule]))]


def test_a_pod_prefers_the_nodes_of_its_hint() -> None:
    """Unless it is placed alone. The next pod has no hint."""
    hints: list[Sequence[PreferredNodes]] = [preferring("node-2"), ()]
    scheduler = SimulatedScheduler(a_trace(), random.Random(1), preferred=lambda pod: hints.pop(0))

    chosen = [scheduler.choose(a_pod(scheduler, 0, number), POD_DEMAND, 0.0).node for number in range(2)]

    assert [2, 0] == chosen
    assert 0 == scheduler.choose_alone(a_pod(scheduler, 0, 2)).node


def test_an_extender_scores_the_feasible_nodes() -> None:
    """Rows are indexes of the trace."""
    seen: list[list[int]] = []

    def scores(rows: Rows) -> Ints:
        seen.append(rows.tolist())
        return (rows == 3) * 10

    trace = a_trace(tainted=(1,))
    scheduler = SimulatedScheduler(trace, random.Random(1), lambda pod, now: Extender(scores=scores, weight=5))

    assert 3 == scheduler.choose(a_pod(scheduler, 0, 0), POD_DEMAND, 0.0).node
    assert [[0, 2, 3]] == seen


def test_the_configured_part_of_the_nodes_is_scored() -> None:
    """At least 100, in a cluster of 300."""
    seen: list[int] = []

    def scores(rows: Rows) -> Ints:
        seen.append(len(rows))
        return 0 * rows

    for percentage in (1, 50, 100):
        scheduler = SimulatedScheduler(
            a_trace(nodes=300),
            random.Random(1),
            lambda pod, now: Extender(scores=scores, weight=5),
            percentage_of_nodes_to_score=percentage,
        )
        scheduler.choose(a_pod(scheduler, 0, 0), POD_DEMAND, 0.0)

    assert [100, 150, 300] == seen


def test_a_pending_pod_is_worth_another_attempt_only_on_a_node_with_enough_room() -> None:
    """Nodes have 8 cores and 32 GiB. The first one has 2 cores left, and the second one all."""
    trace = a_trace(nodes=2, curves=(IDLE,), replicas=(4,), request_cpu_milli=3_000)
    scheduler = a_scheduler(trace)
    for number in range(2):
        scheduler.place(a_pod(scheduler, 0, number), 0)

    assert [scheduler.may_fit(a_pod(scheduler, 0, 2), node) for node in (0, 1)] == [False, True]


@pytest.mark.parametrize("changed", ["priority", "topology_spread", "extended_resources"])
def test_a_pending_pod_is_always_tried_where_more_than_room_may_help(changed: str) -> None:
    """A removed pod may satisfy a topology spread constraint of another node; preemption depends on priorities."""
    trace = a_trace(nodes=1, curves=(IDLE, IDLE), replicas=(3, 1), request_cpu_milli=3_000)
    spread = (TraceSpreadConstraint(topology_key="kubernetes.io/hostname"),)
    value = {"priority": 1, "topology_spread": spread, "extended_resources": {"example.com/device": 1}}[changed]
    first, second = trace.workloads
    workloads = (msgspec.structs.replace(first, **{changed: value}), second)
    scheduler = a_scheduler(msgspec.structs.replace(trace, workloads=workloads))
    for number in range(2):
        scheduler.place(a_pod(scheduler, 0, number), 0)

    assert scheduler.may_fit(a_pod(scheduler, 0, 2), 0)
