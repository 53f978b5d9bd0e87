"""Which planned moves the limits allow now, according to the ledger and the configuration of the running binders."""

import asyncio
from collections.abc import Mapping

import msgspec

from equipoise.binder.decisions.outlook import refusals_now
from equipoise.binder.decisions.status import LedgerStatus
from equipoise.cli.bus.cluster import TIMEOUT
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import not_known, running_configurations
from equipoise.cli.options import ClusterOptions
from equipoise.cli.status.run import count_pods, limits_of, stored_ledger
from equipoise.contracts.messages.health import DRY_RUN, REAL
from equipoise.contracts.messages.plan import PlanResponse
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock


class PlanLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Which planned moves the limits refuse now."""

    problem: str = ""
    """Why it is unknown which moves the limits allow; "" if it is known."""

    refusals: Mapping[str, str] = {}
    """Why a move is not allowed now, and when it will be allowed, by `namespace/pod`. Other moves are allowed."""


async def read_plan_limits(plan: PlanResponse, server: Nats, options: ClusterOptions) -> PlanLimits:
    """The limits of the cluster of the kubeconfig, for the moves of a plan."""
    clock = SystemClock()
    if not plan.moves or plan.evictions not in (REAL, DRY_RUN):
        return PlanLimits()
    try:
        running = running_configurations(await read_effective(server, clock), "binder", clock.now())
        limits = limits_of(running[0]) if running else None
        if limits is None:
            return PlanLimits(problem=not_known("binder"))
        connection = options.connection()
        async with asyncio.timeout(TIMEOUT), connect_kube(connection, "plan", clock) as kube:
            ledger = await stored_ledger(kube, connection.namespace)
            if isinstance(ledger, LedgerStatus):
                return PlanLimits(problem=ledger.why)
            pods = await count_pods(kube, limits.evictions_per_cluster)
            now = kube.server_time(clock.now())
    except (BusError, KubeError, TimeoutError) as error:
        return PlanLimits(problem=str(error) or "no response")
    whys = refusals_now(plan.moves, ledger, limits, now, dry_run=plan.evictions == DRY_RUN, cluster_pods=pods)
    return PlanLimits(refusals={move.pod_name: why for move, why in zip(plan.moves, whys, strict=True) if why})
