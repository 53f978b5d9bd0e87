"""A pod that may be evicted, for tests of the rules that protect it."""

from typing import Any

from builders import NOW, a_workload
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.contracts.configuration.moves import MovesLevel
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.protection import protection
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod

OWN = "equipoise-system"


def a_candidate(pod: Pod | None = None, **fields: Any) -> Candidate:
    """A pod that may be moved."""
    defaults: dict[str, Any] = {
        "pod": pod or a_pod(),
        "namespace": Namespace(metadata=ObjectMeta(name="shop")),
        "workload": a_workload(),
        "owners": (a_replica_set(), a_deployment()),
    }
    return Candidate(**(defaults | fields))


def why(
    candidate: Candidate,
    namespaces: Namespaces | None = None,
    now: float = NOW,
    level: MovesLevel | None = None,
    **options: Any,
) -> str:
    rules = Rules(
        protection=Protection(**options), namespaces=namespaces or Namespaces(), own_namespace=OWN, level=level
    )
    return protection(candidate, rules, now)


def a_pod_with(**fields: Any) -> Pod:
    """A pod with these fields of its metadata."""
    return a_pod(metadata=fields)
