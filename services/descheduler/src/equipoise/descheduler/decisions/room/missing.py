"""The amounts that a node lacks for the pods that wait for room."""

import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from equipoise.contracts.unreadable.known_amounts import unknown_requests
from equipoise.descheduler.decisions.cluster_node import ClusterNode

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo

WholeAmounts = Mapping[str, int]
"""Amounts by resource name: millicores of cpu, the base unit of others."""

_MEBIBYTE = 2**20


def whole_allocatable(node: ClusterNode) -> WholeAmounts:
    """The allocatable amounts of a node."""
    return {name: round(amount * (1_000 if name == "cpu" else 1)) for name, amount in node.allocatable.items()}


def staying_pods(node: ClusterNode, moved: Collection[str] = ()) -> list["PodInfo"]:
    """The pods that take room on a node and neither terminate nor have a move. `moved`: the UIDs of the pods that the
    plan moves away."""
    return [
        info for info in node.occupying if not info.terminating and info.uid not in node.going and info.uid not in moved
    ]


def missing_amounts(
    resources: Iterable[str],
    node: ClusterNode,
    pods: Iterable["PodInfo"],
    *,
    added: WholeAmounts,
    without: Iterable[WholeAmounts],
) -> WholeAmounts:
    """Σ requests − allocatable, of the resources in which it is above 0.

    `pods` count with what kube-scheduler counts: the desired amounts of a deferred resize in full. `added`: the
    requests of a pod that is not on the node yet. `without`: amounts in the requests of `pods` that are not needed.
    """
    allocatable, pods, without = whole_allocatable(node), list(pods), list(without)
    missing = {
        name: sum(pod.request(name) for pod in pods)
        + added.get(name, 0)
        - sum(amounts.get(name, 0) for amounts in without)
        - allocatable.get(name, 0)
        for name in resources
    }
    return {name: amount for name, amount in missing.items() if amount > 0}


def unknown_room(node: ClusterNode) -> str:
    """Why it is not known how much room a node has; empty if it is known."""
    if not {"cpu", "memory"} <= node.allocatable.keys():
        return "its allocatable cpu and memory are not known"
    return next(
        (why for info in node.occupying if info.pod.metadata.unreadable and (why := unknown_requests(info.pod))), ""
    )


def amounts_text(amounts: WholeAmounts) -> str:
    """The amounts in words, such as `500m CPU and 2 GiB memory`, rounded up."""
    return " and ".join(_amount_text(name, amount) for name, amount in amounts.items())


def _amount_text(name: str, amount: int) -> str:
    if name == "cpu":
        return f"{amount}m CPU"
    if name == "memory":
        mebibytes = math.ceil(amount / _MEBIBYTE)
        return f"{mebibytes} MiB memory" if mebibytes % 1024 else f"{mebibytes // 1024} GiB memory"
    return f"{amount} {name}"
