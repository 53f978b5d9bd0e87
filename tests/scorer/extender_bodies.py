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


def _filled(head: str, value: str, tail: str, number: int) -> bytes:
    return (head + ",".join([value] * number) + tail).encode()


_NAMES = ',"NodeNames":["a"]}'
_POD = '{"Pod":{"spec":{"containers":[{}]}},'
_CONTAINER = '{"name":"c","resources":{"requests":{"cpu":"1m"}}}'
_RESOURCES = ",".join(f'"{number}":"{number}"' for number in range(40_000))

TOO_MANY: dict[str, bytes] = {
    "90,000 containers": _filled('{"Pod":{"spec":{"containers":[', _CONTAINER, "]}}" + _NAMES, 90_000),
    "1,001 containers": _filled('{"Pod":{"spec":{"initContainers":[', _CONTAINER, "]}}" + _NAMES, 1_001),
    "empty containers": _filled('{"Pod":{"spec":{"containers":[', "{}", "]}}" + _NAMES, 690_000),
    "claims": _filled('{"Pod":{"spec":{"resourceClaims":[{"a":[', "[]", "]}]}}" + _NAMES, 690_000),
    "labels": _filled('{"Pod":{"metadata":{"labels":{', '"a":""', "}}}" + _NAMES, 290_000),
    "200,000 nodes": _filled(_POD + '"Nodes":{"items":[', '{"metadata":{"name":"node"}}', "]}}", 200_000),
    "empty nodes": _filled(_POD + '"Nodes":{"items":[', "{}", "]}}", 690_000),
    "names": _filled(_POD + '"NodeNames":[', '""', "]}", 690_000),
    "arguments": _filled("{", '"a":1', "}", 340_000),
}
"""Requests of at most 6.5 MiB that would take up to seconds."""

AT_THE_LIMIT: dict[str, bytes] = {
    "resources": _filled(
        '{"Pod":{"spec":{"initContainers":[{"resources":{"requests":{' + _RESOURCES + "}}},",
        _CONTAINER,
        "]}}" + _NAMES,
        999,
    ),
    "labels": _filled('{"Pod":{"metadata":{"labels":{', '"a":""', "}}}" + _NAMES, 49_000),
    "nodes": _filled(_POD + '"Nodes":{"items":[', '{"metadata":{"name":"node"},"spec":{}}', "]}}", 15_000),
    "names": (_POD + '"NodeNames":[' + ",".join(f'"node-{number}"' for number in range(15_000)) + "]}").encode(),
    "a long text": _filled('{"Pod":{"metadata":{"annotations":{"a":"', "x" * 2_000_000, '"}}}' + _NAMES, 1),
}
"""Requests below 2 MiB that are accepted, with as many values as possible."""
