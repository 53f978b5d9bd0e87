"""The deletion costs that the pods of a workload get before a scale-down."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from equipoise.contracts.eviction.deletion_cost import DELETION_COST, RANKS, cost_of_rank, is_own_cost
from equipoise.contracts.eviction.gangs import gang_of
from equipoise.contracts.eviction.opt_out import OPT_OUT
from equipoise.contracts.kubernetes.objects.pod import Pod


class CostChange(msgspec.Struct, frozen=True, kw_only=True):
    """A deletion cost to write."""

    pod: str
    cost: str | None
    """The new cost; None removes the annotation."""

    before: str | None
    """The present cost, which Equipoise wrote; None: there is none."""


def obstacle(pods: Iterable[Pod]) -> str:
    """Why no costs are written to the pods of a workload; empty if they may be written."""
    owners = set()
    for pod in pods:
        metadata = pod.metadata
        controller = metadata.controller
        if metadata.unreadable:
            return f"pod {metadata.name} cannot be read: {metadata.unreadable}"
        if controller is None or (controller.api_version, controller.kind) != ("apps/v1", "ReplicaSet"):
            return f"pod {metadata.name} belongs to no ReplicaSet"
        cost = metadata.annotations.get(DELETION_COST)
        if cost is not None and not is_own_cost(cost):
            return f"another program wrote the deletion cost of pod {metadata.name}"
        if gang := gang_of(pod):
            return f"pod {metadata.name} belongs to a gang ({gang})"
        owners.add(controller.uid)
    return "it is rolled out: its pods belong to several ReplicaSets" if len(owners) > 1 else ""


def may_go_first(pod: Pod) -> bool:
    """Whether the pod may get a cost. Its owner has not excluded it from evictions."""
    return OPT_OUT not in pod.metadata.annotations


def changes(pods: Mapping[str, Pod], order: Sequence[Sequence[str]]) -> list[CostChange]:
    """The costs to write, by the order in which the pods should be deleted.

    Pods beyond `RANKS` groups, and those that are not in `order`, have no cost of Equipoise afterwards.
    """
    costs = {name: cost_of_rank(rank) for rank, group in enumerate(order[:RANKS]) for name in group}
    present = {name: pod.metadata.annotations.get(DELETION_COST) for name, pod in pods.items()}
    return [
        CostChange(pod=name, cost=costs.get(name), before=before)
        for name, before in present.items()
        if costs.get(name) != before
    ]
