"""Spread constraints and affinity: empty and missing selectors, keys and namespaces, duplicates."""

from scheduling.parity.cases.case import (
    HOST,
    PREFERRED,
    REQUIRED,
    WEB,
    ZONE,
    Case,
    a_node,
    a_pod,
    spread,
    term,
    zones,
)
from scheduling.parity.common_objects import Document

EVERYTHING: Document = {}


def _near(*terms: Document, preferred: tuple[tuple[int, Document], ...] = ()) -> Document:
    weighted = [{"weight": weight, "podAffinityTerm": each} for weight, each in preferred]
    return {REQUIRED: list(terms), PREFERRED: weighted}


def _service(selector: Document) -> Document:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "alpha"},
        "spec": {"selector": selector, "ports": [{"port": 80}]},
    }


def _replica_set(labels: Document) -> Document:
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "owner", "namespace": "alpha"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "i"}]}},
        },
    }


def _lacking(key: str) -> Document:
    return {"matchExpressions": [{"key": key, "operator": "DoesNotExist"}]}


_NOT_X = {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}
_OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "owner", "uid": "u", "controller": True}
_OLD = [a_pod(f"old-{number}", node=f"node-{number % 3}") for number in range(4)]

CASES = (
    Case(
        name="spread by an empty selector, by none, and by a label that is empty",
        nodes=zones("a", "b", ""),
        pods=_OLD,
        new=[
            a_pod("empty", topologySpreadConstraints=[spread(ZONE, EVERYTHING)]),
            a_pod("none", topologySpreadConstraints=[spread(ZONE, None)]),
            a_pod("value", labels={"app": ""}, topologySpreadConstraints=[spread(ZONE, {"matchLabels": {"app": ""}})]),
            a_pod("soft", topologySpreadConstraints=[spread(ZONE, EVERYTHING, hard=False)]),
            a_pod("missing", topologySpreadConstraints=[spread("unknown", WEB, hard=False)]),
        ],
    ),
    Case(
        name="two nodes with one hostname",
        nodes=[a_node("a"), a_node("b", labels={HOST: "a"}), a_node("c")],
        pods=[a_pod("one", node="a"), a_pod("two", node="a"), a_pod("three", node="c")],
        new=[
            a_pod("hard", topologySpreadConstraints=[spread(HOST, WEB)]),
            a_pod("soft", topologySpreadConstraints=[spread(HOST, WEB, hard=False)]),
            a_pod("apart", affinity={"podAntiAffinity": _near(term(HOST))}),
            a_pod("near", affinity={"podAffinity": _near(preferred=((9, term(HOST)),))}),
        ],
    ),
    Case(
        name="keys of the pod's own labels, one of which is empty and one missing",
        nodes=zones("a", "b", cpu="2"),
        pods=[
            a_pod("one", {"cpu": "1"}, node="node-0", priority="low", labels={"app": "web", "version": ""}),
            a_pod("two", {"cpu": "1"}, node="node-0", priority="low", labels={"app": "web", "version": "1"}),
            a_pod("three", {"cpu": "2"}, node="node-1", priority="middle"),
        ],
        new=[
            a_pod(
                "empty",
                {"cpu": "1"},
                priority="high",
                labels={"app": "web", "version": ""},
                topologySpreadConstraints=[spread(ZONE, WEB, matchLabelKeys=["version", "unknown"])],
            ),
            a_pod("missing", topologySpreadConstraints=[spread(ZONE, WEB, hard=False, matchLabelKeys=["version"])]),
            a_pod(
                "other",
                labels={"app": "web", "version": "1"},
                affinity={"podAntiAffinity": _near(term(ZONE, mismatchLabelKeys=["version"]))},
            ),
        ],
    ),
    Case(
        name="one key, both hard and soft, and the highest skew",
        nodes=[*zones("a", "b"), a_node("node-2", labels={ZONE: "b"})],
        pods=_OLD,
        new=[
            a_pod("both", topologySpreadConstraints=[spread(HOST, WEB), spread(HOST, WEB, hard=False, skew=5)]),
            a_pod("highest", topologySpreadConstraints=[spread(HOST, WEB, skew=2**31 - 1)]),
            a_pod("soft", topologySpreadConstraints=[spread(HOST, WEB, hard=False, skew=2**31 - 1)]),
        ],
    ),
    Case(
        name="more domains are required than there are",
        nodes=zones("a", "b"),
        pods=[a_pod("old", node="node-0")],
        new=[
            a_pod("five", topologySpreadConstraints=[spread(ZONE, WEB, minDomains=5)]),
            a_pod("six", topologySpreadConstraints=[spread(ZONE, WEB, minDomains=5)]),
            a_pod("seven", topologySpreadConstraints=[spread(ZONE, WEB, minDomains=2**31 - 1)]),
        ],
    ),
    Case(
        name="no node is eligible for a constraint",
        nodes=[a_node("a", labels={ZONE: "a"}, taints=[{"key": "t", "effect": "NoSchedule"}]), *zones("b", "c")],
        pods=[a_pod("old", node="a")],
        new=[
            a_pod("taints", topologySpreadConstraints=[spread(ZONE, WEB, nodeTaintsPolicy="Honor")]),
            a_pod(
                "selector",
                nodeSelector={ZONE: "none"},
                topologySpreadConstraints=[spread(ZONE, WEB, nodeAffinityPolicy="Ignore")],
            ),
            a_pod("soft", topologySpreadConstraints=[spread(ZONE, WEB, hard=False, nodeTaintsPolicy="Honor")]),
        ],
    ),
    Case(
        name="preemption for a constraint with an empty selector",
        nodes=zones("a", "b", cpu="2"),
        pods=[a_pod(f"old-{number}", {"cpu": "1"}, node=f"node-{number % 2}", priority="low") for number in range(4)],
        new=[
            a_pod("new", {"cpu": "1"}, priority="high", topologySpreadConstraints=[spread(ZONE, EVERYTHING)]),
            a_pod("more", {"cpu": "2"}, priority="high", topologySpreadConstraints=[spread(HOST, EVERYTHING)]),
        ],
    ),
    Case(
        name="selectors of a Service and of a ReplicaSet that contradict each other",
        nodes=[*zones("a", "b"), a_node("node-2")],
        pods=[*_OLD, *(a_pod(f"other-{number}", node="node-0", labels={"app": "other"}) for number in range(3))],
        objects=[_service({"app": "web"}), _replica_set({"app": "other"})],
        new=[a_pod("new", metadata={"ownerReferences": [_OWNER]}), a_pod("without")],
    ),
    Case(
        name="nodes without a zone beside a zone with an empty name",
        nodes=[*zones("a", ""), a_node("node-2"), a_node("node-3")],
        pods=_OLD,
        objects=[_service({"app": "web"})],
        new=[a_pod("one"), a_pod("two"), a_pod("three")],
    ),
    Case(
        name="affinity to itself with keys that some nodes do not have",
        nodes=[
            *zones("a", ""),
            a_node("node-2", labels={"rack": "1"}),
            a_node("node-3", labels={ZONE: "c", "rack": ""}),
        ],
        new=[
            a_pod("both", affinity={"podAffinity": _near(term(ZONE), term("rack"))}),
            a_pod("again", affinity={"podAffinity": _near(term(ZONE), term("rack"))}),
            a_pod("elsewhere", affinity={"podAffinity": _near(term(ZONE, namespaces=["beta"]))}),
            a_pod("nowhere", affinity={"podAffinity": _near(term("unknown"))}),
            a_pod("nothing", affinity={"podAffinity": _near(term(ZONE, None))}),
            a_pod("everything", affinity={"podAffinity": _near(term(ZONE, EVERYTHING))}),
        ],
    ),
    Case(
        name="anti-affinity: unknown keys, duplicates, all namespaces, no selector",
        nodes=[*zones("a", "b", "c"), a_node("node-3")],
        pods=[
            a_pod(
                "one",
                node="node-0",
                namespace="gamma",
                affinity={
                    "podAntiAffinity": _near(term(ZONE, EVERYTHING, namespaceSelector=EVERYTHING, namespaces=["gamma"]))
                },
            ),
            a_pod("two", node="node-3", affinity={"podAntiAffinity": _near(term(ZONE))}),
        ],
        new=[
            a_pod("unknown", affinity={"podAntiAffinity": _near(term("unknown", EVERYTHING))}),
            a_pod("twice", affinity={"podAntiAffinity": _near(term(), term())}),
            a_pod("nothing", affinity={"podAntiAffinity": _near(term(ZONE, None, namespaceSelector=EVERYTHING))}),
            a_pod("everything", affinity={"podAntiAffinity": _near(term(ZONE, EVERYTHING))}),
            a_pod(
                "named",
                affinity={
                    "podAntiAffinity": _near(
                        term(
                            HOST,
                            EVERYTHING,
                            namespaceSelector={"matchLabels": {"kubernetes.io/metadata.name": "gamma"}},
                        )
                    )
                },
            ),
        ],
    ),
    Case(
        name="namespaces that lack a label, or do not have a value of it",
        nodes=zones("a", "b", "c"),
        pods=[
            a_pod("one", node="node-0", namespace="beta"),
            a_pod(
                "two",
                node="node-1",
                namespace="gamma",
                labels={"app": "db"},
                affinity={"podAntiAffinity": _near(term(HOST, EVERYTHING, namespaceSelector=_lacking("team")))},
            ),
        ],
        new=[
            a_pod("lacking", affinity={"podAntiAffinity": _near(term(HOST, namespaceSelector=_lacking("tier")))}),
            a_pod("other", affinity={"podAntiAffinity": _near(term(HOST, EVERYTHING, namespaceSelector=_NOT_X))}),
            a_pod("near", affinity={"podAffinity": _near(term(ZONE, namespaceSelector=_NOT_X))}),
        ],
    ),
    Case(
        name="preferences that cancel out, and duplicates",
        nodes=zones("a", "b", "c"),
        pods=[
            a_pod("old", node="node-0"),
            a_pod("liked", node="node-1", affinity={"podAffinity": _near(preferred=((100, term()), (100, term())))}),
        ],
        new=[
            a_pod(
                "zero",
                affinity={
                    "podAffinity": _near(preferred=((7, term()),)),
                    "podAntiAffinity": _near(preferred=((7, term()),)),
                },
            ),
            a_pod("negative", affinity={"podAntiAffinity": _near(preferred=((100, term()), (100, term(HOST))))}),
            a_pod("other", labels={"app": "db"}, affinity={"podAffinity": _near(preferred=((1, term()),))}),
        ],
    ),
    Case(
        name="preemption of the only pods that a pod has affinity to",
        nodes=zones("a", "b", cpu="2"),
        pods=[
            a_pod("friend", {"cpu": "2"}, node="node-0", priority="low"),
            a_pod("stranger", {"cpu": "2"}, node="node-1", priority="low", labels={"app": "db"}),
        ],
        new=[
            a_pod("self", {"cpu": "1"}, priority="high", affinity={"podAffinity": _near(term())}),
            a_pod(
                "other",
                {"cpu": "1"},
                priority="high",
                affinity={"podAffinity": _near(term(selector={"matchLabels": {"app": "db"}}))},
            ),
        ],
    ),
    Case(
        name="preemption of pods whose anti-affinity refuses the pod",
        nodes=zones("a", "a", "b"),
        pods=[
            a_pod("low", node="node-0", priority="low", affinity={"podAntiAffinity": _near(term())}),
            a_pod("high", node="node-2", priority="high", affinity={"podAntiAffinity": _near(term())}),
        ],
        new=[a_pod("new", priority="high"), a_pod("again", priority="high")],
    ),
)
