"""Which pods have too many scheduling constraints to be planned with."""

from typing import Any

import msgspec
import pytest
from kube_objects import a_pod

from equipoise.contracts.eviction.scheduling_constraints import MOST_CONSTRAINTS, has_too_many_constraints
from equipoise.contracts.kubernetes.objects.pod import PodSpec

MORE = MOST_CONSTRAINTS + 1


def rules(number: int) -> list[dict[str, Any]]:
    return [{"key": f"key-{index}", "operator": "Exists"} for index in range(number)]


def values(number: int) -> list[dict[str, Any]]:
    return [{"key": "zone", "operator": "NotIn", "values": [f"zone-{index}" for index in range(number)]}]


def numbered(number: int) -> dict[str, str]:
    return {f"key-{index}": "a" for index in range(number)}


def node_terms(terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    }


def preferred_nodes(terms: list[dict[str, Any]]) -> dict[str, Any]:
    preferred = [{"weight": 1, "preference": term} for term in terms]
    return {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def required_pods(field: str, terms: list[dict[str, Any]]) -> dict[str, Any]:
    return {"affinity": {field: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def preferred_pods(field: str, terms: list[dict[str, Any]]) -> dict[str, Any]:
    preferred = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return {"affinity": {field: {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}}


def selected_pods(selector: dict[str, Any]) -> dict[str, Any]:
    return required_pods("podAffinity", [{"topologyKey": "zone", "labelSelector": selector}])


MANY: dict[str, dict[str, Any]] = {
    "node selector": {"nodeSelector": numbered(MORE)},
    "terms": node_terms([{"matchExpressions": rules(1)}] * MORE),
    "requirements": node_terms([{"matchExpressions": rules(MORE)}]),
    "values": node_terms([{"matchExpressions": values(MORE)}]),
    "fields": node_terms([{"matchFields": values(MORE)}]),
    "preferred terms": preferred_nodes([{"matchExpressions": rules(1)}] * MORE),
    "values of a preferred term": preferred_nodes([{"matchExpressions": values(MORE)}]),
    "tolerations": {"tolerations": [{"key": f"key-{index}", "operator": "Exists"} for index in range(MORE)]},
    "affinity": required_pods("podAffinity", [{"topologyKey": "zone"}] * MORE),
    "anti-affinity": required_pods("podAntiAffinity", [{"topologyKey": "zone"}] * MORE),
    "preferred affinity": preferred_pods("podAffinity", [{"topologyKey": "zone"}] * MORE),
    "preferred anti-affinity": preferred_pods("podAntiAffinity", [{"topologyKey": "zone"}] * MORE),
    "labels of a selector": selected_pods({"matchLabels": numbered(MORE)}),
    "requirements of a selector": selected_pods({"matchExpressions": rules(MORE)}),
    "namespaces": required_pods("podAffinity", [{"topologyKey": "zone", "namespaces": list(numbered(MORE))}]),
    "namespace selector": required_pods(
        "podAffinity", [{"topologyKey": "zone", "namespaceSelector": {"matchLabels": numbered(MORE)}}]
    ),
    "label keys": required_pods("podAffinity", [{"topologyKey": "zone", "mismatchLabelKeys": list(numbered(MORE))}]),
    "spread constraints": {"topologySpreadConstraints": [{"topologyKey": f"key-{index}"} for index in range(MORE)]},
    "selector of a spread constraint": {
        "topologySpreadConstraints": [{"topologyKey": "zone", "labelSelector": {"matchExpressions": values(MORE)}}]
    },
    "host ports": {"containers": [{"name": "a", "ports": [{"hostPort": port + 1} for port in range(MORE)]}]},
    "several kinds": {
        "nodeSelector": numbered(MORE // 2),
        **node_terms([{"matchExpressions": rules(1)}] * (MORE // 4 + 1)),
    },
}


@pytest.mark.parametrize("kind", MANY)
def test_constraints_of_every_kind_count(kind: str) -> None:
    """What a pod has more than MOST_CONSTRAINTS of, whatever it is."""
    assert has_too_many_constraints(msgspec.convert(MANY[kind], PodSpec))


def test_a_pod_may_have_as_many_constraints_as_are_planned_with() -> None:
    """With one less than too many, and with none."""
    assert not has_too_many_constraints(msgspec.convert({"nodeSelector": numbered(MOST_CONSTRAINTS)}, PodSpec))
    assert not has_too_many_constraints(a_pod().spec)


def test_ports_of_containers_alone_are_no_constraints() -> None:
    """They do not occupy a port of the node."""
    spec = {"containers": [{"name": "a", "ports": [{"containerPort": port + 1} for port in range(MORE)]}]}
    assert not has_too_many_constraints(msgspec.convert(spec, PodSpec))
