"""The parts of a demo with moves without a gap: Services, the accounts of descheduler and binder, and the figures."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any

from equipoise.cli.demo.accounts import account_documents, account_variables
from equipoise.cli.demo.figures import AuditedEvents
from equipoise.cli.demo.manifests import BURST, BURST_NAMESPACE
from equipoise.cli.demo.surge.figures import SurgeResult
from equipoise.cli.demo.surge.workloads import service_documents, wanted_endpoints
from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.lab.model.trace import Trace
from equipoise.testbed.api import Api
from equipoise.testbed.audit import written_slices
from equipoise.testbed.cluster import Cluster
from equipoise.testbed.ready_endpoints import ready_endpoints

ACCOUNT_FILES = ("base/descheduler.yaml", "base/binder.yaml", "surge/binder.yaml", "base/fence.yaml")
LONGEST_MOVE = 60.0
"""Seconds after which a pod that is still detached is left over: the time for its replacement, and that of the steps
on a busy machine."""


@dataclass
class Surge:
    """The moves without a gap of one run."""

    cluster: Cluster
    api: Api
    trace: Trace
    burst_pods: int

    def __post_init__(self) -> None:
        self.wanted = {**wanted_endpoints(self.trace), f"{BURST_NAMESPACE}/{BURST}": self.burst_pods}

    async def add_services(self) -> None:
        """Creates a Service for each workload, and for the burst."""
        await self.api.apply(service_documents(self.wanted))

    async def add_accounts(self) -> dict[ServiceName, dict[str, str]]:
        """Creates what k8s/base and k8s/surge give the descheduler, which approves moves, and the binder.

        Returns their environment variables. The namespace must exist.
        """
        await self.api.apply(account_documents(ACCOUNT_FILES, "--surge"))
        services: tuple[ServiceName, ...] = ("descheduler", "binder")
        return {service: await account_variables(self.cluster, service) for service in services}

    def result(self, mode: str, events: AuditedEvents, left_over: int) -> SurgeResult:
        """The result of the moves so far."""
        slices = written_slices(self.cluster.audit_log)
        endpoints = ready_endpoints(slices, self.wanted, time.time())  # noqa: TID251  the API server's clock
        return SurgeResult(
            mode=mode,
            moved=len(events.evictions),
            without_gap=sum(eviction.without_gap for eviction in events.evictions),
            services=len(endpoints.complete),
            shortages=len(endpoints.shortages),
            seconds_with_fewer_ready=round(endpoints.seconds, 3),
            detached_left_over=left_over,
        )

    async def left_over(self) -> int:
        """The number of detached pods that remain when the moves that are open now have ended."""
        left = await self._detached()
        deadline = time.monotonic() + LONGEST_MOVE
        while left and time.monotonic() < deadline:
            await asyncio.sleep(1.0)
            left &= await self._detached()
        return len(left)

    async def _detached(self) -> set[str]:
        """The UIDs of the pods that are detached now."""
        pods = (await self.api.request("GET", "/api/v1/pods?resourceVersion=0"))["items"]
        return {pod["metadata"]["uid"] for pod in pods if _is_detached(pod["metadata"])}


def _is_detached(metadata: dict[str, Any]) -> bool:
    return DETACHED_HASH in metadata.get("annotations", {}) and not metadata.get("ownerReferences")
