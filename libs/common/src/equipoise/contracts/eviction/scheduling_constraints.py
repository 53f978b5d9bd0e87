"""Scheduling constraints of a pod. Each is compared with nodes or pods whenever a node for the pod is looked for."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelectorTerm
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodSpec

MOST_CONSTRAINTS = 500
"""A pod with more constraints is left out of planning. The API server accepts over ten thousand, which take seconds to
compare with many nodes."""


def has_too_many_constraints(spec: PodSpec) -> bool:
    """Whether a pod has more than MOST_CONSTRAINTS. Counting stops there."""
    return next(islice(_constraints(spec), MOST_CONSTRAINTS, None), None) is not None


def _constraints(spec: PodSpec) -> Iterator[object]:
    """Terms, requirements, their values, tolerations and host ports."""
    yield from spec.node_selector
    yield from spec.tolerations
    for container in spec.containers or ():
        yield from (port for port in container.ports if port.host_port)
    for constraint in spec.topology_spread_constraints:
        yield constraint
        yield from constraint.match_label_keys
        yield from _of_selector(constraint.label_selector)
    if spec.affinity is not None:
        yield from _of_affinity(spec.affinity)


def _of_affinity(affinity: Affinity) -> Iterator[object]:
    if (nodes := affinity.node_affinity) is not None:
        yield from _of_node_terms(nodes.required.node_selector_terms if nodes.required else ())
        yield from _of_node_terms(term.preference for term in nodes.preferred)
    yield from _of_pod_affinity(affinity.pod_affinity)
    yield from _of_pod_affinity(affinity.pod_anti_affinity)


def _of_node_terms(terms: Iterable[NodeSelectorTerm]) -> Iterator[object]:
    for term in terms:
        yield term
        yield from _of_requirements(term.match_expressions)
        yield from _of_requirements(term.match_fields)


def _of_pod_affinity(affinity: PodAffinity | None) -> Iterator[object]:
    if affinity is None:
        return
    for terms in (affinity.required, (term.pod_affinity_term for term in affinity.preferred)):
        for term in terms:
            yield term
            yield from term.namespaces
            yield from term.match_label_keys
            yield from term.mismatch_label_keys
            yield from _of_selector(term.label_selector)
            yield from _of_selector(term.namespace_selector)


def _of_selector(selector: LabelSelector | None) -> Iterator[object]:
    if selector is not None:
        yield from selector.match_labels
        yield from _of_requirements(selector.match_expressions)


def _of_requirements(requirements: Sequence[SelectorRequirement]) -> Iterator[object]:
    for requirement in requirements:
        yield requirement
        yield from requirement.values
