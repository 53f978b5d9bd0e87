"""Volumes: names of nodes and zones, classes, claims that are not usable, and exclusive claims."""

from typing import Any

from scheduling.parity.cases.case import ZONE, Case, a_node, a_pod, zones
from scheduling.parity.common_objects import Document

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"


def _volume(name: str, claim: str = "", *, labels: Document | None = None, **spec: Any) -> Document:
    reference: Document = {}
    if claim:
        reference = {"claimRef": {"kind": "PersistentVolumeClaim", "namespace": "alpha", "name": claim}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "csi": {"driver": "fast.csi.example", "volumeHandle": name},
            "persistentVolumeReclaimPolicy": "Retain",
            "storageClassName": "late",
            **reference,
            **spec,
        },
    }


def _claim(name: str, volume: str = "", **spec: Any) -> Document:
    bound = {"volumeName": volume} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "alpha", **spec.pop("metadata", {})},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "late",
            **bound,
            **spec,
        },
    }


def _class(name: str, provisioner: str = "kubernetes.io/no-provisioner", **fields: Any) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        **fields,
    }


def _required(**term: Any) -> Document:
    return {"required": {"nodeSelectorTerms": [term]}}


def _uses(*claims: str) -> list[Document]:
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in claims]


def _name(*names: str) -> list[Document]:
    return [{"key": "metadata.name", "operator": "In", "values": list(names)}]


def _zone(*values: str) -> list[Document]:
    return [{"key": ZONE, "operator": "In", "values": list(values)}]


CASES = (
    Case(
        name="volumes whose affinity names a node",
        nodes=zones("a", "b", "c"),
        objects=[
            _class("late"),
            _volume("v-1", "one", nodeAffinity=_required(matchFields=_name("node-0"))),
            _volume("v-2", "two", nodeAffinity=_required(matchFields=_name("node-0"), matchExpressions=_zone("b"))),
            _claim("one", "v-1"),
            _claim("two", "v-2"),
            _volume("free", nodeAffinity=_required(matchFields=_name("node-2"))),
            _claim("three"),
        ],
        new=[a_pod(f"new-{name}", volumes=_uses(name)) for name in ("one", "two", "three")],
    ),
    Case(
        name="labels of zones that are empty, several, or contradict each other",
        nodes=[*zones("a", "b", ""), a_node("node-3"), a_node("node-4", labels={BETA_ZONE: "a"})],
        objects=[
            _class("late"),
            *(
                each
                for number, labels in enumerate(
                    ({ZONE: "a__b"}, {ZONE: "a", BETA_ZONE: "b"}, {ZONE: ""}, {ZONE: "a____b"}, {BETA_ZONE: "a"})
                )
                for each in (
                    _volume(f"v-{number}", f"claim-{number}", labels=labels),
                    _claim(f"claim-{number}", f"v-{number}"),
                )
            ),
        ],
        new=[a_pod(f"new-{number}", volumes=_uses(f"claim-{number}")) for number in range(5)],
    ),
    Case(
        name="claims without a class, of an unknown class, with a selector, and selected for a node that is gone",
        nodes=zones("a", "b"),
        objects=[
            _class("late"),
            _class("dynamic", "fast.csi.example"),
            _volume("labelled", labels={"tier": "x"}),
            _volume("plain"),
            _claim("unclassed", storageClassName=""),
            _claim("unknown", storageClassName="unknown"),
            _claim("selecting", selector={"matchLabels": {"tier": "x"}}),
            _claim("everything", selector={}),
            _claim(
                "selected",
                storageClassName="dynamic",
                metadata={"annotations": {"volume.kubernetes.io/selected-node": "gone"}},
            ),
        ],
        new=[a_pod(f"new-{name}", volumes=_uses(name)) for name in ("unclassed", "unknown", "selecting", "everything")],
    ),
    Case(
        name="topologies of a class: several terms, and a key that no node has",
        nodes=zones("a", "b", "c"),
        objects=[
            _class(
                "two",
                "fast.csi.example",
                allowedTopologies=[
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}, {"key": "unknown", "values": ["x"]}]},
                    {"matchLabelExpressions": [{"key": ZONE, "values": ["b", "none"]}]},
                ],
            ),
            _class(
                "unknown",
                "fast.csi.example",
                allowedTopologies=[{"matchLabelExpressions": [{"key": "unknown", "values": ["x"]}]}],
            ),
            _claim("one", storageClassName="two"),
            _claim("other", storageClassName="unknown"),
        ],
        new=[a_pod(f"new-{name}", volumes=_uses(name)) for name in ("one", "other")],
    ),
    Case(
        name="an exclusive claim of a pod with lower priority",
        nodes=zones("a", "b"),
        objects=[
            _class("late"),
            _volume("v", "only", accessModes=["ReadWriteOncePod"]),
            _claim("only", "v", accessModes=["ReadWriteOncePod"]),
        ],
        pods=[a_pod("old", node="node-0", priority="low", volumes=_uses("only"))],
        new=[
            a_pod("equal", priority="low", volumes=_uses("only")),
            a_pod("high", priority="high", volumes=_uses("only")),
        ],
    ),
    Case(
        name="the smallest volume that fits, for the smallest claim first",
        nodes=zones("a", "b"),
        objects=[
            _class("late"),
            _volume("small", capacity={"storage": "1Gi"}, nodeAffinity=_required(matchExpressions=_zone("a"))),
            _volume("middle", capacity={"storage": "2Gi"}, nodeAffinity=_required(matchExpressions=_zone("a"))),
            _volume("large", capacity={"storage": "9Gi"}, nodeAffinity=_required(matchExpressions=_zone("b"))),
            _claim("one", resources={"requests": {"storage": "2Gi"}}),
            _claim("two", resources={"requests": {"storage": "1Gi"}}),
            _claim("three", resources={"requests": {"storage": "1Gi"}}),
        ],
        new=[a_pod("both", volumes=_uses("one", "two")), a_pod("last", volumes=_uses("three"))],
    ),
)
