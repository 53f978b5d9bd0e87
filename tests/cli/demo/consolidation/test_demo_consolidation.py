"""The figures of runs in which nodes are removed."""

import json
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import numpy as np
import pytest

from equipoise.cli.demo.configuration import compressed_document, equipoise_document
from equipoise.cli.demo.consolidation.demo import HOURS_PER_MONTH, consolidation_sentence, result_of
from equipoise.cli.demo.consolidation.figures import ConsolidationFigures, UsedDay, figures
from equipoise.cli.demo.consolidation.fleet import INSTANCE_TYPE, even_placement, fewest_nodes, fleet
from equipoise.cli.demo.consolidation.history import FOREVER, History, Placed, Span, history
from equipoise.cli.demo.consolidation.settings import CONSOLIDATION
from equipoise.cli.demo.manifests import DAEMON_SET
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.lab.model.trace import Trace, TraceNode, TracePod, TraceWorkload
from equipoise.testbed.ready_endpoints import ReadyEndpoints, Shortage

DAY = UsedDay(epoch=0.0, step_seconds=10.0, cpu_milli={"shop/web": [100.0, 900.0]})
"""A day of 20 seconds, so that a second is 1.2 hours."""


def trace(nodes: int, *requests: int) -> Trace:
    """Pods with these requested millicores, each of a workload of its own."""
    return Trace(
        name="",
        nodes=tuple(
            TraceNode(name=f"node-{number}", cpu_milli=1_050, memory_mib=1_064) for number in range(nodes)
        ),
        workloads=tuple(
            TraceWorkload(name=f"app-{number}", request_cpu_milli=request) for number, request in enumerate(requests)
        ),
        pods=tuple(TracePod(name=f"app-{number}-0", workload=number) for number in range(len(requests))),
        cpu_milli=np.ones((len(requests), 1)),
        memory_mib=np.ones((len(requests), 1)),
        seconds_per_step=900.0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("requests", "bound", "sufficient"),
    [
        ([500] * 4, 2, 2),  # by their sum
        ([600] * 3, 3, 3),  # no two fit on a node
        ([400] * 6, 3, 3),  # no three fit on a node, though their sum fits on fewer
        ([510, 490] * 2, 2, 2),
        ([350, 350, 300, 450, 550], 2, 2),
        ([60, 70, 80], 1, 1),
    ],
)
def test_the_fewest_nodes_are_bounded_by_requests(requests: list[int], bound: int, sufficient: int) -> None:
    """A node has room for 1,000 millicores beside the DaemonSet."""
    assert fewest_nodes(trace(5, *requests)) == (bound, sufficient)


def test_the_memory_bounds_the_nodes_too() -> None:
    pods = trace(5, 100, 100)
    workloads = tuple(msgspec.structs.replace(workload, request_memory_mib=600) for workload in pods.workloads)

    assert fewest_nodes(msgspec.structs.replace(pods, workloads=workloads)) == (2, 2)


def test_the_fleet_requests_about_seventy_percent_of_equal_nodes() -> None:
    """And uses less than half, in every hour."""
    pods = fleet(1, 40)
    cores = sum(node.cpu_milli for node in pods.nodes)
    requested = sum(pods.workloads[pod.workload].request_cpu_milli for pod in pods.pods)
    used = sum(pods.cpu_milli[pod.workload] for pod in pods.pods)

    assert {node.cpu_milli for node in pods.nodes} == {INSTANCE_TYPE.cpu_milli}
    assert requested / cores == pytest.approx(0.7, abs=0.1)
    assert max(used) / cores < 0.5


def test_the_pods_start_evenly_by_requests_and_the_same_in_each_run() -> None:
    pods = fleet(2, 10)
    start = even_placement(pods, 2)
    request = {f"{workload.namespace}/{workload.name}": workload.request_cpu_milli for workload in pods.workloads}
    requested = dict.fromkeys((node.name for node in pods.nodes), 0)
    for workload, nodes in start.items():
        for node in nodes:
            requested[node] += request[workload]

    assert start == even_placement(pods, 2)
    assert sum(map(len, start.values())) == len(pods.pods)
    assert max(requested.values()) - min(requested.values()) <= max(request.values())
    assert max(requested.values()) < INSTANCE_TYPE.cpu_milli


def event(at: float, resource: str, name: str, verb: str, **fields: object) -> str:
    """A line of the audit log."""
    kind, _, subresource = resource.partition("/")
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    return json.dumps(
        {
            "stage": "ResponseComplete",
            "auditID": "",
            "verb": verb,
            "requestURI": "/",
            "objectRef": {"resource": kind, "namespace": "shop", "name": name, "subresource": subresource},
            "responseStatus": {"code": 200},
            "requestReceivedTimestamp": moment,
            "stageTimestamp": moment,
        }
        | fields
    )


def binding(at: float, pod: str, node: str) -> str:
    return event(at, "pods/binding", pod, "create", requestObject={"target": {"name": node}})


def unplaced(at: float, pod: str) -> str:
    return event(at, "pods/status", pod, "patch", user={"username": "system:kube-scheduler"})


def read(tmp_path: Path, *lines: str, nodes: set[str] | None = None) -> History:
    log = tmp_path / "audit.log"
    log.write_text("".join(f"{line}\n" for line in lines))
    return history(log, nodes or set())


def test_a_pod_is_on_its_node_until_the_last_request_that_deletes_it(tmp_path: Path) -> None:
    """The first one begins its grace period."""
    past = read(
        tmp_path,
        binding(1, "web-5d4b-a", "node-a"),
        event(5, "pods", "web-5d4b-a", "delete"),
        event(8, "pods", "web-5d4b-a", "delete"),
        binding(9, "web-5d4b-b", "node-b"),
    )

    assert past.pods == (
        Placed(name="shop/web-5d4b-a", node="node-a", since=1.0, until=8.0),
        Placed(name="shop/web-5d4b-b", node="node-b", since=9.0, until=FOREVER),
    )
    assert {pod.workload for pod in past.pods} == {"shop/web"}


def test_a_node_ends_with_its_last_write_unless_it_exists(tmp_path: Path) -> None:
    """Its finalizers end after the request that deletes it. What is written to its status does not count."""
    past = read(
        tmp_path,
        event(1, "nodes", "node-a", "create"),
        event(1, "nodes", "node-b", "create"),
        event(5, "nodes", "node-a", "delete"),
        event(7, "nodes", "node-a", "patch"),
        event(8, "nodes/status", "node-a", "patch"),
        event(9, "nodes", "node-b", "patch"),
        nodes={"node-b"},
    )

    assert past.nodes == (Span(name="node-a", since=1.0, until=7.0), Span(name="node-b", since=1.0, until=FOREVER))


def test_a_pod_is_pending_from_the_first_time_that_no_node_was_found(tmp_path: Path) -> None:
    """Until it is bound or gone. A pod that is bound at once never was."""
    past = read(
        tmp_path,
        unplaced(2, "web-5d4b-a"),
        unplaced(4, "web-5d4b-a"),
        binding(6, "web-5d4b-a", "node-a"),
        unplaced(3, "web-5d4b-b"),
        event(5, "pods", "web-5d4b-b", "delete"),
        binding(7, "web-5d4b-c", "node-a"),
        unplaced(8, "web-5d4b-d"),
        event(8, "pods/status", "web-5d4b-c", "patch", user={"username": "kwok"}),
    )

    assert [(span.name[-1], span.since, span.until) for span in past.pending] == [
        ("a", 2.0, 6.0),
        ("b", 3.0, 5.0),
        ("d", 8.0, FOREVER),
    ]


def test_the_daemon_set_does_not_count(tmp_path: Path) -> None:
    """It moves nowhere: its pods end with their nodes."""
    past = read(
        tmp_path,
        binding(1, f"{DAEMON_SET}-x", "node-a"),
        unplaced(1, f"{DAEMON_SET}-y"),
        event(2, "pods/eviction", f"{DAEMON_SET}-x", "create"),
        event(3, "pods/eviction", "web-5d4b-a", "create"),
        event(4, "pods/eviction", "web-5d4b-b", "create", responseStatus={"code": 429}),
    )

    assert past == History(nodes=(), pods=(), pending=(), evictions=(3.0,))


def test_a_pod_that_is_evicted_again_while_it_ends_counts_once(tmp_path: Path) -> None:
    past = read(tmp_path, *(event(at, "pods/eviction", "web-5d4b-a", "create") for at in (3, 4)))

    assert past.evictions == (3.0,)


def measured(past: History, *shortages: Shortage, begin: float = 0.0, end: float = 20.0) -> ConsolidationFigures:
    endpoints = ReadyEndpoints(complete=frozenset(), shortages=shortages)
    return figures(
        "", past, endpoints, DAY, begin=begin, end=end, node_milli=1_000, price=0.5, needed=(1, 1)
    )  # fmt: skip


def test_node_hours_are_those_between_begin_and_end() -> None:
    """In the time of the day: 1.2 hours per second."""
    nodes = (
        Span(name="a", since=-9, until=FOREVER),
        Span(name="b", since=-9, until=5),
        Span(name="c", since=15, until=99),
    )
    result = measured(History(nodes=nodes, pods=(), pending=(), evictions=(-1.0, 0.0, 19.0, 20.0)))

    assert (result.nodes_before, result.nodes_after) == (2, 2)
    assert result.hours == pytest.approx(24)
    assert result.node_hours == pytest.approx(24 + 6 + 6)
    assert result.price == pytest.approx(18)
    assert (result.evictions_before, result.evictions) == (1, 2)


def test_hot_hours_follow_the_day_of_the_pods_that_are_on_the_node() -> None:
    """A pod makes a node hot in the second half of the day, two in the first half never."""
    pods = (
        Placed(name="shop/web-1-a", node="a", since=-9, until=FOREVER),
        Placed(name="shop/web-1-b", node="b", since=-9, until=15),
        Placed(name="shop/web-1-c", node="a", since=15, until=FOREVER),
    )
    result = measured(History(nodes=(), pods=pods, pending=(), evictions=()))

    assert result.hot_node_hours == pytest.approx(12 + 6)
    assert result.hottest == pytest.approx(180)


def test_the_day_repeats() -> None:
    pods = (Placed(name="shop/web-1-a", node="a", since=0, until=FOREVER),)
    past = History(nodes=(), pods=pods, pending=(), evictions=())

    assert measured(past, begin=40, end=60).hot_node_hours == measured(past).hot_node_hours > 0


def test_what_was_pending_or_missing_before_does_not_count() -> None:
    """What begins in the run counts until its end at most."""
    pending = (
        Span(name="a", since=-1, until=5),
        Span(name="b", since=3, until=7),
        Span(name="c", since=18, until=FOREVER),
    )
    result = measured(
        History(nodes=(), pods=(), pending=pending, evictions=()),
        Shortage(service="shop/web", since=-2, until=1, fewest=0),
        Shortage(service="shop/web", since=4, until=6, fewest=0),
    )

    assert (result.pending_pods, result.pending_seconds, result.longest_pending) == (2, 6.0, 4.0)
    assert result.missing_seconds == 2.0


def test_the_load_after_no_node_was_emptied_is_no_number() -> None:
    """The time of the figures begins with the first node that is emptied: then it has no length."""
    pods = (Placed(name="shop/web-1-a", node="a", since=0, until=FOREVER),)
    past = History(nodes=(Span(name="a", since=-9, until=FOREVER),), pods=pods, pending=(), evictions=())
    result = result_of(measured(past, begin=20, end=20), 480.0)

    assert (result.hottest, result.hot_node_hours_share) == (None, None)
    assert consolidation_sentence(result).endswith("0 pods waited for a node, no node was emptied")


def test_the_demo_counts_all_evictions_and_prices_the_nodes_that_are_gone() -> None:
    """Also those that relieved hot nodes before the first node could go."""
    nodes = (Span(name="a", since=-9, until=FOREVER), Span(name="b", since=-9, until=5))
    found = measured(History(nodes=nodes, pods=(), pending=(), evictions=(-1.0, 1.0, 2.0)))
    result = result_of(found, 480.0)

    assert (result.nodes_before, result.nodes_after, result.evictions) == (2, 1, 3)
    assert result.saved_per_month == pytest.approx(INSTANCE_TYPE.price * HOURS_PER_MONTH)
    assert consolidation_sentence(result).startswith("2 nodes → 1 (292.00 a month at 0.40 per hour; ")


def test_the_settings_of_the_demo_are_valid_in_compressed_time() -> None:
    """They let nodes be emptied, by moves without a gap."""
    document = equipoise_document(
        kubeconfig="",
        prometheus_url="http://127.0.0.1:9090",
        nats_url="nats://127.0.0.1:4222",
        ports=dict.fromkeys((*SERVICES, "extender"), 8_080),
        neutral=False,
        differences=CONSOLIDATION,
    )
    compressed = compressed_document(document, 450.0)

    assert compressed["descheduler"]["consolidation"]["mode"] == "act"
    assert compressed["surge"]["mode"] == "always"
    assert "payments" not in compressed["namespaces"]["exclude"]
