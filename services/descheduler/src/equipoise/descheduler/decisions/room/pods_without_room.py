"""Pods that wait for room: those with a pending resize in place, and those that fit on no node."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Literal

import msgspec

from equipoise.contracts.eviction.gangs import gang_of
from equipoise.contracts.eviction.protection import REASON_LIMIT
from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.contracts.kubernetes.resizes import DEFERRED, INFEASIBLE, pending_resize
from equipoise.contracts.load.pod_priority import qos_of
from equipoise.contracts.plain_text import plain_text
from equipoise.contracts.unreadable.known_amounts import unknown_requests
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.decisions.planning.pod_order import KUBERNETES_QOS

if TYPE_CHECKING:  # it needs numpy (docs/decisions/0021)
    from equipoise.scheduling.model.pod_info import PodInfo

RESIZED = ("cpu", "memory")
"""The resources that can be resized in place."""

WaitingFor = Literal["Deferred", "Infeasible", "Unschedulable"]
"""A pending resize by its reason, or a node."""

_MAX_REASON = 40


class PodWithoutRoom(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that waits for room."""

    waits_for: WaitingFor
    info: "PodInfo"
    """The pod with the highest of its desired, effective and allocated amounts."""

    growth: Mapping[str, int]
    """What it requests beyond the amounts that it has on its node, in the units of `info.requests`. Empty if the
    kubelet has not reported these."""

    trigger: str
    """`<UID>.<generation>`. In a cluster without generations of pods (before Kubernetes 1.34), the desired amounts
    replace the generation."""

    since: float | None
    """Unix seconds since when it waits; None if unknown."""

    obstacle: str = ""
    """Why nothing can be planned for it; empty if something can be."""

    @property
    def name(self) -> str:
        """`namespace/name`"""
        return f"{self.info.namespace}/{self.info.name}"

    @property
    def order(self) -> tuple[int, int, float, str]:
        """The sort key: kubelets retry resizes by priority, then by QoS class, then the oldest first (KEP-1287)."""
        qos = KUBERNETES_QOS[qos_of(self.info.pod.status.qos_class)]
        return -self.info.priority, -qos, self.since or 0.0, self.name


def pending_resizes(node: ClusterNode) -> list[PodWithoutRoom]:
    """The pods of a node whose resize is pending, in their order. Pods that terminate or have a pending move have
    none."""
    pods = []
    for info in node.occupying:  # of every node: a generator would take twice as long
        pending = pending_resize(info.pod.status)
        if pending is not None and pending.status == "True" and _runs_on(node, info):
            pods.append(_resize(info, pending))
    return sorted(pods, key=lambda pod: pod.order)


def unschedulable_pods(pods: Iterable["PodInfo"]) -> list[PodWithoutRoom]:
    """The pods without a node that kube-scheduler could not place, in their order.

    Pods for which kube-scheduler preempts others are left out, and pods of gangs, which one place does not help.
    """
    waiting = []
    for info in pods:
        status = info.pod.status
        condition = next((condition for condition in status.conditions if condition.type == "PodScheduled"), None)
        if (
            condition is not None
            and (condition.status, condition.reason) == ("False", "Unschedulable")
            and not info.terminating
            and not status.nominated_node_name
            and not gang_of(info.pod)
        ):
            waiting.append(
                PodWithoutRoom(
                    waits_for="Unschedulable",
                    info=info,
                    growth=info.requests,
                    trigger=_trigger(info),
                    since=_since(condition),
                    obstacle=unknown_requests(info.pod),
                )
            )
    return sorted(waiting, key=lambda pod: pod.order)


def _runs_on(node: ClusterNode, info: "PodInfo") -> bool:
    """Whether the pod runs on the node, and stays: it is no expected replacement, and not moved there in a dry run."""
    pod = info.pod
    return (
        info.uid == pod.metadata.uid
        and pod.spec.node_name == node.name
        and not info.terminating
        and info.uid not in node.going
    )


def _resize(info: "PodInfo", pending: Condition) -> PodWithoutRoom:
    desired, growth, unknown = info, dict[str, int](), unknown_requests(info.pod)
    if not unknown:
        try:
            desired, held = info.with_pending_resize(DEFERRED), info.with_pending_resize(INFEASIBLE)
            growth = {name: max(0, desired.request(name) - held.request(name)) for name in RESIZED}
        except ValueError as error:
            unknown = plain_text(f"what it requests is not known: {error}", REASON_LIMIT)
    if pending.reason not in (DEFERRED, INFEASIBLE):
        reason = plain_text(pending.reason, _MAX_REASON)
        unknown = unknown or f"its resize is pending for a reason that is not known ({reason or 'none'})"
    return PodWithoutRoom(
        waits_for=INFEASIBLE if pending.reason == INFEASIBLE else DEFERRED,
        info=desired,
        growth=growth,
        trigger=_trigger(desired),
        since=_since(pending),
        obstacle=unknown,
    )


def _since(condition: Condition) -> float | None:
    return None if condition.last_transition_time is None else condition.last_transition_time.timestamp()


def _trigger(info: "PodInfo") -> str:
    generation = info.pod.metadata.generation
    desired = ",".join(f"{name}={info.request(name)}" for name in RESIZED)
    return f"{info.uid}.{generation or desired}"
