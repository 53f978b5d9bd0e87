"""A cluster as the live views show it, and the page of it on a real port.

Also a program, in tests/: `python -m cli.live_pages NODES PORT` serves the page, `… measure NODES` measures it.
"""

import asyncio
import json
import math
import random
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
from builders import GIB, a_placed_pod, a_workload, an_intent
from cli.browsers import chromium

from equipoise.binder.decisions.status import LimitUsage
from equipoise.cli.views.explanations import Explanations
from equipoise.cli.views.feed import plan_row
from equipoise.cli.views.page.dashboard import LIMITS, LOCAL, serving
from equipoise.cli.views.page.page_server import application
from equipoise.cli.views.page.viewers import Viewers
from equipoise.cli.views.rows import Connection, LimitsRow, SavingsRow
from equipoise.cli.views.state import LiveState
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.descheduling import DescheduleDecision, NodeClassification, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.example import LEASE_EPOCH
from equipoise.contracts.messages.health import Heartbeat
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import LoadExtremes, PlannedMove, PlanResponse
from equipoise.contracts.messages.score import EXPLANATION, ExplainRequest, Explanation
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WindowUsage
from equipoise.contracts.messages.values.move import MoveCost
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import Endpoint
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.bus import MemoryBus

HOT, CORES, MEMORY = 0.72, 16.0, 64 * GIB
HOURS = 2
COST = MoveCost(memory=1.5 * GIB, age=3 * 86_400.0, start=12.0)
UPDATES = 12


class ShownCluster:
    """Nodes with uneven load that becomes more level over the hours before now, moves, a plan, limits."""

    def __init__(self, nodes: int, now: float, seed: int = 1) -> None:
        self._random = random.Random(seed)
        self.state = LiveState(LoadSettings())
        self.names = [f"node-{number:0{len(str(nodes - 1))}d}.example.com" for number in range(nodes)]
        self._base = [min(0.97, max(0.06, self._random.gauss(0.52, 0.2))) for _ in self.names]
        self._sequence = 0
        for number, name in enumerate(self.names):
            self.state.apply(self._placement(name, number, now), now)
        for minute in range(-60 * HOURS, 1):
            self.measure(now + 60 * minute, level=0.45 - 0.55 * minute / (60 * HOURS), ending=minute == 0)
        self._moves(now)
        self._rest(now)
        self.state.tick(now)
        self.state.take_changes()

    def measure(self, now: float, level: float = 0.45, share: float = 1.0, ending: bool = True) -> None:
        """`level`: 1 keeps the spread, 0 removes it. `share`: of the nodes whose load changes."""
        self._sequence += 1
        for number, name in enumerate(self.names):
            if (number % 23 == 7 and number < 300) or self._random.random() > share:
                continue  # some are never measured
            wave = 0.03 * math.sin(now / 900 + number)
            cpu = 0.5 + (self._base[number] - 0.5) * level + wave + self._random.gauss(0, 0.006)
            memory = 0.45 + 0.6 * (self._base[-number] - 0.5) * level
            self.state.apply(self._utilization(name, max(0.01, cpu), memory, now), now)
        self.state.apply(
            UtilizationCycle(
                shard="all", cycle=self._sequence, expected=len(self.names), fresh=len(self.names) - 2, queried_at=now,
                missing={self.names[7]: "no sample within 180 s"} if len(self.names) > 7 else {},
            ),
            now,
        )  # fmt: skip
        self._beat(now)
        self.state.tick(now)

    def _beat(self, now: float) -> None:
        for service in ("annotator", "binder", "collector", "descheduler", "scorer"):
            leads = True if service in ("collector", "descheduler") else None
            evictions = "real" if service == "binder" else ""
            problems = ["1 of 40 nodes is not measured"] if service == "collector" else []
            beat = Heartbeat(
                service=service, id=f"{service}-7f9c4-x1", version="0.1.0", ready=True, leading=leads,
                evictions=evictions, problems=problems, at=now,
            )  # fmt: skip
            self.state.apply(beat, now)

    def _utilization(self, node: str, cpu: float, memory: float, now: float) -> NodeUtilization:
        usage = Resources(cpu=cpu * CORES, memory=memory * MEMORY)
        return NodeUtilization(
            node=node, uid=node, base=Resources(cpu=CORES, memory=MEMORY), sampled_at=now - 4, queried_at=now,
            windows={"5m": WindowUsage(sampled_at=now - 4, mean=usage)},
            pods={f"{node}-{pod}": Resources(cpu=cpu * CORES / 10, memory=GIB) for pod in range(8)},
            epoch=1, sequence=self._sequence,
        )  # fmt: skip

    def _placement(self, node: str, number: int, now: float) -> NodePlacement:
        pods = [
            a_placed_pod(
                f"{service}-6c8d9f-{number:03d}{pod}", uid=f"{node}-{pod}", workload=a_workload(service),
                requests=Resources(cpu=1.2, memory=3 * GIB),
            )
            for pod, service in enumerate(("web", "api", "cart", "search", "worker", "cache", "feed", "mail"))
        ]  # fmt: skip
        size = Resources(cpu=CORES, memory=MEMORY)
        return NodePlacement(
            node=node, uid=node, ready=True, cordoned=number == 3, allocatable=size, capacity=size, pods=pods,
            epoch=1, sequence=1,
        )  # fmt: skip

    def _moves(self, now: float) -> None:
        results = [
            ("web-6c8d9f-0110", Outcome.EVICTED, "", ""),
            ("api-6c8d9f-0041", Outcome.REJECTED_LIMIT, "5 of 5 evictions of namespace shop in 1h", "perNamespace"),
            ("search-6c8d9f-0173", Outcome.EVICTED, "", ""),
            ("cart-6c8d9f-0222", Outcome.BLOCKED_PDB, "PodDisruptionBudget cart allows no disruption", ""),
            ("worker-6c8d9f-0094", Outcome.DRY_RUN, "", ""),
            ("feed-6c8d9f-0316", Outcome.EVICTED, "", ""),
            ("mail-6c8d9f-0057", None, "", ""),
        ]
        for age, (pod, outcome, detail, limit) in zip(range(3_000, 0, -430), results, strict=True):
            at, node, target = now - age, self.names[age % len(self.names)], self.names[(age + 5) % len(self.names)]
            intent = an_intent(
                pod, node, id=f"intent-{pod}", target=target, decided_at=at, expires_at=now + 100,
                reason="node is hot: cpu 81.2% is above 65%", gain=0.062, cost=COST,
            )  # fmt: skip
            self.state.apply(intent, at)
            if outcome is not None:
                result = converted(
                    intent, EvictionOutcome, intent_id=intent.id, outcome=outcome, detail=detail, limit=limit,
                    settled_at=at + 1,
                )  # fmt: skip
                self.state.apply(result, at)
            if outcome is Outcome.EVICTED:
                placed = ReplacementPlaced(
                    intent_id=intent.id, namespace="shop", pod=pod, node=node, target=target, replacement=f"{pod}-new",
                    placed_on=target,
                )  # fmt: skip
                self.state.apply(self._decision(at, [placed]), at)

    def _decision(self, now: float, replacements: list[ReplacementPlaced]) -> DescheduleDecision:
        nodes = [
            NodeClassification(
                node=row.node,
                state=state_of(row.cpu),
                load=Resources(cpu=row.cpu, memory=row.memory),
                sampled_at=now,
                why="" if row.cpu is not None else "no sample within 180 s",
            )
            for row in self.state.rows
        ]
        return DescheduleDecision(
            strategy="low_node_load", evaluated_at=now, nodes=nodes, intents=[], replacements=replacements
        )

    def _rest(self, now: float) -> None:
        self.state.apply(self._decision(now - 20, []), now)
        hot = [row.node for row in self.state.rows if row.state == "hot"][:6] or self.names[:3]
        moves = [
            PlannedMove(
                strategy="low_node_load", namespace="shop", pod=f"web-6c8d9f-9{number}", workload=a_workload(),
                node=node, target=self.names[(number * 7 + 4) % len(self.names)], sampled_at=now,
                expected_reduction=Resources(cpu=1.0),
                reason="node is hot: cpu 76.1% is above 65%", gain=0.062, cost=COST, without_gap=number % 2 == 0,
            )
            for number, node in enumerate(hot)
        ]  # fmt: skip
        extremes = LoadExtremes(highest=Resources(cpu=0.76), spread=Resources(cpu=0.5))
        plan = PlanResponse(leader=LEASE_EPOCH, planned_at=now - 9, moves=moves, before=extremes, after=extremes)
        row = plan_row(plan)
        self.state.show(msgspec.structs.replace(row, considered=len(self.names), waiting=2, wait=240.0))
        usage = [
            LimitUsage(limit="perNamespace", scope="shop", counted=5, max="5", window="1h"),
            LimitUsage(limit="perCluster", scope="the cluster", counted=12, max="50", window="1h"),
            LimitUsage(limit="perNode", scope="node-04.example.com", counted=1, max="3", window="15m"),
            LimitUsage(limit="perWorkload", scope="Deployment/shop/web", counted=2, max="20 %", allowed=4, window="1h"),
        ]
        self.state.show(LimitsRow(evictions="allowed", last_day=31, dry_runs_last_day=4, usage=usage))
        savings = SavingsRow(
            planned_at=now, considered=len(self.names), emptiable=3, pods=61, currency="EUR", cost=3504.0,
            without_price=2, saved=262.8, hottest_before=0.52, hottest_after=0.575,
        )  # fmt: skip
        self.state.show(savings)
        self.state.show(Connection(cluster="cluster: production https://10.0.0.1:6443 (context prod)", server="nats"))


def state_of(cpu: float | None) -> Any:
    return "unknown" if cpu is None else "hot" if cpu > HOT else "idle" if cpu < 0.35 else "between"


@asynccontextmanager
async def shown_page(cluster: ShownCluster, **settings: Any) -> AsyncIterator[tuple[str, Viewers]]:
    """The address of the page, and its viewers."""
    bus = MemoryBus(SystemClock())

    async def explain(request: ExplainRequest) -> Explanation:
        return EXPLANATION

    stop = await bus.serve(
        "scorer",
        [Endpoint(subject="equipoise.score.explain", request_type=ExplainRequest, handler=explain)],
    )
    viewers = Viewers("run", lambda: msgspec.json.encode(cluster.state.everything()))
    explanations = Explanations(cluster.state, Nats(url="nats://127.0.0.1:1"), lambda: bus)
    port = settings.pop("port", 0)
    limits = settings.pop("limits", LIMITS)
    app = application(cluster.state, viewers, explanations, hosts=LOCAL, ready=lambda: True, **settings)
    async with serving(app, "127.0.0.1", port, limits) as address:
        yield f"http://{address}/", viewers
        viewers.close_all()
    await stop()


def publish(cluster: ShownCluster, viewers: Viewers) -> None:
    changes = cluster.state.take_changes()
    if changes is not None:
        viewers.publish(msgspec.json.encode(changes))


async def main(nodes: int, port: int) -> None:
    clock = SystemClock()
    cluster = ShownCluster(nodes, clock.now())
    async with shown_page(cluster, port=port) as (url, viewers):
        print(url, flush=True)
        while True:
            await clock.sleep(2)
            cluster.measure(clock.now(), share=0.3)
            publish(cluster, viewers)


async def measure(nodes: int) -> None:
    """Print the times of the page in a real browser: milliseconds of its main thread, as one JSON object."""
    clock = SystemClock()
    cluster = ShownCluster(nodes, clock.now())
    with tempfile.TemporaryDirectory() as profile:
        async with shown_page(cluster) as (url, viewers), chromium(Path(profile)) as browser:
            await browser.size(1360, 900)
            await browser.open("about:blank")  # the browser itself has started
            await browser.open(url)
            await browser.until("window.equipoise && window.equipoise.firstPaint > 0")
            first = await browser.run("return window.equipoise.firstPaint")
            times, changed = [], 0
            for _ in range(UPDATES):
                before = await browser.run("return window.equipoise.updates")
                cluster.measure(clock.now(), level=0.3 + 0.4 * (len(times) % 2))
                changes = cluster.state.take_changes()
                assert changes is not None
                changed = len(changes.nodes)
                viewers.publish(msgspec.json.encode(changes))
                await browser.until(f"window.equipoise.updates > {before}")
                times.append(await browser.run("return window.equipoise.lastUpdate"))
    found = {
        "first_paint": first,
        "update_median": statistics.median(times),
        "update_worst": max(times),
        "updates": len(times),
        "changed": changed,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    if sys.argv[1] == "measure":
        asyncio.run(measure(int(sys.argv[2])))
    else:
        asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
