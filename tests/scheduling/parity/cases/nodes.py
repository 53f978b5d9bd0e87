"""Taints, tolerations and node affinity."""

from scheduling.parity.cases.case import PREFERRED, REQUIRED, ZONE, Case, a_node, a_pod, zones
from scheduling.parity.common_objects import Document


def _taint(key: str, effect: str = "NoSchedule", value: str = "") -> Document:
    return {"key": key, "effect": effect, "value": value}


def _requiring(*terms: Document) -> Document:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def _preferring(*terms: Document) -> Document:
    preferred = [{"weight": 10 * number, "preference": each} for number, each in enumerate(terms, 1)]
    return {"nodeAffinity": {PREFERRED: preferred}}


def _rule(key: str, operator: str, *values: str) -> Document:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


def _named(*names: str, operator: str = "In") -> Document:
    return {"matchFields": [{"key": "metadata.name", "operator": operator, "values": [name]} for name in names]}


_NUMBERS = [
    a_node(f"node-{number}", labels={"number": value})
    for number, value in enumerate(("7", "007", "1_000", "", "99999999999999999999", "abc"))
]

CASES = (
    Case(
        name="taints and tolerations with and without values, keys and effects",
        nodes=[
            a_node("a", taints=[_taint("k"), _taint("k", "PreferNoSchedule")]),
            a_node("b", taints=[_taint("k", value="v"), _taint("k", "NoExecute", "v")]),
            a_node("c", taints=[_taint("k", "PreferNoSchedule"), _taint("l", "PreferNoSchedule")]),
            a_node("d", cordoned=True),
            a_node("e", taints=[_taint("l", "PreferNoSchedule", "x")]),
        ],
        new=[
            a_pod("empty-value", tolerations=[{"key": "k", "operator": "Equal", "value": ""}]),
            a_pod("no-operator", tolerations=[{"key": "k"}]),
            a_pod("everything", tolerations=[{"operator": "Exists", "effect": "NoSchedule"}]),
            a_pod("prefer", tolerations=[{"key": "k", "operator": "Exists", "effect": "PreferNoSchedule"}]),
            a_pod("cordoned", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            a_pod("equal", tolerations=[{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]),
            a_pod("all", tolerations=[{"operator": "Exists"}]),
        ],
    ),
    *(
        Case(
            name=f"a label compared with {value!r} by {operator}",
            nodes=_NUMBERS,
            new=[
                a_pod("required", affinity=_requiring(_rule("number", operator, value))),
                a_pod("preferred", affinity=_preferring(_rule("number", operator, value))),
            ],
        )
        for operator, value in (("Gt", "6"), ("Lt", "1_000"), ("Gt", "-1"), ("Lt", "9223372036854775808"))
    ),
    Case(
        name="empty terms, two names, no name",
        nodes=zones("a", "b", ""),
        new=[
            a_pod("empty", affinity=_requiring({})),
            a_pod("empty-and-one", affinity=_requiring({}, _named("node-1"))),
            a_pod("conflict", affinity=_requiring(_named("node-0", "node-1"))),
            a_pod("conflict-and-one", affinity=_requiring(_named("node-0", "node-1"), _named("node-2"))),
            a_pod("unknown", affinity=_requiring(_named("none"))),
            a_pod("not", affinity=_requiring(_named("node-0", operator="NotIn"))),
            a_pod("empty-value", affinity=_requiring(_rule(ZONE, "In", ""))),
            a_pod("nothing-preferred", affinity=_preferring({}, _rule(ZONE, "In", "b"))),
            a_pod("selector", nodeSelector={ZONE: ""}),
            a_pod("both", nodeSelector={ZONE: "a"}, affinity=_requiring(_named("node-1"))),
        ],
    ),
)
