"""The figures of a demo, from a hand-written audit log."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cli.narrow import assert_never_cut

from equipoise.cli.demo.figures import (
    AuditedEvent,
    AuditedEvents,
    DemoResult,
    WindowLimit,
    deviation,
    limit_violations,
    load_table,
    max_share,
    read_audit_log,
    result_sentences,
    same_time_of_day,
    spread,
)


def an_event(subresource: str, pod: str, at: float, *, namespace: str = "shop", **fields: object) -> str:
    body = {"target": {"name": fields.pop("node", "node-a")}} if subresource == "binding" else {}
    event = {
        "stage": "ResponseComplete",
        "auditID": "a",
        "verb": "create",
        "requestURI": f"/api/v1/namespaces/{namespace}/pods/{pod}/{subresource}",
        "objectRef": {"resource": "pods", "namespace": namespace, "name": pod, "subresource": subresource},
        "responseStatus": {"code": 201},
        "requestObject": body,
        "requestReceivedTimestamp": datetime.fromtimestamp(at, UTC).isoformat(),
    }
    return json.dumps(event | fields)


def a_log(folder: Path, *lines: str) -> Path:
    path = folder / "audit.log"
    path.write_text("\n".join(lines) + "\n")
    return path


def an_eviction(at: float, pod: str = "web-abc-1", namespace: str = "shop", node: str = "node-a") -> AuditedEvent:
    return AuditedEvent(at=at, namespace=namespace, pod=pod, node=node)


def audited(*evictions: AuditedEvent) -> AuditedEvents:
    return AuditedEvents(evictions=evictions, bindings=())


def test_dry_runs_and_refused_evictions_are_no_evictions(tmp_path: Path) -> None:
    """Only evictions that the API server executed count."""
    log = a_log(
        tmp_path,
        an_event("eviction", "web-abc-1", 1.0),
        an_event("eviction", "web-abc-2", 2.0, requestURI="/api/v1/namespaces/shop/pods/x/eviction?dryRun=All"),
        an_event("eviction", "web-abc-3", 3.0, requestObject={"deleteOptions": {"dryRun": ["All"]}}),
        an_event("eviction", "web-abc-4", 4.0, responseStatus={"code": 429}),
    )

    assert ["web-abc-1"] == [eviction.pod for eviction in read_audit_log(log).evictions]


def test_a_replacement_on_the_node_of_the_evicted_pod_is_a_return(tmp_path: Path) -> None:
    """The first binding of the workload after the eviction is its replacement."""
    log = a_log(
        tmp_path,
        an_event("binding", "web-abc-1", 1.0, node="node-a"),
        an_event("binding", "web-abc-2", 1.0, node="node-b"),
        an_event("eviction", "web-abc-1", 2.0),
        an_event("binding", "web-abc-3", 3.0, node="node-a"),
        an_event("eviction", "web-abc-2", 4.0),
        an_event("binding", "web-abc-4", 5.0, node="node-c"),
    )

    assert 1 == read_audit_log(log).same_node_returns()


def test_a_pod_that_was_detached_first_was_moved_without_a_gap(tmp_path: Path) -> None:
    """It counts from then on, so that the binding of its replacement, which is before its eviction, is found. Other
    patches, and those that give a pod back, detach nothing."""

    def a_patch(pod: str, at: float, labels: dict[str, str | None]) -> str:
        target = {"resource": "pods", "namespace": "shop", "name": pod}
        body = {"metadata": {"labels": labels}}
        user = {"username": "system:serviceaccount:equipoise-system:equipoise-binder"}
        return an_event("", pod, at, verb="patch", objectRef=target, requestObject=body, user=user)

    log = a_log(
        tmp_path,
        an_event("binding", "web-abc-1", 1.0, node="node-a"),
        an_event("binding", "api-abc-1", 1.0, node="node-a"),
        a_patch("web-abc-1", 2.0, {"pod-template-hash": None}),
        a_patch("api-abc-1", 2.0, {"pod-template-hash": "abc"}),
        a_patch("api-abc-1", 2.5, {"other": None}),
        an_event("binding", "web-abc-2", 3.0, node="node-a"),
        an_event("eviction", "web-abc-1", 9.0),
        an_event("eviction", "api-abc-1", 10.0),
        an_event("binding", "api-abc-2", 12.0, node="node-b"),
    )
    events = read_audit_log(log)

    assert [(each.pod, each.at, each.without_gap) for each in events.evictions] == [
        ("web-abc-1", 2.0, True),
        ("api-abc-1", 10.0, False),
    ]
    assert 1 == events.same_node_returns()


def test_the_share_of_a_burst_is_that_of_its_fullest_node(tmp_path: Path) -> None:
    """Two of three pods on one node are two thirds; later bindings are replacements."""
    log = a_log(
        tmp_path,
        *(an_event("binding", f"newcomer-x-{i}", i, namespace="launch", node=f"node-{i // 2}") for i in range(3)),
        an_event("binding", "newcomer-x-9", 8.0, namespace="launch", node="node-1"),
        an_event("binding", "newcomer-x-8", 8.5, namespace="launch", node="node-1"),
        an_event("binding", "web-abc-1", 9.0, node="node-1"),
    )

    assert pytest.approx(2 / 3) == max_share(read_audit_log(log).burst("launch", 3))


def test_evictions_of_protected_pods_are_counted(tmp_path: Path) -> None:
    """Pods of the excluded namespace and of the DaemonSet are protected."""
    log = a_log(
        tmp_path,
        an_event("eviction", "node-agent-x1", 1.0),
        an_event("eviction", "web-abc-1", 2.0, namespace="payments"),
        an_event("eviction", "web-abc-1", 3.0),
    )

    assert 2 == read_audit_log(log).protected_evictions()


def test_an_incomplete_last_line_is_skipped(tmp_path: Path) -> None:
    """The API server is still writing the log."""
    log = a_log(tmp_path, an_event("eviction", "web-abc-1", 1.0), an_event("eviction", "web-abc-2", 2.0)[:80])

    assert 1 == len(read_audit_log(log).evictions)


@pytest.mark.parametrize(
    ("times", "violations"), [((0, 300), 0), ((0, 299), 1), ((0, 100, 200), 2), ((0, 400, 800), 0)]
)
def test_evictions_are_counted_in_sliding_windows(times: tuple[float, ...], violations: int) -> None:
    """One per workload and 300 s: an earlier one is a violation."""
    limit = WindowLimit(scope="workload", count=1, seconds=300)

    assert violations == limit_violations(audited(*(an_eviction(at, f"web-abc-{at}") for at in times)), [limit])


def test_a_limit_counts_only_within_its_scope() -> None:
    """Two workloads of one namespace: each has its own limit, the namespace counts both."""
    evictions = audited(an_eviction(0.0, "web-abc-1"), an_eviction(1.0, "api-abc-1"))

    assert 0 == limit_violations(evictions, [WindowLimit(scope="workload", count=1, seconds=300)])
    assert 1 == limit_violations(evictions, [WindowLimit(scope="namespace", count=1, seconds=300)])
    assert 1 == limit_violations(evictions, [WindowLimit(scope="cluster", count=1, seconds=300)])


@pytest.mark.parametrize(("pods", "violations"), [(399, 1), (400, 0), (10, 3)])
def test_a_share_refers_to_the_pods_at_the_time_of_the_eviction(pods: int, violations: int) -> None:
    """1 % of 400 pods are four evictions; one is always allowed."""
    bindings = tuple(AuditedEvent(at=0.0, namespace="shop", pod=f"p-a-{i}", node="n") for i in range(pods))
    evictions = tuple(an_eviction(1.0) for _ in range(4))
    limit = WindowLimit(scope="cluster", count=20, share=0.01, seconds=600)

    # Each eviction leaves one pod fewer: at the fourth of 403 pods 400 are left.
    bindings += tuple(AuditedEvent(at=0.0, namespace="shop", pod=f"q-a-{i}", node="n") for i in range(3))

    assert violations == limit_violations(AuditedEvents(evictions=evictions, bindings=bindings), [limit])


def test_spread_and_deviation_are_points_of_percent() -> None:
    """Max minus min, and the population's standard deviation."""
    loads = {"node-a": 20.0, "node-b": 80.0}

    assert (60.0, 30.0) == (spread(loads), deviation(loads))


@pytest.mark.parametrize(
    ("earliest", "expected"),
    [(90.0, 148.0), (100.0, 148.0), (148.0, 148.0), (149.0, 196.0), (200.0, 244.0)],
)
def test_the_second_measurement_is_at_the_same_time_of_a_later_day(earliest: float, expected: float) -> None:
    """At least one day later."""
    assert same_time_of_day(earliest, 100.0, 48.0) == expected


def test_no_terminal_is_too_narrow_for_the_loads() -> None:
    """Before and after."""
    assert_never_cut(lambda loads, to: to.print(load_table(*loads)), ({"a": 90.0, "b": 10.0}, {"a": 51.5, "b": 48.5}))


def a_result(replacements: dict[str, int]) -> DemoResult:
    return DemoResult(
        nodes=3,
        pods=40,
        workloads=4,
        placement="extender",
        time_factor=225.0,
        limits={},
        spread_before=40.0,
        spread_after=12.0,
        std_before=9.0,
        std_after=3.0,
        burst_max_share=0.5,
        evictions=3,
        pods_moved_share=0.075,
        same_node_returns=1,
        replacements=replacements,
        outcomes={},
        rejected=0,
        limit_violations=0,
        protected_evictions=0,
        seconds=60.0,
    )


def test_the_result_states_evictions_replacements_and_where_the_burst_was_placed() -> None:
    burst = [an_eviction(float(at), node=node) for at, node in enumerate(("node-a", "node-b", "node-a"))]

    assert result_sentences(a_result({"as_planned": 2, "elsewhere": 1}), burst, {"node-a": 10.0, "node-b": 30.0}) == [
        "3 of 40 pods were evicted (7.5%), 1 replacement returned to the same node, and limits were violated 0 times, "
        "by the audit log of the API server",
        "2 of 3 replacements (67%) were placed on the planned node",
        "burst: 3 pods placed on 2 nodes within 2.0 s; most: 2 on node-a (10 %), 1 on node-b (30 %); "
        "in parentheses the load before (mean 20 %)",
    ]


def test_the_result_has_no_sentence_about_replacements_and_a_burst_that_were_not_seen() -> None:
    assert len(result_sentences(a_result({}), [], {})) == 1
