"""The day that lies before a node is that of the pods which will be there."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization
from descheduler.cluster import a_node_object
from descheduler.test_cluster_builder import LOAD, OWNERS, a_pod

from equipoise.contracts.configuration.settings import Namespaces, Protection, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.fit import fit_pod
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.decisions.evaluation.cluster_builder import WatchedObjects
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, ClusterSource, Snapshot
from equipoise.descheduler.state.cluster import ClusterState, IntentLimits
from equipoise.descheduler.state.dry_run_moves import Assumption, Assumptions
from equipoise.descheduler.state.pending_moves import TrackedMove, PendingMoves
from equipoise.descheduler.state.pod_lifetimes import PodLifetimes

USED = Resources(cpu=1.5, memory=GIB)
DAY = [1.0] * 12 + [3.0] * 12
"""Cores of a replica, hour by hour."""

CONFIGURED = EvaluationSettings(
    load=LOAD,
    thresholds=Thresholds(),
    rules=Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system"),
    limits=IntentLimits(per_evaluation=4, per_node=2, per_workload=1),
)


def a_moment(*, profile: bool = True, **fields: Any) -> Snapshot:
    """web-1 on node-a, which uses half a core beyond its pods; node-b has nothing."""
    pod = a_pod()
    stays = PodLifetimes()
    stays.changed(None, pod, usage=Resources(), now=NOW)
    system = Resources(cpu=0.5, memory=GIB)
    watched = WatchedObjects(
        nodes=[a_node_object(name, NOW) for name in ("node-a", "node-b")],
        pods=[pod],
        namespaces={"shop": objects.Namespace(metadata=objects.ObjectMeta(name="shop"))},
        workloads=OWNERS,
    )
    days = {"cpu": DAY, "memory": [GIB] * 24} if profile else {}
    defaults: dict[str, Any] = {
        "now": NOW,
        "watched": watched,
        "nodes": {
            "node-a": a_node_utilization(cpu=2.0, system=system, pods={"uid-web-1": USED}),
            "node-b": a_node_utilization("node-b", cpu=0.5, system=system),
        },
        "workloads": {a_workload(): a_workload_utilization(profile=days)},
        "cycles": (),
        "stays": stays,
    }
    return Snapshot(**(defaults | fields))


def cores(cluster: ClusterState, node: str) -> list[float]:
    """Of each hour."""
    assert cluster.days is not None
    found: list[float] = cluster.days.of_nodes([node])[0, 0].tolist()
    return found


def test_a_nodes_day_is_that_of_its_pods() -> None:
    """And of what it uses beyond them; a pod without a profile goes on as it is."""
    known, flat = ClusterSource(a_moment(), CONFIGURED).cluster, ClusterSource(a_moment(profile=False), CONFIGURED).cluster

    assert cores(known, "node-a") == pytest.approx([0.5 + each for each in DAY])
    assert cores(known, "node-b") == pytest.approx([0.5] * 24)
    assert cores(flat, "node-a") == pytest.approx([2.0] * 24)


def test_a_pod_on_its_way_counts_where_it_goes() -> None:
    """No longer on the node that it leaves."""
    flight = TrackedMove(
        id="one", pod_uid="uid-web-1", node="node-a", target="node-b", workload=a_workload(), relief=USED, until=NOW + 9
    )
    cluster = ClusterSource(a_moment(flights={"one": flight}), CONFIGURED).cluster

    assert cores(cluster, "node-a") == pytest.approx([0.5] * 24)
    assert cores(cluster, "node-b") == pytest.approx([0.5 + each for each in DAY])


def an_assumption(**fields: Any) -> Assumption:
    """web-0 from node-a to node-b."""
    defaults: dict[str, Any] = {
        "pod_uid": "uid-web-0",
        "namespace": "shop",
        "pod": "web-0",
        "workload": a_workload(),
        "node": "node-a",
        "target": "node-b",
        "relief": USED,
        "since": NOW - 60,
        "until": NOW + 60,
    }
    return Assumption(**(defaults | fields))


@pytest.mark.parametrize("profile", [True, False])
def test_an_assumed_pod_counts_on_its_target(profile: bool) -> None:
    """With its workload's day, else with what it really uses on its node."""
    assumption = an_assumption(pod_uid="uid-web-1", relief=Resources(cpu=9.0, memory=GIB))
    cluster = ClusterSource(a_moment(profile=profile, assumptions={"uid-web-1": assumption}), CONFIGURED).cluster

    assert cores(cluster, "node-a") == pytest.approx([0.5] * 24)
    assert cores(cluster, "node-b") == pytest.approx([0.5 + each for each in (DAY if profile else [1.5] * 24)])


def test_a_node_of_which_nothing_was_heard_has_no_day() -> None:
    """Unknown, not idle."""
    cluster = ClusterSource(a_moment(nodes={}), CONFIGURED).cluster

    assert np.isnan(cores(cluster, "node-a")).all()


def told(cluster: ClusterState) -> list[Any]:
    """Everything that a strategy may read of its nodes and their days."""
    assert cluster.days is not None
    return [
        (
            *(getattr(node, field) for field in node.__struct_fields__ if field not in ("usage", "pods", "production")),
            dict(node.usage),
            list(node.pods),
            list(node.production_usages()),
            node.pod_count(),
            cluster.days.of_nodes([node.name]).tolist(),
        )
        for node in cluster.nodes
    ] + [cluster.busy_workloads, cluster.in_flight]


def test_a_look_goes_on_with_moves_under_way_as_a_new_one_would_see_them() -> None:
    """Those of before, some of which are over, and new ones: what they do not touch is not put together again."""
    nodes = ("node-a", "node-b", "node-c", "node-d")
    pods = [a_pod(f"web-{number}", node=node) for number, node in enumerate(nodes)]
    stays = PodLifetimes()
    for pod in pods:
        stays.changed(None, pod, usage=USED, now=NOW)
    moment = a_moment(
        nodes={
            node: a_node_utilization(node, cpu=2.0, pods={f"uid-web-{number}": USED})
            for number, node in enumerate(nodes)
        },
        stays=stays,
    )
    watched = msgspec.structs.replace(moment.watched, nodes=[a_node_object(name, NOW) for name in nodes], pods=pods)

    def a_flight(number: int, target: str) -> TrackedMove:
        return TrackedMove(
            id=f"flight-{number}", pod_uid=f"uid-web-{number}", node=nodes[number], target=target,
            workload=a_workload(), relief=USED, until=NOW + 9, fit=fit_pod(pods[number]),
        )  # fmt: skip

    def seen(flights: PendingMoves, assumed: Assumptions) -> ClusterSource:
        return ClusterSource(msgspec.structs.replace(moment, watched=watched, flights=flights, assumptions=assumed), CONFIGURED)

    before, after = {"flight-0": a_flight(0, "node-b")}, {"flight-1": a_flight(1, "node-c")}
    assumed = {"uid-web-0": an_assumption(target="node-c")}
    look = seen(before, {})
    was = told(look.cluster)

    for flights, assumptions in ((after, {}), (before, assumed), (after, assumed)):
        assert told(look.after(flights, assumptions)) == told(seen(flights, assumptions).cluster) != was
    assert told(look.cluster) == was
    assert look.after(after, {}).nodes[3] is look.cluster.nodes[3]
