"""Request bodies of kube-scheduler's extender protocol, valid and invalid."""

import json
from typing import Any

SECRET = "sEcReT-0451"


def a_body(**arguments: Any) -> dict[str, Any]:
    """A body as kube-scheduler sends it: Go names for the arguments, and a Pod with env values."""
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


def nodes(*names: str) -> dict[str, Any]:
    """A NodeList."""
    return {
        "metadata": {},
        "items": [{"metadata": {"name": name}, "spec": {"podCIDR": "10.0.0.0/24"}} for name in names],
    }


INVALID: dict[str, Any] = {
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
"""JSON documents that are not a request."""

NOT_JSON: dict[str, bytes] = {
    "nothing": b"",
    "truncated": json.dumps(a_body()).encode()[:-20],
    "not JSON": b"<html>",
    "NaN": b'{"Pod": NaN}',
    "nested": b'{"Pod":' + b"[" * 100_000,
    "not UTF-8": b'{"Pod": {}, "NodeNames": ["\xff\xfe"]}',
    "lone surrogate": b'{"Pod": {}, "NodeNames": ["\\ud800"]}',
    "two documents": json.dumps(a_body()).encode() * 2,
}
