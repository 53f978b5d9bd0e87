"""Pods with amounts that no machine has, as a kube-apiserver accepts them: they are named, and concern no other pod."""

from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from builders import NOW, a_node_utilization
from descheduler.cluster import a_node_object
from flow.loop import HOT, IDLE, Loop
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import a_pod
from scorer.clusters import a_pod as a_request
from scorer.clusters import a_scoring_state

from equipoise.collector.decisions.pod_times import trimmed
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.contracts.bus.decoding import refusal
from equipoise.contracts.colocation.bands import OFFERED_NAMES
from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.kubernetes.quantity import most_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.score import ExplainRequest
from equipoise.contracts.unreadable.known_amounts import node_with_known_amounts
from equipoise.reclaimer.decisions.evaluation import ReclaimEvaluation, evaluate
from equipoise.reclaimer.decisions.strategy import MemoryPolicy, ReclaimStrategy
from equipoise.reclaimer.state.node_usage import WorkloadProfiles, band_requests, node_usage
from equipoise.reclaimer.state.observed_node import ObservedNode
from equipoise.runtime.kubernetes.client import PODS
from equipoise.scorer.decisions.explanations.explanation import explain

LIMITS: dict[str, Sequence[ResourceRequirements]] = {
    "a limit": [ResourceRequirements(requests={"memory": "1Mi"}, limits={"memory": "9Pi"})],
    "a limit that is no float": [ResourceRequirements(limits={"cpu": "1e309"})],
    "limits of two containers": [ResourceRequirements(limits={"memory": "8Pi", "cpu": "1M"})] * 2,
    "another resource": [ResourceRequirements(requests={"example.com/stone": "1e308"})],
    "limits of a band": [
        ResourceRequirements(requests={"kubernetes.io/batch-memory": "1"}, limits={"kubernetes.io/batch-memory": "8Pi"})
    ]
    * 2,
}


def place(loop: Loop, name: str, node: str, resources: Sequence[ResourceRequirements]) -> None:
    """A pod of no workload, whose containers have these resources."""
    loop.place("web", name, node)
    pod = next(pod for pod in loop.kube.stored(PODS) if pod.metadata.name == name)
    containers = [Container(name=f"c{index}", resources=each) for index, each in enumerate(resources)]
    loop.kube.put(
        PODS,
        msgspec.structs.replace(
            pod,
            spec=msgspec.structs.replace(pod.spec, containers=containers),
            metadata=msgspec.structs.replace(pod.metadata, owner_references=[]),
        ),
    )


@pytest.mark.parametrize("resources", LIMITS.values(), ids=LIMITS)
async def test_an_impossible_limit_or_an_unplanned_resource_on_every_node_stops_nothing(
    resources: Sequence[ResourceRequirements],
) -> None:
    """A hot node is relieved, every load is known, and all idle resources are offered."""
    loop = Loop()
    for node in (HOT, *IDLE):
        place(loop, f"tenant-{node}", node, resources)
    async with loop.running(colocation=True):
        await loop.until(lambda: bool(loop.evicted()), limit=600)
        explanation = await loop.explanation("api")
        reclaimed = loop.bus.published(ReclaimedNode, "equipoise.reclaim.node.*")[-3:]

    assert not [name for name in loop.evicted() if name.startswith("tenant")]
    assert not explanation.neutral
    assert [each.degraded for each in reclaimed] == [""] * 3
    assert all(not name.startswith("equipoise.") for _, name, _ in loop.bus.unreadable)


async def test_a_node_with_an_impossible_request_is_no_target_and_its_pod_is_named() -> None:
    """Somebody has bound the pod by hand. The other idle node takes the evicted pod."""
    loop = Loop()
    place(loop, "tenant", IDLE[0], [ResourceRequirements(requests={"memory": "9Pi"})])
    async with loop.running():
        await loop.until(lambda: bool(loop.evicted()), limit=600)
        await loop.pass_time(60)
        decision = loop.bus.published(DescheduleDecision, "equipoise.decision.descheduler.>")[-1]

    why = next(each.why for each in decision.nodes if each.node == IDLE[0])
    assert why.startswith("no target: what its pod shop/tenant requests is not known: memory is '9Pi'")
    assert {each.target for each in loop.outcomes()} == {IDLE[1]}
    assert "shop/tenant" in {name for _, name, _ in loop.kube.unreadable}


async def test_a_decision_names_the_pods_that_keep_all_idle_nodes_from_being_targets() -> None:
    loop = Loop()
    for node in IDLE:
        place(loop, f"tenant-{node}", node, [ResourceRequirements(requests={"memory": "9Pi"})])
    async with loop.running():
        await loop.pass_time(300)
        decision = loop.bus.published(DescheduleDecision, "equipoise.decision.descheduler.>")[-1]

    assert not loop.evicted()
    assert "0 idle nodes, more than 0 are needed (numberOfNodes); no target: " in decision.why
    assert all(f"shop/tenant-{node}" in decision.why for node in IDLE)


absurd = st.integers(0, 2**63 - 1).map(str) | st.sampled_from(["9Pi", "1E", "1e308", "1e309", "1n", "9" * 400])


def amounts_of(*resources: str, others: st.SearchStrategy[str] = absurd) -> st.SearchStrategy[dict[str, str]]:
    """Amounts that can be true, and whose sums can not, or `others`."""

    def quantities(resource: str) -> st.SearchStrategy[str]:
        most = most_of(resource)
        return st.sampled_from(["1", f"{most:.0f}", f"{most / 2:.0f}"]) | others

    return st.fixed_dictionaries({}, optional={resource: quantities(resource) for resource in resources})


def requirements_of(others: st.SearchStrategy[str]) -> st.SearchStrategy[ResourceRequirements]:
    """Of a container, or of a pod as a whole."""
    ordinary = amounts_of("cpu", "memory", "example.com/stone", others=others)
    amounts = ordinary | amounts_of(*OFFERED_NAMES, others=others)
    return st.builds(ResourceRequirements, requests=amounts, limits=amounts)


@st.composite
def pods(draw: st.DrawFn) -> list[Pod]:
    """On node a: up to a hundred equal containers, init containers and sidecars, overhead, resources of the pod."""
    found = []
    for index in range(draw(st.integers(1, 4))):
        others = draw(st.sampled_from([absurd, st.just("1")]))
        requirements = requirements_of(others)
        containers = [Container(name="c", resources=draw(requirements))] * draw(st.sampled_from([1, 2, 100]))
        initial = [
            Container(name="i", resources=draw(requirements), restart_policy=draw(st.sampled_from(["", "Always"])))
        ]
        spec = {
            "containers": containers,
            "init_containers": initial * draw(st.integers(0, 2)),
            "overhead": draw(st.just({}) | amounts_of("cpu", "memory", others=others)),
            "resources": draw(st.none() | requirements),
            "priority": draw(st.sampled_from([0, 5_500, 7_500, 9_500, -(2**31), 2**31 - 1])),
        }
        found.append(a_pod(f"web-{index}", node="a", spec=spec))
    return found


def placements_of(name: str, allocatable: dict[str, str]) -> ClusterPlacement:
    """Of a cluster with one node. `allocatable`: instead of the amounts that it has."""

    def no_owner(workload: Workload) -> None:
        raise LookupError

    node = a_node_object(name, NOW)
    if allocatable:
        status = msgspec.structs.replace(node.status, allocatable=allocatable, capacity=allocatable)
        node = msgspec.structs.replace(node, status=status)
    placements = ClusterPlacement(
        windows=(300.0,), start_timeout=600.0, owner_retention=3_600.0, owner_of=no_owner, selector={}
    )
    placements.on_node(None, node_with_known_amounts(node))
    return placements


@given(pods(), amounts_of("cpu", "memory", "pods"), st.booleans())
def test_whatever_pods_and_nodes_ask_for_and_offer_all_messages_about_them_can_be_read(
    found: list[Pod], allocatable: dict[str, str], by_requests: bool
) -> None:
    """The placement of the collector, the amounts of the reclaimer, and the explanation of the scorer."""
    placements = placements_of("a", allocatable)
    for pod in found:
        placements.on_pod(None, trimmed(pod), NOW)
    placement = placements.placement("a")
    assert placement is not None
    assert refusal(placement) == ""
    assert len(placement.pods) == len(found)

    utilization = a_node_utilization("a", uid=placement.uid)
    usage = node_usage(placement, utilization, WorkloadProfiles())
    observed = ObservedNode(
        placement=placement,
        usage=usage,
        highest=np.repeat(usage.used[:, np.newaxis], 24, axis=1).astype(np.float32),
        sampled_at=NOW - 10,
        age=10.0,
        existing={},
        requests=band_requests(placement),
        last={},
    )
    policy: MemoryPolicy = "request" if by_requests else "maxUsageRequest"
    settings = ReclaimEvaluation(strategy=ReclaimStrategy(cpu_policy="maxUsageRequest", memory_policy=policy))
    evaluated = evaluate([observed], settings, max_age=90.0, now=NOW)[0]
    assert refusal(evaluated.message) == ""

    state = a_scoring_state({"a": 3.0, "b": 1.0})
    state.on_placement(placement, NOW)
    state.nodes.on_utilization(msgspec.structs.replace(utilization, sequence=2), NOW)
    for request in (ExplainRequest(pod=a_request(), nodes=["a", "b"]), ExplainRequest(namespace="shop", name="web-0")):
        assert refusal(explain(state, request, NOW)) == ""
