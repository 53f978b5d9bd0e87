"""kube-scheduler's question, in whatever shape it comes."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from builders import GIB, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import Filtering
from equipoise.scorer.decisions.extender_protocol import Malformed, read_question, write_filtering

SECRET = "sEcReT-0451"


def a_body(**arguments: Any) -> dict[str, Any]:
    """What kube-scheduler sends: Go names outside, a Pod with env values inside."""
    pod = {
        "metadata": {
            "name": "web-5d4b-x",
            "namespace": "shop",
            "uid": "uid-web-5d4b-x",
            "creationTimestamp": None,
            "labels": {"pod-template-hash": "5d4b"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4b", "uid": "u", "controller": True}
            ],
        },
        "spec": {
            "containers": [
                {
                    "name": "web",
                    "image": "web:1",
                    "env": [{"name": "PASSWORD", "value": SECRET}],
                    "resources": {"requests": {"cpu": "250m"}, "limits": {"cpu": "2", "memory": "4Gi"}},
                },
                {"name": "side", "resources": {"requests": {"cpu": "250m", "memory": "1Gi"}, "limits": {"cpu": "1"}}},
            ]
        },
        "status": {"phase": "Pending"},
    }
    return {"Pod": pod, "Nodes": None, "NodeNames": ["node-a", "node-b"]} | arguments


def read(document: Any) -> Any:
    return read_question(json.dumps(document).encode())


def nodes(*names: str) -> dict[str, Any]:
    return {
        "metadata": {},
        "items": [{"metadata": {"name": name}, "spec": {"podCIDR": "10.0.0.0/24"}} for name in names],
    }


def test_a_pod_becomes_what_is_needed_of_it() -> None:
    """Names, workload, requests and limits; a limit only where every container has one. Nothing of its env."""
    question = read(a_body())

    assert question.pod.workload == a_workload("web")
    assert question.pod.requests == Resources(cpu=0.5, memory=GIB)
    assert question.pod.limits == Resources(cpu=3.0)
    assert question.names == ["node-a", "node-b"]
    assert SECRET not in repr(question)


@pytest.mark.parametrize("change", [str.lower, str.upper, str.swapcase])
def test_keys_are_read_in_any_case(change: Any) -> None:
    """Go reads its fields in any case, and so do we."""
    body = {change(key): value for key, value in a_body().items()}

    assert read(body).names == ["node-a", "node-b"]


GOLDEN = sorted((Path(__file__).parents[1] / "data" / "extender").glob("*.json"))
"""Bodies as kube-scheduler v1.36.3 of the testbed sent them, to both verbs, with nodeCacheCapable true (names) and
false (nodes; of each only managedFields and further conditions were cut off)."""


@pytest.mark.parametrize("case", [str, str.lower, str.upper], ids=["Go's case", "lower", "upper"])
@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_what_the_real_scheduler_sends_is_read(path: Path, case: Callable[[str], str]) -> None:
    """Pod, workload, requests, limits and nodes; the keys of ExtenderArgs, the only ones without JSON tags, anyhow."""
    document = json.loads(path.read_bytes())
    body = json.dumps({case(key): value for key, value in document.items()}, ensure_ascii=False).encode()
    question = read_question(path.read_bytes() if case is str else body)

    assert len(GOLDEN) == 4
    assert set(document) == {"Pod", "Nodes", "NodeNames"}
    assert question.pod.uid == document["Pod"]["metadata"]["uid"]
    assert (question.pod.namespace, question.pod.name[:4]) == ("shop", "web-")
    assert question.pod.workload == a_workload("web")
    assert question.pod.requests == Resources(cpu=0.5, memory=1.5 * GIB)
    assert question.pod.limits == Resources(cpu=3.0, memory=5 * GIB)
    assert sorted(question.names) == ["node-a", "node-b", "node-c"]
    assert (question.objects is None) == path.stem.endswith("-names")
    assert SECRET in str(document)
    assert SECRET not in repr(question.pod)


def test_the_real_scheduler_gets_its_nodes_back_as_it_sent_them() -> None:
    """With nodeCacheCapable: false the nodes of the answer are those of the question, to the last field."""
    body = (GOLDEN[0].parent / "filter-nodes.json").read_bytes()
    sent = {node["metadata"]["name"]: node for node in json.loads(body)["Nodes"]["items"]}
    filtering = Filtering(nodes=["node-c", "node-a"], refused={"node-b": "too hot"})

    answer = json.loads(write_filtering(read_question(body), filtering))

    assert {node["metadata"]["name"]: node for node in answer["Nodes"]["items"]} == {
        name: sent[name] for name in filtering.nodes
    }
    assert (answer["NodeNames"], answer["FailedAndUnresolvableNodes"]) == (None, {"node-b": "too hot"})


def test_whole_nodes_are_understood() -> None:
    """Without nodeCacheCapable the nodes come as objects; they are kept as they came."""
    question = read(a_body(NodeNames=None, Nodes=nodes("x", "y")))

    assert question.names == ["x", "y"]
    assert len(question.objects) == 2


def test_names_count_when_both_are_given() -> None:
    """An answer is about names."""
    assert read(a_body(Nodes=nodes("x"))).names == ["node-a", "node-b"]


def test_each_node_is_asked_about_once() -> None:
    """A name given twice gets one answer."""
    assert read(a_body(NodeNames=["b", "a", "b"])).names == ["b", "a"]


BROKEN: dict[str, Any] = {
    "neither": a_body(NodeNames=None),
    "no pod": {"NodeNames": ["a"]},
    "pod null": a_body(Pod=None),
    "pod text": a_body(Pod="web"),
    "pod list": a_body(Pod=[]),
    "names text": a_body(NodeNames="a"),
    "names numbers": a_body(NodeNames=[1, 2]),
    "nodes list": a_body(NodeNames=None, Nodes=[]),
    "nodes without names": a_body(NodeNames=None, Nodes={"items": [{}]}),
    "containers text": a_body(Pod={"metadata": {}, "spec": {"containers": "x"}}),
    "quantity": a_body(Pod={"spec": {"containers": [{"resources": {"requests": {"cpu": "many"}}}]}}),
    "null": None,
    "list": [],
    "empty": {},
    "text": SECRET,
    "number": 7,
}


@pytest.mark.parametrize("document", BROKEN.values(), ids=BROKEN.keys())
def test_what_is_no_question_is_refused(document: Any) -> None:
    """With a reason that quotes nothing of the body."""
    with pytest.raises(Malformed) as refusal:
        read(document)

    assert str(refusal.value)
    assert SECRET not in str(refusal.value)


RAW: dict[str, bytes] = {
    "nothing": b"",
    "truncated": json.dumps(a_body()).encode()[:-20],
    "not JSON": b"<html>",
    "NaN": b'{"Pod": NaN}',
    "nested": b'{"Pod":' + b"[" * 100_000,
    "not UTF-8": b'{"Pod": {}, "NodeNames": ["\xff\xfe"]}',
    "lone surrogate": b'{"Pod": {}, "NodeNames": ["\\ud800"]}',
    "two documents": json.dumps(a_body()).encode() * 2,
}


@pytest.mark.parametrize("body", RAW.values(), ids=RAW.keys())
def test_bytes_that_are_no_json_are_refused(body: bytes) -> None:
    """Empty, cut off, nested without end, in another encoding."""
    with pytest.raises(Malformed):
        read_question(body)


@given(body=st.binary(max_size=200))
def test_any_bytes_are_a_question_or_refused(body: bytes) -> None:
    """Nothing else can come of them."""
    with contextlib.suppress(Malformed):
        read_question(body)


@pytest.mark.parametrize("quantity", ["-1", "1e30", "0.0000001n", "1Ei", "0"])
def test_absurd_quantities_are_read(quantity: str) -> None:
    """What the API server lets in must not stop a question; what is no amount is not used later."""
    pod = {"spec": {"containers": [{"resources": {"requests": {"cpu": quantity}, "limits": {"cpu": quantity}}}]}}

    assert read(a_body(Pod=pod)).names == ["node-a", "node-b"]


def test_a_filtering_is_written_in_the_form_of_the_question() -> None:
    """Names for names, the same objects for objects; refusals as unresolvable, so that nobody is preempted."""
    filtering = Filtering(nodes=["y"], refused={"x": "too hot"})

    by_name = json.loads(write_filtering(read(a_body(NodeNames=["x", "y"])), filtering))
    by_object = json.loads(write_filtering(read(a_body(NodeNames=None, Nodes=nodes("x", "y"))), filtering))

    assert by_name == {
        "Nodes": None,
        "NodeNames": ["y"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"x": "too hot"},
        "Error": "",
    }
    assert by_object["NodeNames"] is None
    assert by_object["Nodes"]["items"] == nodes("y")["items"]
