"""The extender protocol of kube-scheduler."""

import contextlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import GIB, a_workload
from hypothesis import given
from hypothesis import strategies as st
from scorer.extender_bodies import AT_THE_LIMIT, INVALID, NOT_JSON, SECRET, TOO_MANY, a_body, nodes

from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.extender_protocol import (
    ExtenderRequest,
    InvalidRequest,
    parse_request,
    write_filter_result,
    write_priorities,
)
from equipoise.scorer.decisions.filtering import FilteredNodes


def parse(document: Any) -> ExtenderRequest:
    return parse_request(json.dumps(document).encode())


def test_only_the_used_parts_of_a_pod_are_kept() -> None:
    """Names, workload, requests, and limits where every container has one; no env values."""
    request = parse(a_body())

    assert request.pod.workload == a_workload("web")
    assert request.pod.requests == Resources(cpu=0.5, memory=GIB)
    assert request.pod.limits == Resources(cpu=3.0)
    assert request.names == ["node-a", "node-b"]
    assert SECRET not in repr(request)


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_keys_are_accepted_in_any_case(change: Any) -> None:
    """As in Go."""
    body = {change(key): value for key, value in a_body().items()}

    assert parse(body).names == ["node-a", "node-b"]


RECORDED = sorted((Path(__file__).parents[2] / "data" / "extender").glob("*.json"))
"""Bodies that kube-scheduler v1.36.3 of the testbed sent, for both verbs, with nodeCacheCapable true (names) and false
(nodes, without managedFields and some conditions)."""


@pytest.mark.parametrize("case", [str, str.lower, str.upper], ids=["Go's case", "lower", "upper"])
@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_requests_of_a_real_kube_scheduler_are_parsed(path: Path, case: Callable[[str], str]) -> None:
    """Pod, workload, requests, limits and nodes; the keys of ExtenderArgs in any case, as they have no JSON tags."""
    document = json.loads(path.read_bytes())
    body = json.dumps({case(key): value for key, value in document.items()}, ensure_ascii=False).encode()
    request = parse_request(path.read_bytes() if case is str else body)

    assert len(RECORDED) == 4
    assert set(document) == {"Pod", "Nodes", "NodeNames"}
    assert request.pod.uid == document["Pod"]["metadata"]["uid"]
    assert (request.pod.namespace, request.pod.name[:4]) == ("shop", "web-")
    assert request.pod.workload == a_workload("web")
    assert request.pod.requests == Resources(cpu=0.5, memory=1.5 * GIB)
    assert request.pod.limits == Resources(cpu=3.0, memory=5 * GIB)
    assert sorted(request.names) == ["node-a", "node-b", "node-c"]
    assert (request.objects is None) == path.stem.endswith("-names")
    assert SECRET in str(document)
    assert SECRET not in repr(request.pod)


@given(scores=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(0, 100)))
def test_priorities_are_json_whatever_the_names_are(scores: dict[str, int]) -> None:
    """Quotes, backslashes and control characters are escaped; the order is kept."""
    body = write_priorities(list(scores), np.array(list(scores.values()), np.intp))

    assert json.loads(body) == [{"Host": host, "Score": score} for host, score in scores.items()]


def test_node_objects_are_returned_unchanged() -> None:
    """With nodeCacheCapable: false the nodes in the response equal those in the request, in every field."""
    body = (RECORDED[0].parent / "filter-nodes.json").read_bytes()
    sent = {node["metadata"]["name"]: node for node in json.loads(body)["Nodes"]["items"]}
    filtered = FilteredNodes(nodes=["node-c", "node-a"], refused={"node-b": "too hot"})

    result = json.loads(write_filter_result(parse_request(body), filtered))

    assert {node["metadata"]["name"]: node for node in result["Nodes"]["items"]} == {
        name: sent[name] for name in filtered.nodes
    }
    assert (result["NodeNames"], result["FailedAndUnresolvableNodes"]) == (None, {"node-b": "too hot"})


def test_node_objects_are_accepted() -> None:
    """Without nodeCacheCapable, nodes are objects; they are kept as they are."""
    request = parse(a_body(NodeNames=None, Nodes=nodes("x", "y")))

    assert request.names == ["x", "y"]
    assert request.objects is not None
    assert len(request.objects) == 2


def test_names_count_if_both_are_given() -> None:
    """The response is about names."""
    assert parse(a_body(Nodes=nodes("x"))).names == ["node-a", "node-b"]


def test_a_repeated_node_is_scored_once() -> None:
    """In the order of the request."""
    assert parse(a_body(NodeNames=["b", "a", "b"])).names == ["b", "a"]


@pytest.mark.parametrize("document", INVALID.values(), ids=INVALID.keys())
def test_an_invalid_document_is_refused(document: Any) -> None:
    """With a reason that quotes nothing of the body."""
    with pytest.raises(InvalidRequest) as refusal:
        parse(document)

    assert str(refusal.value)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize("body", NOT_JSON.values(), ids=NOT_JSON.keys())
def test_a_body_that_is_not_json_is_refused(body: bytes) -> None:
    """Empty, truncated, nested too deeply, in another encoding."""
    with pytest.raises(InvalidRequest):
        parse_request(body)


BLOCKED = 0.05
"""Seconds of CPU time: half of the deadline of a response."""


def cpu_seconds(body: bytes) -> float:
    """The least of three attempts."""
    times = []
    for _ in range(3):
        started = time.thread_time()
        with contextlib.suppress(InvalidRequest):
            parse_request(body)
        times.append(time.thread_time() - started)
    return min(times)


@pytest.mark.parametrize("body", TOO_MANY.values(), ids=TOO_MANY.keys())
def test_too_many_values_are_refused_before_they_are_decoded(body: bytes) -> None:
    """The event loop waits for the parser: a request of 6 MiB stopped all others for 0.8 s."""
    with pytest.raises(InvalidRequest, match=r"too many .* at most"):
        parse_request(body)

    assert cpu_seconds(body) < BLOCKED


@pytest.mark.parametrize("body", AT_THE_LIMIT.values(), ids=AT_THE_LIMIT.keys())
def test_an_accepted_request_blocks_the_event_loop_only_briefly(body: bytes) -> None:
    """Whatever it is filled with."""
    assert len(body) < 2 * 2**20
    assert parse_request(body).names
    assert cpu_seconds(body) < BLOCKED


@given(body=st.binary(max_size=200))
def test_any_bytes_are_parsed_or_refused(body: bytes) -> None:
    """No other exception is raised."""
    with contextlib.suppress(InvalidRequest):
        parse_request(body)


@pytest.mark.parametrize("quantity", ["-1", "1e30", "0.0000001n", "1Ei", "0"])
def test_extreme_quantities_are_accepted(quantity: str) -> None:
    """A quantity that the API server accepts must not fail a request; an invalid amount is ignored later."""
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": quantity}, "limits": {"cpu": quantity}}}]}}

    assert parse(a_body(Pod=pod)).names == ["node-a", "node-b"]


def test_a_filter_result_has_the_form_of_the_request() -> None:
    """Names for names, the same objects for objects; refusals are unresolvable, so that no pod is preempted."""
    filtered = FilteredNodes(nodes=["y"], refused={"x": "too hot"})

    by_name = json.loads(write_filter_result(parse(a_body(NodeNames=["x", "y"])), filtered))
    by_object = json.loads(write_filter_result(parse(a_body(NodeNames=None, Nodes=nodes("x", "y"))), filtered))

    assert by_name == {
        "Nodes": None,
        "NodeNames": ["y"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"x": "too hot"},
        "Error": "",
    }
    assert by_object["NodeNames"] is None
    assert by_object["Nodes"]["items"] == nodes("y")["items"]


def test_the_requests_and_limits_of_a_band_are_read() -> None:
    """In cores and bytes. The band of the requests counts more than a label."""
    amounts = {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "2Gi"}
    container = {"resources": {"requests": amounts, "limits": amounts | {"kubernetes.io/batch-cpu": "3k"}}}
    pod = {"metadata": {"name": "job", "labels": {"koordinator.sh/priority-class": "koord-prod"}}}
    body = a_body(Pod=pod | {"spec": {"containers": [container]}})

    found = parse(body).pod

    assert found.reclaimed_requests == Resources(cpu=1.5, memory=2 * GIB)
    assert found.reclaimed_limits == Resources(cpu=3.0, memory=2 * GIB)
    assert ("batch", None) == (found.band, found.requests.cpu)
