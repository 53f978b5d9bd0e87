"""The day that lies before a node is that of the pods which will be there."""

from typing import Any

import numpy as np
import pytest
from builders import GIB, NOW, a_node_utilization, a_workload, a_workload_utilization
from descheduler.cluster import a_node_object
from descheduler.test_picture import LOAD, OWNERS, a_pod

from equipoise.contracts import objects
from equipoise.contracts.messages import Resources
from equipoise.contracts.protection import Rules
from equipoise.contracts.settings import Namespaces, Protection, Thresholds
from equipoise.descheduler.assumptions import Assumption
from equipoise.descheduler.fleet import Fleet, IntentLimits
from equipoise.descheduler.flights import Flight
from equipoise.descheduler.moment import Configured, Moment, fleet_of
from equipoise.descheduler.picture import Watched
from equipoise.descheduler.stays import PodStays

USED = Resources(cpu=1.5, memory=GIB)
DAY = [1.0] * 12 + [3.0] * 12
"""Cores of a replica, hour by hour."""

CONFIGURED = Configured(
    load=LOAD,
    thresholds=Thresholds(),
    rules=Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system"),
    limits=IntentLimits(per_evaluation=4, per_node=2, per_workload=1),
)


def a_moment(*, profile: bool = True, **fields: Any) -> Moment:
    """web-1 on node-a, which uses half a core beyond its pods; node-b has nothing."""
    pod = a_pod()
    stays = PodStays()
    stays.changed(None, pod, usage=Resources(), now=NOW)
    system = Resources(cpu=0.5, memory=GIB)
    watched = Watched(
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
    return Moment(**(defaults | fields))


def cores(fleet: Fleet, node: str) -> list[float]:
    """Of each hour."""
    assert fleet.days is not None
    day = fleet.days.of_node(node)
    assert day is not None
    found: list[float] = np.broadcast_to(day, (2, 24))[0].tolist()
    return found


def test_a_nodes_day_is_that_of_its_pods() -> None:
    """And of what it uses beyond them; a pod without a profile goes on as it is."""
    known, flat = fleet_of(a_moment(), CONFIGURED), fleet_of(a_moment(profile=False), CONFIGURED)

    assert cores(known, "node-a") == pytest.approx([0.5 + each for each in DAY])
    assert cores(known, "node-b") == pytest.approx([0.5] * 24)
    assert cores(flat, "node-a") == pytest.approx([2.0] * 24)


def test_a_pod_on_its_way_counts_where_it_goes() -> None:
    """No longer on the node that it leaves."""
    flight = Flight(
        id="one", pod_uid="uid-web-1", node="node-a", target="node-b", workload=a_workload(), relief=USED, until=NOW + 9
    )
    fleet = fleet_of(a_moment(flights={"one": flight}), CONFIGURED)

    assert cores(fleet, "node-a") == pytest.approx([0.5] * 24)
    assert cores(fleet, "node-b") == pytest.approx([0.5 + each for each in DAY])


@pytest.mark.parametrize("profile", [True, False])
def test_an_assumed_pod_counts_on_its_target(profile: bool) -> None:
    """With its workload's day, else with what it really uses on its node."""
    assumption = Assumption(
        pod_uid="uid-web-1",
        namespace="shop",
        pod="web-1",
        workload=a_workload(),
        node="node-a",
        target="node-b",
        relief=Resources(cpu=9.0, memory=GIB),
        since=NOW - 60,
        until=NOW + 60,
    )
    fleet = fleet_of(a_moment(profile=profile, assumptions={"uid-web-1": assumption}), CONFIGURED)

    assert cores(fleet, "node-a") == pytest.approx([0.5] * 24)
    assert cores(fleet, "node-b") == pytest.approx([0.5 + each for each in (DAY if profile else [1.5] * 24)])


def test_a_node_of_which_nothing_was_heard_has_no_day() -> None:
    """Unknown, not idle."""
    fleet = fleet_of(a_moment(nodes={}), CONFIGURED)

    assert fleet.days is not None
    assert fleet.days.of_node("node-a") is None
