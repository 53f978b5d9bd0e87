"""`equipoise pods`: pods by usage beside what they request, without I/O."""

from functools import partial
from typing import Any

import pytest
from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement, a_workload
from cli.narrow import UNFOLDED, assert_never_cut, printed
from descheduler.snapshots import a_snapshot, evaluation_settings
from msgspec.structs import replace

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.pod_list import MAX_ROWS, PodList, pod_list, show
from equipoise.cli.cluster_now.reading import ClusterNow
from equipoise.cli.exit_codes import CommandFailed
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.contracts.messages.values.resources import Resources

CLUSTER = ClusterName(context="home", cluster="castle", server="https://castle")
WEB = a_workload("web")


def now(**fields: Any) -> ClusterNow:
    """node-a with 10 cores has three pods, of which one is not measured; node-b has none that is measured."""
    measured = {"uid-big": Resources(cpu=5.0, memory=GIB), "uid-small": Resources(cpu=0.5, memory=2 * GIB)}
    usage = a_node_utilization("node-a", cpu=6.0, pods=measured, system=Resources(cpu=0.5, memory=GIB))
    of_a = [
        a_placed_pod("small", workload=WEB, requests=Resources(cpu=4.0, memory=GIB)),
        a_placed_pod("new", workload=WEB),
        a_placed_pod("big", workload=WEB, requests=Resources(cpu=0.1)),
    ]
    defaults: dict[str, Any] = {
        "snapshot": replace(a_snapshot(), now=NOW, nodes={"node-a": usage}),
        "placements": {"node-a": a_placement("node-a", of_a), "node-b": a_placement("node-b", [a_placed_pod("lost")])},
        "unknown": {"node-b": UnknownUsage("no sample", "cpu: no sample")},
        "not_expected": {}, "missing": (), "problem": "", "hours": 24,
    }  # fmt: skip
    return ClusterNow(**(defaults | fields))


def pods(node: str | None = None) -> PodList:
    return pod_list(CLUSTER, now(), evaluation_settings(), node=node)


def text(found: PodList, *, wide: bool = False) -> list[str]:
    """Lines, with one space between words."""
    shown = printed(lambda to: show(found, to, wide=wide), UNFOLDED)
    return [" ".join(line.split()) for line in shown.splitlines()]


def test_the_pods_of_a_node_are_listed_by_their_share_of_it() -> None:
    """With the load of the node, what is outside of pods, and how many are not measured."""
    shown = text(pods("node-a"))

    assert [pod.pod for pod in pods("node-a").pods] == ["shop/big", "shop/small", "shop/new"]
    assert "node-a: cpu 60.0%, memory 6.2%; outside of pods 0.50 cores, 1.00 GiB" in shown
    assert "3 pods, the usage of 1 is not known" in shown
    assert "shop/big 5.00 0.10 1.00 0.00 cpu 50.0%, memory 1.6%" in shown
    assert "shop/small 0.50 4.00 2.00 1.00 cpu 5.0%, memory 3.1%" in shown


def test_a_pod_without_a_measurement_is_unknown_and_comes_last() -> None:
    """It is not 0: nobody knows what it uses."""
    last = pods("node-a").pods[-1]
    assert (last.usage, last.load, last.state) == (Resources(), Resources(), "not measured yet")
    assert any(line.startswith("shop/new ? ") for line in text(pods("node-a")))


def test_a_detached_pod_is_marked_and_has_its_workload() -> None:
    """Also while its usage is not known."""
    placed = [a_placed_pod(name, workload=WEB, detached=True) for name in ("big", "new")]
    found = pod_list(
        CLUSTER, now(placements={"node-a": a_placement("node-a", placed)}), evaluation_settings(), node=None
    )

    assert [(pod.pod, pod.workload, pod.state) for pod in found.pods] == [
        ("shop/big", str(WEB), "detached"),
        ("shop/new", str(WEB), "detached, not measured yet"),
    ]
    assert "2 pods, the usage of 1 is not known" in text(found)


def test_without_a_node_the_pods_of_all_nodes_are_listed() -> None:
    """Each with its node; the workloads are in wide output."""
    found = pods()
    assert [(pod.node, pod.pod) for pod in found.pods][:2] == [("node-a", "shop/big"), ("node-a", "shop/small")]
    assert {pod.node for pod in found.pods} == {"node-a", "node-b"}
    assert any(line.startswith("shop/big node-a ") for line in text(found))
    assert any(line.startswith(f"shop/big node-a {WEB} ") for line in text(found, wide=True))


def test_what_is_expected_of_new_pods_is_told_apart_from_what_is_measured() -> None:
    """`equipoise nodes` shows both together, and a person compares."""
    arrived = a_placed_pod("new", workload=WEB, placed_at=NOW - 60, running_since=NOW - 60, requests=Resources(cpu=2.0))
    snapshot = replace(now().snapshot, placements={"node-a": a_placement("node-a", [arrived])})
    found = pod_list(CLUSTER, now(snapshot=snapshot), evaluation_settings(), node="node-a")

    assert found.of is not None
    assert found.of.measured.cpu == pytest.approx(0.6)
    assert found.of.load.cpu is not None
    assert found.of.load.cpu > 0.7
    assert "measured: cpu 60.0%" in " ".join(text(found))
    assert not any(line.startswith("measured") for line in text(pods("node-a")))


def test_a_node_of_unknown_load_has_the_reason() -> None:
    shown = text(pods("node-b"))
    assert "unknown: cpu: no sample" in shown
    assert "node-b: cpu ?, memory ?; outside of pods ? cores, ? GiB" in shown


def test_an_unknown_node_is_named_with_those_that_exist() -> None:
    with pytest.raises(CommandFailed, match=r"there is no node node-z \(there are: node-a, node-b\)"):
        pods("node-z")


def test_a_long_list_is_shortened_in_text_and_says_so() -> None:
    found = pods("node-a")
    many = replace(found, pods=found.pods * MAX_ROWS)
    shown = printed(lambda to: show(many, to, wide=False), UNFOLDED)
    assert f"(first {MAX_ROWS}, -o wide has all)" in shown
    assert MAX_ROWS == shown.count("shop/")
    assert 3 * MAX_ROWS == printed(lambda to: show(many, to, wide=True), UNFOLDED).count(" Deployment/shop/web ")


@pytest.mark.parametrize("wide", [False, True])
def test_no_terminal_is_too_narrow_for_pods(wide: bool) -> None:
    assert_never_cut(partial(show, wide=wide), pods())
    assert_never_cut(partial(show, wide=wide), pods("node-a"))
