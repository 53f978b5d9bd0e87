"""The loop with every service killed once, and what is found out about it afterwards."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
import nats
from deployment.processes import NATS_PORT
from deployment.worlds import Run
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from equipoise.cli.demo import figures
from equipoise.cli.demo.configuration import window_limits
from equipoise.cli.demo.manifests import BURST_NAMESPACE, burst_document
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.testbed.audit import LoggedEviction

BURST_PODS = 100
KILLED: tuple[ServiceName, ...] = ("binder", "scorer", "annotator", "collector", "descheduler")
LEVEL = 20.0
"""Points of percent between the hottest and the idlest node."""

LONG_AGO = 10.0
"""Seconds after an intent's life by which its outcome is told, however busy the machine is."""


Loads = Mapping[str, float]
"""Node to its CPU load in percent."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a run in which every service was killed once."""

    spread_before: float
    spread_after: float
    std_before: float
    std_after: float
    moved_share: float
    """Evictions over pods (0..1)."""

    same_node_returns: int
    """Evictions whose replacement was bound to the node that the pod had left."""

    burst: Counter[str]
    """Node to the number of its pods, of a workload that was never measured and whose pods were created at once."""

    evictions: tuple[LoggedEviction, ...]
    """Carried out, as the audit log has them."""

    evictions_at_kill: dict[str, int]
    """So many had been carried out when a service was killed."""

    limit_violations: int
    protected_evictions: int
    intents: frozenset[str]
    """Ids that the tap heard, of intents that ended long ago and that a binder could take in their life."""

    under_way: int
    """So many intents one binder has in hand at once, at most."""

    outcomes: Counter[str]
    """How often the stream of outcomes holds one for an intent's id."""

    problems: dict[str, list[str]]
    """Of /readyz, of every service, at the end."""


async def killed_in_turn(run: Run) -> Judged:
    """From the first eviction on, kill and start again one service after the other; then wait until it is level."""
    before = await run.world.loads.of_all()
    await run.until(lambda: run.evictions() > 0, 120, "the first eviction")
    killed_at: dict[str, int] = {}
    away: dict[str, tuple[float, float]] = {}

    async def started(service: str, since: float) -> None:
        await run.machine.ready(service)
        away[service] = (since, time.time())  # noqa: TID251

    async with asyncio.TaskGroup() as starting:
        for service in KILLED:
            if service != "descheduler":  # it is killed while the collector is away: two long absences at once
                await _until_more(run)
            killed_at[service] = run.evictions()
            since = time.time()  # noqa: TID251  the clock of the intents
            await asyncio.to_thread(run.machine.kill, service)
            await run.machine.start(service)
            starting.create_task(started(service, since))
    after = await _level(run)
    await _burst(run)
    return await _judge(run, before, after, killed_at, away["binder"])


async def _until_more(run: Run) -> None:
    """Kill in the middle of the work: after two more evictions, or some seconds without one."""
    since = run.evictions()
    await run.wait(lambda: run.evictions() >= since + 2, 20)


async def _level(run: Run) -> dict[str, float]:
    """The loads once their spread is low, or after four minutes."""
    deadline = asyncio.get_running_loop().time() + 240
    while True:
        loads = await run.world.loads.of_all()
        if figures.spread(loads) <= LEVEL or asyncio.get_running_loop().time() > deadline:
            return loads
        await asyncio.sleep(0.5)


async def _burst(run: Run) -> None:
    """All pods of a new workload are bound."""
    cluster = run.world.cluster
    await cluster.apply([burst_document(run.world.trace, BURST_PODS)])
    await cluster.wait(
        f"/api/v1/namespaces/{BURST_NAMESPACE}/pods?resourceVersion=0",
        lambda pods: sum("nodeName" in pod["spec"] for pod in pods["items"]) >= BURST_PODS,
        what="the pods of a new workload are bound",
    )


async def _judge(run: Run, before: Loads, after: Loads, killed_at: dict[str, int], away: tuple[float, float]) -> Judged:
    events = figures.read_audit_log(run.world.cluster.audit_log)
    carried_out = [eviction for eviction in run.world.cluster.evictions() if eviction.succeeded]
    configuration = run.world.configuration
    limits = window_limits(configuration)
    intents = [line["message"] for line in run.said() if line["subject"].startswith("equipoise.eviction.intent.")]
    ended = time.time() - LONG_AGO  # noqa: TID251  the clock of the intents
    return Judged(
        spread_before=figures.spread(before),
        spread_after=figures.spread(after),
        std_before=figures.deviation(before),
        std_after=figures.deviation(after),
        moved_share=len(events.evictions) / len(run.world.trace.pods),
        same_node_returns=events.same_node_returns(),
        burst=figures.by_node(events.burst(BURST_NAMESPACE, BURST_PODS)),
        evictions=tuple(carried_out[: len(events.evictions)]),
        evictions_at_kill=killed_at,
        limit_violations=figures.limit_violations(events, limits),
        protected_evictions=events.protected_evictions(),
        # The stream drops what expires there: on a slow machine a binder is away for longer than an intent lives.
        intents=frozenset(
            intent["id"]
            for intent in intents
            if intent["expires_at"] < ended and not away[0] <= intent["expires_at"] <= away[1]
        ),
        under_way=configuration["binder"]["concurrency"],
        outcomes=Counter([outcome["intent_id"] for outcome in await kept_outcomes(run)]),
        problems={name: (await run.machine.readiness(name)).get("problems", ["no answer"]) for name in SERVICES},
    )


async def kept_outcomes(run: Run) -> list[dict[str, Any]]:
    """The whole stream of outcomes, read with the rights of the scorer."""
    client = await nats.connect(
        run.machine.url(NATS_PORT, "nats"),
        user="scorer",
        password=run.world.passwords["scorer"],
        inbox_prefix=b"_INBOX.scorer",
    )
    try:
        stream, pattern = "EQUIPOISE_OUTCOME", "equipoise.eviction.outcome.*.*"
        config = ConsumerConfig(
            name="judge", filter_subject=pattern, deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE
        )
        context = client.jetstream()
        waiting = (await context.add_consumer(stream, config)).num_pending or 0
        pull = await context.pull_subscribe_bind(consumer="judge", stream=stream)
        found: list[dict[str, Any]] = []
        while len(found) < waiting:
            found += [json.loads(message.data) for message in await pull.fetch(100, timeout=60)]
        return found
    finally:
        await client.close()
