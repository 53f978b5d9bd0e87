"""What a real cluster has, and what kube-scheduler did with a pod there."""

from collections.abc import Mapping, Sequence

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod


class State(msgspec.Struct, frozen=True, kw_only=True):
    """What the API server has."""

    nodes: Sequence[Node]
    pods: Sequence[Pod]
    others: Sequence[Object]
    """Namespaces, budgets, services, workloads, volumes."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What kube-scheduler did with a pod."""

    pod: Pod
    """The pod as it was created."""

    node: str
    """The node on which it is, or is nominated to be. Empty: none."""

    message: str
    """Why there is no node."""

    failed: bool = False
    """The attempt ended with an error (SchedulerError)."""

    removed: frozenset[str] = frozenset()
    """UIDs of pods that are gone or terminating since: the victims of a preemption."""

    scores: Mapping[str, Mapping[str, int]] = {}
    """Scores by plugin and node, normalized and weighted, of the last attempt. Empty with one feasible node."""

    scored: frozenset[str] = frozenset()
    """The nodes that were scored in the last attempt."""
