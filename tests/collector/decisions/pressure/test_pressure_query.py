"""The PromQL of pressure."""

import msgspec
from builders import NOW

from equipoise.collector.decisions.pressure.pressure_query import ROOT_CGROUP, PressureQuery
from equipoise.collector.decisions.query import NodeMatcher

OF_NODES = PressureQuery(subject="node", length=300.0, at=NOW, min_samples=16)
OF_PODS = PressureQuery(subject="pod", length=300.0, at=NOW)


def test_a_share_of_a_node_needs_enough_samples_in_the_window() -> None:
    counter = 'node_pressure_io_waiting_seconds_total{job="node"}'
    expected = f"rate({counter}[300000ms]) and count_over_time({counter}[300000ms]) >= 16"
    assert expected == OF_NODES.about("io").promql({"job": "node"})


def test_cadvisor_has_the_pressure_of_a_node_at_the_root_cgroup() -> None:
    query = PressureQuery(subject="node", measure="newest", length=300.0, at=NOW, exporter=ROOT_CGROUP)
    assert 'timestamp(container_pressure_cpu_waiting_seconds_total{id="/"})' == query.promql({})


def test_pods_near_0_are_left_out_by_the_source() -> None:
    assert OF_PODS.about("memory").promql({}).endswith("> 0.01")
    assert OF_PODS.about("throttled").promql({}).endswith("> 0.01")
    assert OF_PODS.about("disk").promql({}).endswith("> 1048576")


def test_containers_stand_for_a_pod_without_a_series_of_its_own() -> None:
    whole, any_series = (
        PressureQuery(subject="pod", length=300.0, at=NOW, pod_series=series).promql({}) for series in ("pods", "any")
    )
    assert 'container=""' in whole
    assert 'container=""' not in any_series


def test_a_query_about_some_nodes_names_them() -> None:
    query = msgspec.structs.replace(OF_NODES, nodes=NodeMatcher("instance", ("a:9100", "b:9100")))
    counter = 'node_pressure_cpu_waiting_seconds_total{instance=~"a:9100|b:9100",job="node"}'
    assert f"timestamp({counter})" == query.about("newest").promql({"job": "node"})
