"""The reclaimer: every replica subscribes; only the leader evaluates, publishes and writes."""

import asyncio

from equipoise.contracts.bus.subjects import PREFIX
from equipoise.contracts.load.latest import is_acceptable
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.reclaimer.shell.metrics import ReclaimerMetrics
from equipoise.reclaimer.state.latest_nodes import LatestNodes
from equipoise.runtime.bus import Delivery
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.leader_election import lead
from equipoise.runtime.process.lifecycle import Runtime

RECLAIMER_LEASE = "equipoise-reclaimer"


class Reclaimer:
    """Runs until `run` is canceled."""

    def __init__(self, runtime: Runtime[ReclaimerSettings]) -> None:
        """Raises ConfigurationError if it is not enabled."""
        if not runtime.own.enabled:
            raise ConfigurationError("reclaimer.enabled is false: set it to true, or do not run this service")
        self._runtime = runtime
        self._clock = runtime.clock
        self._metrics = ReclaimerMetrics(runtime.metrics)
        self._nodes = LatestNodes()

    async def attach(self) -> None:
        bus = self._runtime.bus
        await bus.subscribe_latest(f"{PREFIX}.placement.node.*", NodePlacement, self.on_placement)
        await bus.subscribe_latest(f"{PREFIX}.utilization.node.*", NodeUtilization, self.on_utilization)

    async def on_placement(self, delivery: Delivery[NodePlacement]) -> None:
        self._nodes.on_placement(delivery.message)

    async def on_utilization(self, delivery: Delivery[NodeUtilization]) -> None:
        if is_acceptable(delivery.message, self._clock.now()):
            self._nodes.on_utilization(delivery.message)

    async def run(self) -> None:
        """Run until canceled."""
        self._runtime.health.warmed_up()
        runtime, election = self._runtime, self._runtime.own.leader_election
        await lead(
            runtime.kube,
            self._clock,
            namespace=runtime.configuration.shared.kubernetes.namespace,
            name=RECLAIMER_LEASE,
            identity=runtime.identity,
            worker=self._evaluate,
            health=runtime.health,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    async def _evaluate(self, epoch: LeaseEpoch) -> None:
        while True:
            self._metrics.nodes.set(len(self._nodes.placements))
            await asyncio.sleep(0)
            await self._clock.sleep(self._runtime.own.interval)
