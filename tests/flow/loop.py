"""The five services in one process, started as in production, with a bus, an API server, a metric source and a clock in
memory."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from builders import GIB, NOW
from collector.sources_in_memory import FakeSource, Usage
from descheduler.cluster import a_node_object, a_pod_object, a_workload_object
from prometheus_client import CollectorRegistry

from equipoise.annotator.__main__ import start as start_annotator
from equipoise.annotator.settings import AnnotatorSettings, ReclaimedWriteSettings
from equipoise.binder.__main__ import start as start_binder
from equipoise.binder.settings import BinderSettings
from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.collector.service import Collector
from equipoise.collector.settings import CollectorSettings, ProfileSettings
from equipoise.collector.sources import PromqlSource
from equipoise.contracts.bus.subjects import SCORE_EXPLAIN, ServiceName, matches
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, OwnerReference
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.__main__ import start as start_descheduler
from equipoise.descheduler.decisions.strategies import AnyStrategy
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.reclaimer.__main__ import start as start_reclaimer
from equipoise.reclaimer.settings import ReclaimerSettings
from equipoise.runtime.bus import Receipt
from equipoise.runtime.bus.codec import Headers
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NAMESPACES, NODES, PODS, REPLICA_SETS, Kube
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime, Start
from equipoise.scorer.__main__ import start as start_scorer
from equipoise.scorer.decisions.scoring_settings import BandScoring
from equipoise.scorer.settings import ScorerSettings
from equipoise.testbed.memory.bus import MemoryBus
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

HOT, IDLE = "node-hot", ("node-b", "node-c")
APPS = ("web", "api", "cart")
INTERVAL = 60.0
"""Seconds between two evaluations of the descheduler."""


class LossyBus(MemoryBus):
    """Loses the first messages of a pattern. Their publisher receives an acknowledgement."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self._losing: dict[str, int] = {}
        self.lost = 0

    def lose(self, pattern: str, count: int) -> None:
        self._losing[pattern] = count

    def _store(self, subject: str, payload: bytes, headers: Headers) -> Receipt:
        for pattern, remaining in self._losing.items():
            if remaining and matches(pattern, subject):
                self._losing[pattern] = remaining - 1
                self.lost += 1
                return Receipt(sequence=1)
        return super()._store(subject, payload, headers)


def scores_of(explanation: Explanation) -> dict[str, int]:
    """Extender scores by node."""
    return {node.node: node.extender_score for node in explanation.nodes}


class Loop:
    """Two idle nodes and a hot one with three pods of each of three Deployments, 0.9 of 10 cores each."""

    def __init__(self, kube: type[MemoryKube] = MemoryKube) -> None:
        self.clock = ManualClock(NOW)
        self.kube = kube(self.clock)
        self.bus = LossyBus(self.clock)
        self.source = FakeSource(self.clock)
        self.promql: PromqlSource | None = None
        self.shared = Shared()
        self.collector = CollectorSettings(profile=ProfileSettings(enabled=False))
        self.health: dict[ServiceName, Health] = {}
        self.registries: dict[ServiceName, CollectorRegistry] = {}
        self.kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="shop")))
        self._populate()

    def _populate(self) -> None:
        for name in (HOT, *IDLE):
            self.kube.put(NODES, a_node_object(name, NOW))
        for app in APPS:
            self._put_workload(app, replicas=3)
            for number in range(3):
                self.place(app, f"{app}-1-{number}", HOT)

    def _put_workload(self, app: str, replicas: int) -> None:
        self.kube.put(DEPLOYMENTS, a_workload_object(app, replicas))
        metadata = ObjectMeta(
            name=f"{app}-1", namespace="shop", uid=f"uid-{app}-1", owner_references=[owned_by("Deployment", app)]
        )
        self.kube.put(REPLICA_SETS, a_workload_object(f"{app}-1", replicas, metadata=metadata))

    def place(self, app: str, name: str, node: str) -> None:
        """Add a running pod to a node."""
        pod = a_pod_object(name, node, self.clock.now(), app)
        metadata = msgspec.structs.replace(pod.metadata, owner_references=[owned_by("ReplicaSet", f"{app}-1")])
        self.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))

    def placements(self) -> Mapping[str, str]:
        return {pod.metadata.name: pod.spec.node_name for pod in self.kube.stored(PODS)}

    async def pass_time(self, seconds: float) -> None:
        """Advance the clock in steps of 10 s, in which the usage of the pods is measured and watches get bookmarks."""
        for _ in range(round(seconds / 10)):
            self._measure()
            await self.clock.advance(10)
            self.kube.bookmark()
        await self.bus.settled()

    async def until(self, condition: Callable[[], bool], *, limit: float) -> None:
        """Advance the clock until the condition is true, for at most `limit` seconds."""
        started = self.clock.monotonic()
        while not condition():
            assert self.clock.monotonic() - started < limit, f"not within {limit:g} s: {self.problems()}"
            await self.pass_time(10)

    def _measure(self) -> None:
        placements = self.placements()
        self.source.pods = {("shop", pod, node): Usage(cpu=0.9, memory=GIB) for pod, node in placements.items()}
        pods = Counter(placements.values())
        self.source.nodes = {
            node.metadata.name: Usage(
                cpu=0.1 + 0.9 * pods[node.metadata.name], memory=GIB * (1 + pods[node.metadata.name])
            )
            for node in self.kube.stored(NODES)
        }

    async def explanation(self, app: str) -> Explanation:
        """The scores for a new pod of an app."""
        workload = Workload(kind="Deployment", group="apps", namespace="shop", name=app)
        pod = PodDemand(
            namespace="shop", name="new", uid=f"new-{app}", workload=workload, requests=Resources(cpu=0.1, memory=GIB)
        )
        request = ExplainRequest(pod=pod, nodes=[HOT, *IDLE])
        return await self.bus.request(SCORE_EXPLAIN, request, Explanation, timeout=1.0)

    def intents(self) -> list[EvictionIntent]:
        return self.bus.published(EvictionIntent, "equipoise.eviction.intent.*.*")

    def outcomes(self) -> list[EvictionOutcome]:
        return self.bus.published(EvictionOutcome, "equipoise.eviction.outcome.*.*")

    def evicted(self) -> list[str]:
        """Pods that the API server evicted."""
        return [each.name for each in self.kube.evictions if each.status == 201 and not each.dry_run]

    def problems(self) -> dict[str, list[str]]:
        return {service: health.problems for service, health in self.health.items()}

    @asynccontextmanager
    async def running(
        self,
        *,
        evict: bool = True,
        colocation: bool = False,
        strategies: tuple[AnyStrategy, ...] | None = None,
    ) -> AsyncIterator[None]:
        """`colocation`: with the reclaimer, and with all that uses its messages."""
        await create_ledger(self.kube, "equipoise-system", self.clock)
        descheduler = DeschedulerSettings(
            interval=Duration(INTERVAL),
            consecutive_abnormalities=2,
            warm_up=Duration(INTERVAL),
            strategies=strategies,
        )
        starting = [
            self._collect(),
            self._start(
                "annotator", start_annotator, AnnotatorSettings(reclaimed=ReclaimedWriteSettings(enabled=colocation))
            ),
            self._start(
                "scorer", start_scorer, ScorerSettings(listen="127.0.0.1:0", reclaimed=BandScoring(enabled=colocation))
            ),
            self._start("descheduler", start_descheduler, descheduler),
            self._start("binder", start_binder, BinderSettings(evict=evict)),
        ]
        if colocation:
            starting.append(self._start("reclaimer", start_reclaimer, ReclaimerSettings(enabled=True)))
        tasks = [asyncio.create_task(coroutine) for coroutine in starting]
        try:
            async with self.bus:
                yield
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(result, asyncio.CancelledError) for result in ended), ended

    def _health_of(self, service: ServiceName) -> Health:
        self.registries[service] = CollectorRegistry()
        self.health[service] = Health(configuration_hash="", metrics=self.registries[service])
        return self.health[service]

    async def _start(self, service: ServiceName, start: Start[Any], settings: Any) -> None:
        kube: Kube | None = None if service == "scorer" else self.kube
        health = self._health_of(service)
        await start(
            Runtime(
                configuration=Configuration(shared=self.shared, own=settings, hash=""),
                message_bus=self.bus,
                clock=self.clock,
                health=health,
                metrics=self.registries[service],
                identity=f"{service}-1",
                api_server=kube,
            )
        )

    async def _collect(self) -> None:
        """Like `equipoise.collector.__main__`, with another source."""
        health = self._health_of("collector")
        collector = Collector(
            settings=self.collector,
            load=self.shared.load,
            namespace="equipoise-system",
            identity="collector-1",
            source=self.source,
            promql=self.promql,
            kube=self.kube,
            bus=self.bus,
            clock=self.clock,
            health=health,
            metrics=self.registries["collector"],
        )
        await collector.attach()
        await collector.run()


def owned_by(kind: str, name: str) -> OwnerReference:
    return OwnerReference(api_version="apps/v1", kind=kind, name=name, uid=f"uid-{name}", controller=True)


def settled(loop: Loop, outcome: Outcome) -> list[EvictionOutcome]:
    """All outcomes of this kind."""
    return [each for each in loop.outcomes() if each.outcome is outcome]


def annotations_of(loop: Loop) -> dict[str, Any]:
    """The decoded annotations, by `node/<name>` and `deployment/<name>`."""
    annotated = [*(("node", each) for each in loop.kube.stored(NODES))]
    annotated += [("deployment", each) for each in loop.kube.stored(DEPLOYMENTS)]  # type: ignore[misc]
    return {
        f"{kind}/{each.metadata.name}": {
            key: msgspec.json.decode(text) for key, text in each.metadata.annotations.items()
        }
        for kind, each in annotated
    }
