"""Reads from the API server whether placement hints lead the replacements of pending moves to their targets."""

import asyncio

import msgspec

from equipoise.cli.bus.cluster import TIMEOUT
from equipoise.cli.hints.state import HintsState, read_hints_state
from equipoise.cli.options import ClusterOptions
from equipoise.contracts.hints.hints_object import workload_hints
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.messages.placement import WorkloadHint, hint_key
from equipoise.contracts.messages.plan import PendingMove, PlanResponse
from equipoise.runtime.kubernetes.client import HINTS, NODES, Kube, KubeError, find
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock


class TargetHint(msgspec.Struct, frozen=True, kw_only=True):
    """How much new pods of a workload prefer the target of its pending move now."""

    namespace: str
    pod: str
    """The pod that is moved."""

    weight: int
    """The weight of the target, up to 100: 0 if the hint does not name it, negative if the hint avoids it."""


class PlanHints(msgspec.Struct, frozen=True, kw_only=True):
    """Placement hints, as far as they concern replacements."""

    status: HintsState
    pending: list[TargetHint] = []
    """The weights for pending moves whose workload has a hint."""

    def weight(self, move: PendingMove) -> int | None:
        """The weight of the move's target; None if new pods of the workload get no hint."""
        hints = (hint for hint in self.pending if (hint.namespace, hint.pod) == (move.namespace, move.pod))
        return next((hint.weight for hint in hints), None)


async def read_plan_hints(plan: PlanResponse, options: ClusterOptions) -> PlanHints:
    """The placement hints in the cluster of the kubeconfig."""
    clock = SystemClock()
    try:
        async with asyncio.timeout(TIMEOUT), connect_kube(options.connection(), "plan", clock) as kube:
            state = await read_hints_state(kube, clock)
            pending = await target_hints(kube, plan) if state.state == "on" else []
            return PlanHints(status=state, pending=pending)
    except (KubeError, TimeoutError) as error:
        return PlanHints(status=HintsState(state="unknown", why=str(error) or "no response"))


async def target_hints(kube: Kube, plan: PlanResponse) -> list[TargetHint]:
    """The hints for pending moves. Each namespace and each target is read once."""
    hints: dict[str, dict[str, WorkloadHint]] = {}
    hostnames: dict[str, str] = {}
    """The values of `kubernetes.io/hostname` of targets; empty if the node is gone or has none."""

    pending = []
    for move in plan.pending:
        if move.workload is None:
            continue
        if move.namespace not in hints:
            stored = await find(kube, HINTS, NAME, move.namespace)
            hints[move.namespace] = {} if stored is None else workload_hints(stored)
        hint = hints[move.namespace].get(hint_key(move.workload))
        if hint is None:
            continue
        if move.target not in hostnames:
            node = await find(kube, NODES, move.target)
            hostnames[move.target] = "" if node is None else node.metadata.labels.get(HOSTNAME, "")
        pending.append(TargetHint(namespace=move.namespace, pod=move.pod, weight=hint.weights[hostnames[move.target]]))
    return pending
