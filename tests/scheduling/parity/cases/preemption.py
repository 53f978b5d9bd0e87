"""Preemption: budgets, priorities and starts of the victims, and what the removal of pods changes."""

from scheduling.parity.cases.case import REQUIRED, Case, a_node, a_pod, status_of
from scheduling.parity.common_objects import Document


def _budget(name: str, selector: Document | None, least: int) -> Document:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": "alpha"},
        "spec": {"minAvailable": least, "selector": selector},
    }


def _class(name: str, value: int) -> Document:
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value}


def _named(name: str) -> Document:
    rule = {"key": "metadata.name", "operator": "In", "values": [name]}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [rule]}]}}}


_SMALL = {"cpu": "1"}
_WITH_PORT = {"name": "m", "image": "i", "ports": [{"containerPort": 80, "hostPort": 80}]}
_BY_START = [a_pod(f"old-{node}-{number}", _SMALL, node=node, priority="low") for node in "ab" for number in range(2)]
_MINUTES = (10, 30, 20, 40)
"""Start times of the pods in _BY_START: node b has the later earliest start."""

CASES = (
    Case(
        name="budgets with an empty selector, with none, and two for one pod",
        nodes=[a_node(name, cpu="2") for name in "abc"],
        pods=[
            a_pod("a-1", _SMALL, node="a", priority="low"),
            a_pod("a-2", _SMALL, node="a", priority="low", labels={}),
            a_pod("b-1", _SMALL, node="b", priority="low", labels={"app": "db", "tier": "x"}),
            a_pod("b-2", _SMALL, node="b", priority="low", labels={"app": "db"}),
            a_pod("c-1", _SMALL, node="c", priority="middle", labels={"app": "cache"}),
            a_pod("c-2", _SMALL, node="c", priority="low", labels={"app": "cache"}),
        ],
        objects=[
            _budget("all", {}, 0),
            _budget("none", None, 5),
            _budget("db", {"matchLabels": {"app": "db"}}, 1),
            _budget("tier", {"matchLabels": {"tier": "x"}}, 1),
            _budget("cache", {"matchLabels": {"app": "cache"}}, 2),
        ],
        new=[a_pod(f"new-{number}", {"cpu": cpu}, priority="high") for number, cpu in enumerate(("2", "1", "2", "1"))],
    ),
    Case(
        name="priorities that are equal, negative and the lowest",
        nodes=[a_node(name, cpu="2") for name in "abc"],
        objects=[_class("negative", -5), _class("lowest", -(2**31)), _class("highest", 10**9)],
        pods=[
            a_pod("a-1", _SMALL, node="a", priority="negative"),
            a_pod("a-2", _SMALL, node="a", priority="lowest"),
            a_pod("b-1", _SMALL, node="b", priority="negative"),
            a_pod("b-2", _SMALL, node="b", priority="negative"),
            a_pod("c-1", {"cpu": "2"}, node="c", priority="low"),
        ],
        new=[
            a_pod("equal", _SMALL, priority="lowest"),
            a_pod("zero", {"cpu": "2"}),
            a_pod("highest", {"cpu": "2"}, priority="highest"),
            a_pod("low", {"cpu": "2"}, priority="low"),
            a_pod("high", {"cpu": "2"}, priority="high"),
        ],
    ),
    Case(
        name="the later start decides",
        nodes=[a_node(name, cpu="2") for name in "ab"],
        pods=_BY_START,
        prepared=[
            status_of(pod, {"startTime": f"2026-01-01T00:{minute}:00Z"})
            for pod, minute in zip(_BY_START, _MINUTES, strict=True)
        ],
        new=[a_pod("two", {"cpu": "2"}, priority="high"), a_pod("one", {"cpu": "1"}, priority="high")],
    ),
    Case(
        name="the more important pods are put back first",
        nodes=[a_node("a", cpu="4"), a_node("b", cpu="4")],
        pods=[
            a_pod("a-low", {"cpu": "2"}, node="a", priority="low"),
            a_pod("a-middle", {"cpu": "2"}, node="a", priority="middle"),
            a_pod("b-low-1", {"cpu": "1"}, node="b", priority="low"),
            a_pod("b-low-2", {"cpu": "1"}, node="b", priority="low"),
            a_pod("b-middle", {"cpu": "2"}, node="b", priority="middle"),
        ],
        new=[a_pod("new", {"cpu": "2"}, priority="high"), a_pod("more", {"cpu": "3"}, priority="high")],
    ),
    Case(
        name="a host port that a pod of lower priority has",
        nodes=[a_node("a"), a_node("b")],
        pods=[
            a_pod("low", node="a", priority="low", containers=[_WITH_PORT]),
            a_pod("high", node="b", priority="high", containers=[_WITH_PORT]),
        ],
        new=[a_pod("new", priority="high", containers=[_WITH_PORT])],
    ),
    Case(
        name="a pod that names its node, and two that exclude each other",
        nodes=[a_node("a", cpu="2"), a_node("b", cpu="2")],
        pods=[
            a_pod("a-1", {"cpu": "2"}, node="a", priority="low"),
            a_pod("b-1", {"cpu": "2"}, node="b", priority="low"),
        ],
        new=[
            a_pod("named", {"cpu": "1"}, priority="high", affinity=_named("b")),
            a_pod("unknown", {"cpu": "1"}, priority="high", affinity=_named("none")),
            a_pod("never", {"cpu": "2"}, priority="patient"),
            a_pod("selector", {"cpu": "2"}, priority="high", nodeSelector={"none": "none"}),
        ],
    ),
    Case(
        name="the pod never fits, and too many pods",
        nodes=[a_node("a", pods="1"), a_node("b", cpu="1", pods="1")],
        pods=[a_pod("a-1", node="a", priority="low"), a_pod("b-1", node="b", priority="low")],
        new=[a_pod("large", {"cpu": "5"}, priority="high"), a_pod("small", {"cpu": "2"}, priority="high")],
    ),
)
