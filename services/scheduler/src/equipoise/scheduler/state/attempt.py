"""An attempt to find a node for a pod, and the message when there is none."""

from typing import Literal

import msgspec

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import counted
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.queue import QueuedPod
from equipoise.scheduling.framework.status import PluginStatus
from equipoise.scheduling.framework.waiting_pods import WaitingPod
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.scheduler import Decision

Result = Literal["scheduled", "unschedulable", "error"]
"""A result of an attempt, as in scheduler_schedule_attempts_total."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """What was decided about a pod, which is in flight until `bound` or `give_back` is called."""

    queued: QueuedPod
    pod: PodInfo
    framework: Framework
    result: Result
    """`scheduled`: the pod is assumed on `node` and has yet to be bound."""

    node: str = ""
    state: CycleState | None = None
    """What plugins keep for this attempt; only with a node."""

    waiting: WaitingPod | None = None
    """The pod while Permit plugins let it wait; only with a node."""

    message: str = ""
    """Why there is no node, as in the event FailedScheduling."""

    failed_plugin: str = ""
    """The plugin that raised an error, or whose result cannot be used."""

    refused_by: frozenset[str] = frozenset()
    nominated: str | None = None
    """The new status.nominatedNodeName, empty for none. None: unchanged."""

    victims: tuple[PodInfo, ...] = ()
    """Pods to delete, so that this pod can run on the nominated node."""

    outranked: tuple[PodInfo, ...] = ()
    """Pods of lower priority that were nominated for this node, and no longer are."""

    @property
    def profile(self) -> str:
        return self.pod.pod.spec.scheduler_name


def message_of(decision: Decision, nodes: int) -> str:
    """The message of kube-scheduler's event FailedScheduling in a cluster of this many nodes."""
    status = decision.status
    if decision.diagnosis is None and status is not None and status.is_rejected and status.plugin:
        return one_node_refused(status)
    return decision.message(nodes)


def one_node_refused(status: PluginStatus) -> str:
    """The message when Reserve or Permit refuses: kube-scheduler counts the selected node only."""
    reasons = f" {counted(status.reasons)}." if status.reasons else ""
    return f"0/1 nodes are available:{reasons}"
