"""The reclaimer: every replica subscribes; only the leader evaluates, publishes and writes."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import structlog

from equipoise.contracts.bus import channels
from equipoise.contracts.bus.subjects import reclaimed_node
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.reclaimer.decisions.evaluation import CONTESTED, Evaluated, evaluate
from equipoise.reclaimer.decisions.learning import expect, learn
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.reclaimer.shell.metrics import ReclaimerMetrics
from equipoise.reclaimer.shell.status_writer import StatusWriter
from equipoise.reclaimer.state.latest_nodes import LatestNodes
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.leader_election import RECLAIMER_LEASE, lead
from equipoise.runtime.process.lifecycle import Runtime

NODES_AT_A_TIME = 100
"""The nodes that are evaluated in one step of the event loop: it has to renew the Lease and to receive messages in
between."""

LEARNING_STEPS = 5
"""The largest number of learning steps after an evaluation; together they learn a hundred nodes."""

log = structlog.get_logger()


@dataclass
class _Due:
    """Amounts that are to be written, and the message about them."""

    message: ReclaimedNode
    amounts: Mapping[str, int | None]
    published: bool = False
    written: bool = False


class Reclaimer:
    """Runs until `run` is canceled."""

    def __init__(self, runtime: Runtime[ReclaimerSettings]) -> None:
        """Raises ConfigurationError if it is not enabled."""
        if not runtime.own.enabled:
            raise ConfigurationError("reclaimer.enabled is false: set it to true, or do not run this service")
        self._runtime = runtime
        self._bus, self._clock = runtime.bus, runtime.clock
        self._mode = runtime.own.mode
        self._settings = runtime.own.evaluation()
        self._max_age = runtime.configuration.shared.load.freshness.score
        self._metrics = ReclaimerMetrics(runtime.metrics)
        forecast = self._settings.forecast
        self._nodes = LatestNodes(started_at=self._clock.now(), hours=forecast.batch_hours, day=forecast.day)
        self._contested: set[str] = set()
        self._due: dict[str, _Due] = {}
        """The amounts that are to be written, by node."""

        self._writer = StatusWriter(runtime, self._metrics, self._on_written)

    async def attach(self) -> None:
        """Subscribe. First to what an earlier reclaimer published, whose amounts this one continues."""
        follow, nodes = self._bus.follow, self._nodes
        await follow(channels.RECLAIMED_NODES, nodes.on_reclaimed, keep_future=True)
        await follow(channels.WORKLOAD_UTILIZATIONS, nodes.on_workload)
        await follow(channels.NODE_PLACEMENTS, nodes.on_placement)
        await follow(channels.NODE_UTILIZATIONS, nodes.on_utilization)

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
            worker=self._lead,
            health=runtime.health,
            lease_duration=election.lease_duration,
            renew_deadline=election.renew_deadline,
            retry_period=election.retry_period,
        )

    async def _lead(self, _: LeaseEpoch) -> None:
        """Evaluates and writes until canceled."""
        self._nodes.forget_writes()
        self._due.clear()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._evaluate_regularly())
                if self._mode == "enforce":
                    tasks.create_task(self._writer.run())
        finally:
            self._metrics.clear()

    async def _evaluate_regularly(self) -> None:
        epoch, sequence = self._nodes.next_epoch(self._clock.now()), 0
        while True:
            begun = self._clock.monotonic()
            messages: list[ReclaimedNode] = []
            contested = set()
            names = self._nodes.names
            for first in range(0, len(names), NODES_AT_A_TIME):
                sequence += 1
                for result in self._evaluate(names[first : first + NODES_AT_A_TIME]):
                    self._due.pop(result.message.node, None)
                    if result.contested:
                        contested.add(result.message.node)
                    written = self._mode == "enforce" and not result.due and not result.contested
                    message = msgspec.structs.replace(
                        result.message, mode=self._mode, written=written, epoch=epoch, sequence=sequence
                    )
                    self._request_write(result, message)
                    await self._publish(message)
                    await self._publish_written(message.node, published=message)
                    messages.append(message)
                await asyncio.sleep(0)
            duration = self._clock.monotonic() - begun
            await self._learn()
            self._nodes.prune(self._clock.now())
            self._report_contested(contested)
            self._metrics.on_evaluation(messages)
            self._metrics.evaluation_duration.observe(duration)
            self._metrics.evaluated_at.set(self._clock.now())
            await self._clock.sleep(max(0.0, self._runtime.own.interval - duration))

    async def _learn(self) -> None:
        """Learns in small steps; the next evaluations learn the nodes that are left."""
        now, deviations = self._clock.now(), self._nodes.deviations
        while expect(deviations, now):  # noqa: ASYNC110 (not for time: it lets others work in between)
            await asyncio.sleep(0)
        for _ in range(LEARNING_STEPS):
            if not learn(deviations, now):
                break
            await asyncio.sleep(0)

    def _evaluate(self, names: Sequence[str]) -> list[Evaluated]:
        now = self._clock.now()
        known = [name for name in names if self._nodes.uid(name) is not None]
        try:
            results = self._evaluated(known, now)
        except Exception:
            # One node must not keep all others from being evaluated.
            results = []
            for name in known:
                with self._runtime.health.unreadable.guard("nodes", name):
                    results += self._evaluated([name], now)
        else:
            for name in known:
                self._runtime.health.unreadable.remove("nodes", name)
        for result in results:
            self._nodes.on_evaluated(result.message.node, result.last, result.amounts)
        return results

    def _evaluated(self, names: Sequence[str], now: float) -> list[Evaluated]:
        observed = [self._nodes.observed(name, self._mode, now) for name in names]
        return evaluate(observed, self._settings, max_age=self._max_age, now=now)

    def _request_write(self, result: Evaluated, message: ReclaimedNode) -> None:
        """`message`: what is published about it."""
        if self._mode == "observe" or not self._writer.is_ready:
            return
        if result.due:
            node = result.message
            self._nodes.on_requested(node.node, result.amounts)
            self._due[node.node] = _Due(message, result.amounts)
            self._writer.request(node.node, node.uid, result.amounts, shrinks=result.shrinks)
        else:
            self._writer.cancel(result.message.node)

    async def _on_written(self, node: str, amounts: Mapping[str, int | None]) -> None:
        self._nodes.on_written(node, self._clock.now())
        if (due := self._due.get(node)) is not None and due.amounts == amounts:
            due.written = True
            await self._publish_written(node)

    async def _publish_written(self, node: str, *, published: ReclaimedNode | None = None) -> None:
        """Publishes at once that amounts were written, because the next evaluation may change them again.

        Not before the message about these amounts was published. `published`: the message that was published just now.
        """
        if (due := self._due.get(node)) is None:
            return
        due.published = due.published or due.message is published
        if due.written and due.published:
            del self._due[node]
            await self._publish(msgspec.structs.replace(due.message, written=True))

    def _report_contested(self, contested: set[str]) -> None:
        """Logs once when another program begins to write the amounts of a node, and once when that ends."""
        for node in sorted(contested - self._contested):
            log.warning("status not written", node=node, reason=CONTESTED)
        for node in sorted(self._contested - contested):
            log.info("status is written again", node=node)
        self._contested = contested
        self._metrics.contested.set(len(contested))

    async def _publish(self, message: ReclaimedNode) -> None:
        try:
            await self._bus.publish(reclaimed_node(message.node), message)
        except BusError as error:
            self._metrics.messages_dropped.inc()
            log.debug("message dropped", node=message.node, error=str(error))
