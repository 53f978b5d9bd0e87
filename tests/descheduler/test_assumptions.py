"""A dry run goes on from what it would have done."""

import msgspec
import pytest
from builders import GIB, NOW, a_workload, an_intent
from descheduler.clusters import a_cluster, a_node, a_pod, a_skewed_cluster
from descheduler.test_tracker import an_outcome
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster import ClusterNode
from equipoise.descheduler.state.dry_run_moves import MOST, Assumptions, PodLocation, after_outcome, applied, standing, told
from equipoise.descheduler.state.tracker import Tracker

DAY = 86_400.0
HERE = {"uid-web-1": PodLocation(node="node-a", workload=a_workload())}
NODES = ("node-a", "node-b")


def assumed(*pods: str, at: float = NOW) -> Assumptions:
    assumptions: Assumptions = {}
    for pod in pods:
        outcome = an_outcome(Outcome.DRY_RUN, an_intent(pod), settled_at=at)
        assumptions = after_outcome(assumptions, outcome, life=DAY, now=at)
    return assumptions


def two_nodes() -> list[ClusterNode]:
    """node-a with web-1 (2 cores, though 1 was expected) and web-2 (3 cores); node-b with nothing."""
    return [a_node("node-a", [a_pod("web-1", cpu=2.0), a_pod("web-2", cpu=3.0)]), a_node("node-b")]


def test_an_assumed_pod_counts_on_its_target() -> None:
    """With its present usage in every window, with what it needs, and it may not leave from there."""
    source, target = applied(two_nodes(), assumed("web-1"))

    assert [source.load(window).cpu for window in ("5m", "1d")] == pytest.approx([0.3, 0.3])
    assert [target.load(window).cpu for window in ("5m", "1d")] == pytest.approx([0.2, 0.2])
    assert [pod.name for pod in source.pods] == [pod.name for pod in source.fit.pods] == ["web-2"]
    assert [pod.name for pod in target.fit.pods] == ["web-1"]
    (pod,) = target.pods
    assert (pod.node, pod.protection) == ("node-b", "assumed moved in dry run, from node-a")


def test_an_assumed_pod_without_measurement_counts_as_expected() -> None:
    """What its relief was, not nothing."""
    source, target = a_node("node-a", [a_pod("web-1", cpu=None, memory=None)]), a_node("node-b")
    source = msgspec.structs.replace(source, usage={"5m": Resources(cpu=5.0, memory=8 * GIB)})

    source, target = applied([source, target], assumed("web-1"))

    assert (source.usage["5m"].cpu, target.usage["5m"].cpu) == pytest.approx((4.0, 1.0))


def test_assumed_moves_may_share_their_nodes() -> None:
    """Each of them is taken off and put on."""
    source, target = applied(two_nodes(), assumed("web-1", "web-2"))

    assert (source.load("5m").cpu, target.load("5m").cpu) == pytest.approx((0.0, 0.5))
    assert [pod.name for pod in target.pods] == ["web-1", "web-2"]


def test_the_picture_of_production_moves_too() -> None:
    """Where a node tells what its production pods use, the pod is told of on its target."""
    heavy = a_pod("web-1", cpu=2.0, qos="Guaranteed", priority=9_500)
    source = a_node("node-a", [heavy], production=[heavy.usage, Resources(cpu=0.5, memory=GIB)])
    target = a_node("node-b", production=[])
    if not heavy.production:
        pytest.fail("the pod of this test is meant to be one of production")

    source, target = applied([source, target], assumed("web-1"))

    assert [usage.cpu for usage in source.production_usages()] == [0.5]
    assert [usage.cpu for usage in target.production_usages()] == [2.0]


def test_a_plan_goes_on_from_assumed_moves() -> None:
    """The projection of every strategy stands on them."""
    nodes = applied(two_nodes(), assumed("web-1"))
    projection = Projection(a_cluster(*nodes), "5m")

    assert projection.load(nodes[1])["cpu"] == pytest.approx(0.2)


def test_what_cannot_be_found_changes_nothing() -> None:
    """A pod that is gone, a target that is not in the fleet."""
    nodes = two_nodes()

    assert applied(nodes, assumed("web-7")) == nodes
    assert applied(nodes[:1], assumed("web-1")) == nodes[:1]


@pytest.mark.parametrize(
    ("places", "nodes", "now"),
    [
        ({}, NODES, NOW),
        ({"uid-web-1": PodLocation(node="node-c", workload=a_workload())}, NODES, NOW),
        ({"uid-web-1": PodLocation(node="node-a", workload=a_workload("other"))}, NODES, NOW),
        (HERE, ("node-a",), NOW),
        (HERE, NODES, NOW + DAY),
    ],
    ids=["pod gone", "pod elsewhere", "another workload", "target gone", "too old"],
)
def test_an_assumption_ends(places: dict[str, PodLocation], nodes: tuple[str, ...], now: float) -> None:
    """When the pod really goes, when it is another workload's, when its target is gone, and after its life."""
    assert standing(assumed("web-1"), HERE, NODES, NOW + DAY - 1)
    assert not standing(assumed("web-1"), places, nodes, now)


def test_only_a_dry_run_is_assumed() -> None:
    """Not a refusal; a real eviction ends what was assumed of its pod; old dry runs that the bus repeats are over."""
    for outcome in set(Outcome) - {Outcome.DRY_RUN}:
        assert not after_outcome({}, an_outcome(outcome), life=DAY, now=NOW)
    assert after_outcome(assumed("web-1"), an_outcome(Outcome.REJECTED_LIMIT), life=DAY, now=NOW)
    assert not after_outcome(assumed("web-1"), an_outcome(Outcome.EVICTED), life=DAY, now=NOW)
    assert not after_outcome({}, an_outcome(Outcome.DRY_RUN), life=DAY, now=NOW + DAY)


def test_real_evictions_end_all_assumptions() -> None:
    """Who switches evictions on must not wait for a day: what was only assumed has to be done."""
    memory = Tracker(DeschedulerSettings().tracker)
    memory.settled(an_outcome(Outcome.DRY_RUN), NOW)
    assert memory.assumptions
    memory.evictions_are_real()

    assert not memory.assumptions


def test_memory_of_assumptions_is_bounded() -> None:
    """The newest are kept."""
    assumptions = assumed(*(f"web-{number}" for number in range(MOST + 10)))

    assert len(assumptions) == MOST
    assert "uid-web-9" not in assumptions
    assert told(assumptions)[0].since == NOW


@given(st.data(), st.integers(0, 20))
def test_assuming_moves_loses_and_makes_nothing(data: st.DataObject, seed: int) -> None:
    """Whatever is assumed, every pod is on one node, and all nodes together use what they used."""
    nodes = a_skewed_cluster(seed, nodes=5, pods_per_node=4).nodes
    pods = [pod for node in nodes for pod in node.pods]
    assumptions: Assumptions = {}
    for pod in data.draw(st.lists(st.sampled_from(pods), max_size=8)):
        target = data.draw(st.sampled_from([node.name for node in nodes if node.name != pod.node]))
        intent = an_intent(pod.name, node=pod.node, workload=pod.workload, target=target)
        assumptions = after_outcome(assumptions, an_outcome(Outcome.DRY_RUN, intent), life=DAY, now=NOW)
    after = applied(nodes, assumptions)

    assert sorted(pod.uid for node in after for pod in node.pods) == sorted(pod.uid for pod in pods)
    assert [[pod.uid for pod in node.pods] for node in after] == [[fit.uid for fit in node.fit.pods] for node in after]
    for name in ("cpu", "memory"):
        before = sum(getattr(node.usage["5m"], name) for node in nodes)
        assert sum(getattr(node.usage["5m"], name) for node in after) == pytest.approx(before)
    moved = {pod.uid: node.name for node in after for pod in node.pods if pod.protection}
    assert moved == {uid: each.target for uid, each in assumptions.items()}
