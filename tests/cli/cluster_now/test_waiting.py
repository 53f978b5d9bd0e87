"""Which nodes hurt, and which are only busy."""

import io

import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement
from cli.cluster_now.test_cluster_now import CLUSTER, a_node
from rich.console import Console

from equipoise.cli.cluster_now.node_list import NodeList, show
from equipoise.cli.cluster_now.nodes import NodeNow
from equipoise.cli.cluster_now.pods import pods_by_usage
from equipoise.cli.cluster_now.spread import spread_of
from equipoise.cli.cluster_now.waiting import (
    EXAMPLE,
    LoadAndPressure,
    nodes_that_wait,
    pod_waiting_text,
    sentences,
    waiting_text,
)
from equipoise.contracts.configuration.settings import PressureThresholds, Thresholds
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources


def node(name: str, load: float, memory_load: float = 0.5, **waiting: float) -> LoadAndPressure:
    pressure = NodePressure(sampled_at=NOW, waiting=Pressure(**waiting)) if waiting else None
    return LoadAndPressure(name, Resources(cpu=load, memory=memory_load), pressure)


NODES = [
    node("hurt", 0.5, cpu=0.4, io=0.0),
    node("busy", 0.9, cpu=0.03, io=0.0),
    node("silent", 0.9),
    node("idle", 0.1, cpu=0.0),
]


def test_nodes_that_hurt_are_told_from_those_that_are_only_busy() -> None:
    found = nodes_that_wait(NODES, Thresholds(), required=False)
    text = " ".join(sentences(found))

    assert (3, 4, EXAMPLE, False) == (found.known, found.nodes, found.thresholds, found.configured)
    assert {"hurt"} == found.hurt.keys()
    assert ["busy"] == found.only_busy
    assert "Pressure is known of 3 of 4 nodes." in text
    assert "hurt: pods wait for CPU 40% of the time (above 20%)" in text
    assert "1 node is only busy" in text
    assert "descheduler.requirePressure: true" in text


def test_what_is_configured_already_is_not_advised() -> None:
    thresholds = Thresholds(pressure=PressureThresholds(cpu=50))
    found = nodes_that_wait(NODES, thresholds, required=True)

    assert {} == found.hurt
    assert "requirePressure" not in " ".join(sentences(found))
    assert "On no node pods wait for others (more than 50% for CPU)." in list(sentences(found))


@pytest.mark.parametrize(
    ("thresholds", "busy"),
    [
        (Thresholds(pressure=PressureThresholds(io=20)), node("busy", 0.9, cpu=0.8, io=0.0)),
        (Thresholds(), node("full", 0.1, memory_load=0.95, cpu=0.0, io=0.0, memory=0.0)),
        (Thresholds(), node("both", 0.9, memory_load=0.95, cpu=0.0, io=0.0, memory=0.5)),
    ],
)
def test_a_node_is_only_busy_if_nobody_waits_for_what_it_lacks(thresholds: Thresholds, busy: LoadAndPressure) -> None:
    """That nobody waits for disks shows nothing about CPU, and requirePressure without a threshold for memory keeps no
    pods on a node that is full."""
    assert [] == nodes_that_wait([busy], thresholds, required=False).only_busy


def test_without_known_pressure_nothing_is_said() -> None:
    assert [] == list(sentences(nodes_that_wait([node("silent", 0.9)], Thresholds(), required=False)))


def test_the_list_of_nodes_shows_pressure_where_it_is_known() -> None:
    shown = NodePressure(sampled_at=NOW, waiting=Pressure(cpu=0.31, io=0.02))

    def text(*nodes: NodeNow) -> str:
        spread = spread_of([item.load for item in nodes])
        to = Console(file=io.StringIO(), width=200)
        show(NodeList(cluster=CLUSTER, at=NOW, window="5m", spread=spread, nodes=list(nodes)), to, wide=False)
        return to.file.getvalue()  # type: ignore[attr-defined, no-any-return]

    assert "CPU 31%, disks 2%" in text(a_node("a", 0.5, pressure=shown), a_node("b", 0.5))
    assert "waits for" not in text(a_node("b", 0.5))


def test_a_pod_at_its_own_limit_is_marked() -> None:
    assert "CPU 80%, throttled 60% (own limit)" == pod_waiting_text(MeasuredPodPressure(cpu=0.8, throttled=0.6))
    assert "CPU 12%" == pod_waiting_text(MeasuredPodPressure(cpu=0.12))
    assert "" == pod_waiting_text(None)
    assert "" == waiting_text(None)


def test_pods_have_the_pressure_of_the_message() -> None:
    measured = MeasuredPodPressure(cpu=0.2)
    pressure = NodePressure(sampled_at=NOW, pods={"u1": measured})
    placement = a_placement("node-a", [a_placed_pod("web-1", uid="u1"), a_placed_pod("web-2", uid="u2")])

    pods = {pod.pod: pod.pressure for pod in pods_by_usage(placement, a_node_utilization(pressure=pressure))}
    assert {"shop/web-1": measured, "shop/web-2": None} == pods
