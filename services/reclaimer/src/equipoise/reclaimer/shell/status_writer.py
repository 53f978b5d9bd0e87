"""Writes amounts to the status of nodes, at the configured rate, and reports writes that the API server refuses."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import NoReturn

import structlog

from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.reclaimer.shell.metrics import ReclaimerMetrics
from equipoise.runtime.async_tools.rate_limiter import RateLimiter
from equipoise.runtime.kubernetes.client import LEASES, Conflict, KubeError, NotFound
from equipoise.runtime.kubernetes.fence import PROBE, until_fenced
from equipoise.runtime.kubernetes.installation import InstallationCheck
from equipoise.runtime.kubernetes.paced_requests import PacedRequests
from equipoise.runtime.process.lifecycle import Runtime

FENCE = "equipoise-reclaimer-fence"
"""The admission policy that must be in effect before the reclaimer writes anything."""

MANIFEST = "k8s/colocation/reclaimer-fence.yaml"

_PROBLEM = "node status"

log = structlog.get_logger()


class StatusWriter:
    """Writes the newest amounts of each node; amounts that shrink do not wait for those that grow."""

    def __init__(
        self,
        runtime: Runtime[ReclaimerSettings],
        metrics: ReclaimerMetrics,
        on_written: Callable[[str, Mapping[str, int | None]], Awaitable[None]],
    ) -> None:
        """`on_written` is called with the name of a node and its amounts after its status was written."""
        self._kube, self._clock, self._health = runtime.kube, runtime.clock, runtime.health
        self._namespace = runtime.configuration.shared.kubernetes.namespace
        self._metrics = metrics
        self._on_written = on_written
        self._installation = InstallationCheck(runtime.kube, self._namespace, runtime.clock, runtime.health)
        per_second = runtime.own.writes_per_second
        self._limiter = RateLimiter(runtime.clock, lambda: 1.0 / per_second)
        self._requests = PacedRequests(runtime.clock, self._limiter)
        self._shrinking: dict[str, _Write] = {}
        self._growing: dict[str, _Write] = {}
        self._failed: dict[str, str] = {}
        """The reason for which the last write failed, by node."""

        self._pending = asyncio.Event()
        self._ready = False

    @property
    def is_ready(self) -> bool:
        """Whether the admission policy is in effect, and no older installation works in the cluster."""
        return self._ready and not self._installation.problem

    def request(self, node: str, uid: str, amounts: Mapping[str, int | None], *, shrinks: bool) -> None:
        """Write these amounts as soon as the rate permits: milli-cores and bytes, None to remove an amount."""
        self._drop(node)
        (self._shrinking if shrinks else self._growing)[node] = (uid, amounts)
        self._pending.set()
        self._count()

    def cancel(self, node: str) -> None:
        """End the pending write and the failure of a node, because its status has the right amounts."""
        self._drop(node)
        self._end_failure(node)

    def _drop(self, node: str) -> None:
        self._shrinking.pop(node, None)
        self._growing.pop(node, None)

    async def run(self) -> NoReturn:
        """Write until canceled. Pending requests are then dropped."""
        try:
            probe = Lease(metadata=ObjectMeta(name=PROBE, namespace=self._namespace))
            await until_fenced(self._kube, FENCE, LEASES, probe, self._clock, self._health, manifest=MANIFEST)
            await self._installation.check()
            self._ready = True
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._installation.run())
                tasks.create_task(self._write_all())
            raise AssertionError  # both tasks run until they are canceled
        finally:
            self._ready = False
            self._shrinking.clear()
            self._growing.clear()
            self._failed.clear()
            self._health.set_problem(_PROBLEM, None)

    async def _write_all(self) -> NoReturn:
        while True:
            await self._pending.wait()
            request = await self._limiter.acquire(self._next)
            if request is not None:
                await self._write(*request)

    def _next(self) -> "tuple[str, _Write] | None":
        self._count()
        for waiting in (self._shrinking, self._growing):
            if waiting and not self._installation.problem:
                node = next(iter(waiting))
                return node, waiting.pop(node)
        self._pending.clear()
        return None

    def _count(self) -> None:
        self._metrics.writes_pending.set(len(self._shrinking) + len(self._growing))

    async def _write(self, node: str, write: "_Write") -> None:
        uid, amounts = write
        try:
            await self._requests.send(self._kube.set_node_amounts(node, amounts, uid=uid))
        except (NotFound, Conflict):  # the node was deleted, so a message with its removal will arrive
            self._metrics.writes.labels("gone").inc()
            self._end_failure(node)
        except (KubeError, TimeoutError) as error:
            self._metrics.writes.labels("failed").inc()
            self._failed[node] = str(error)
            self._report_failures()
            log.warning("status not written", node=node, error=str(error))
        else:
            self._metrics.writes.labels("written").inc()
            self._end_failure(node)
            await self._on_written(node, amounts)

    def _end_failure(self, node: str) -> None:
        if self._failed.pop(node, None) is not None:
            self._report_failures()

    def _report_failures(self) -> None:
        """Report the nodes whose last write failed, and the latest reason."""
        text = None
        if self._failed:
            node, why = next(reversed(self._failed.items()))
            others = f" and {len(self._failed) - 1} others" if len(self._failed) > 1 else ""
            text = (
                f"the amounts of node {node}{others} cannot be written to their status: {why}. They are written again"
            )
        self._health.set_problem(_PROBLEM, text)


_Write = tuple[str, Mapping[str, int | None]]
"""UID of the node, and the amounts."""
