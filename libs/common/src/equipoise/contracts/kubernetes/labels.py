"""Label selectors of pods, nodes and namespaces."""

import re
from collections.abc import Callable, Mapping, Sequence

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import PodSpec

HOSTNAME = "kubernetes.io/hostname"
"""Label of a node. Its value can differ from the node's name."""

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
"""Labels of a node."""

_VALUE = re.compile("(?=.{0,63}$)(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?")
_INTEGER = re.compile("([+-]?)0*([0-9]{1,19})")


def integer(text: str) -> int | None:
    """The number as `strconv.ParseInt` of Go reads it: ASCII digits, 64 bits. None for any other text."""
    match = _INTEGER.fullmatch(text)
    number = int("".join(match.groups())) if match else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


def is_label_value(text: str) -> bool:
    return _VALUE.fullmatch(text) is not None


def _compared(value: str | None, values: Sequence[str], greater: bool) -> bool:
    left, right = integer(value or ""), integer(values[0]) if len(values) == 1 else None
    if left is None or right is None:
        return False
    return left > right if greater else left < right


_OPERATORS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value is not None and value in values,
    "NotIn": lambda value, values: value is None or value not in values,
    "Exists": lambda value, values: value is not None,
    "DoesNotExist": lambda value, values: value is None,
    "Gt": lambda value, values: _compared(value, values, greater=True),
    "Lt": lambda value, values: _compared(value, values, greater=False),
}


def satisfies(value: str | None, operator: str, values: Sequence[str]) -> bool:
    """Whether a label's value (None: no such label) meets a requirement. An unknown operator is never met."""
    rule = _OPERATORS.get(operator)
    return rule is not None and rule(value, values)


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    """Whether the selector matches an object with these labels. None matches no object, an empty one every object."""
    if selector is None:
        return False
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        satisfies(labels.get(rule.key), rule.operator, rule.values) for rule in selector.match_expressions
    )


def _term_selects(term: NodeSelectorTerm, name: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(satisfies(labels.get(rule.key), rule.operator, rule.values) for rule in term.match_expressions) and all(
        # The API server allows no other field.
        rule.key == "metadata.name" and satisfies(name, rule.operator, rule.values)
        for rule in term.match_fields
    )


def selects_node(selector: NodeSelector, name: str, labels: Mapping[str, str]) -> bool:
    """Whether any term matches the node. A term without requirements matches none."""
    return any(_term_selects(term, name, labels) for term in selector.node_selector_terms)


def required_nodes(spec: PodSpec) -> NodeSelector | None:
    """The node selector and the required node affinity of a pod, as one selector. None: the pod requires nothing."""
    affinity = spec.affinity.node_affinity if spec.affinity else None
    required = affinity.required if affinity else None
    if not spec.node_selector:
        return required
    labels = [SelectorRequirement(key=key, operator="In", values=[value]) for key, value in spec.node_selector.items()]
    if required is None:
        return NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=labels)])
    return NodeSelector(
        node_selector_terms=[
            NodeSelectorTerm(match_expressions=[*labels, *term.match_expressions], match_fields=term.match_fields)
            for term in required.node_selector_terms
            if term.match_expressions or term.match_fields  # a term without requirements matches no node
        ]
    )
