"""A run in which every service is killed once, and its result."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from deployment.installation import Installation
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

from equipoise.cli.demo import figures
from equipoise.cli.demo.configuration import window_limits
from equipoise.cli.demo.manifests import BURST_NAMESPACE, burst_document
from equipoise.contracts.bus.subjects import SERVICES, ServiceName
from equipoise.testbed.audit import LoggedEviction

BURST_PODS = 100
KILLED: tuple[ServiceName, ...] = ("binder", "scorer", "annotator", "collector", "descheduler")
LEVEL = 20.0
"""Points of spread at which the load counts as level."""

OUTCOME_DELAY = 10.0
"""Seconds after the expiry of an intent within which its outcome is published, even on a busy machine."""


Loads = Mapping[str, float]
"""Node to its CPU load in percent."""


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a run in which every service was killed once."""

    spread_before: float
    spread_after: float
    std_before: float
    std_after: float
    moved_share: float
    """Evictions divided by pods (0..1)."""

    same_node_returns: int
    """Evictions whose replacement was bound to the evicted node."""

    burst: Counter[str]
    """By node, its pods of a workload that was never measured and whose pods were created at once."""

    evictions: tuple[LoggedEviction, ...]
    """Executed evictions of the audit log."""

    evictions_at_kill: dict[str, int]
    """By service, the number of evictions when it was killed."""

    downtimes: dict[str, tuple[float, float]]
    """By service, when it was killed and when it was ready again (Unix seconds)."""

    limit_violations: int
    protected_evictions: int
    intents: frozenset[str]
    """Ids of intents that expired, excluding those that expired while the binder was down."""

    in_progress: int
    """Maximum number of intents that a binder processes at once."""

    outcomes: Counter[str]
    """By intent id, the number of outcomes in the stream."""

    problems: dict[str, list[str]]
    """By service, the problems in /readyz at the end."""


async def kill_each_service(installation: Installation) -> RunResult:
    """After the first eviction, kill and restart one service after the other; then wait until the load is level."""
    before = await installation.deployed.loads.of_all()
    await installation.until(lambda: installation.evictions() > 0, 120, "the first eviction")
    killed_at: dict[str, int] = {}
    downtimes: dict[str, tuple[float, float]] = {}

    async def started(service: str, since: float) -> None:
        await installation.machine.ready(service)
        downtimes[service] = (since, time.time())  # noqa: TID251

    async with asyncio.TaskGroup() as starting:
        for service in KILLED:
            if service != "descheduler":  # killed while the collector is down, so that two services are down at once
                await _wait_for_evictions(installation)
            killed_at[service] = installation.evictions()
            since = time.time()  # noqa: TID251  the clock of the intents
            await asyncio.to_thread(installation.machine.kill, service)
            await installation.machine.start(service)
            starting.create_task(started(service, since))
    after = await _wait_until_level(installation)
    await _burst(installation)
    return await _result(installation, before, after, killed_at, downtimes)


async def _wait_for_evictions(installation: Installation) -> None:
    """Until two more evictions, or for at most 20 s: services should be killed while evictions take place."""
    since = installation.evictions()
    await installation.wait(lambda: installation.evictions() >= since + 2, 20)


async def _wait_until_level(installation: Installation) -> dict[str, float]:
    """The loads when their spread is low enough, or after four minutes."""
    deadline = asyncio.get_running_loop().time() + 240
    while True:
        loads = await installation.deployed.loads.of_all()
        if figures.spread(loads) <= LEVEL or asyncio.get_running_loop().time() > deadline:
            return loads
        await asyncio.sleep(0.5)


async def _burst(installation: Installation) -> None:
    """Create a new workload and wait until all its pods are bound."""
    cluster = installation.deployed.cluster
    await cluster.apply([burst_document(installation.deployed.trace, BURST_PODS)])
    await cluster.wait(
        f"/api/v1/namespaces/{BURST_NAMESPACE}/pods?resourceVersion=0",
        lambda pods: sum("nodeName" in pod["spec"] for pod in pods["items"]) >= BURST_PODS,
        what="the pods of a new workload are bound",
    )


async def _result(
    installation: Installation,
    before: Loads,
    after: Loads,
    killed_at: dict[str, int],
    downtimes: dict[str, tuple[float, float]],
) -> RunResult:
    binder_down = downtimes["binder"]
    events = figures.read_audit_log(installation.deployed.cluster.audit_log)
    executed = [eviction for eviction in installation.deployed.cluster.evictions() if eviction.succeeded]
    configuration = installation.deployed.configuration
    limits = window_limits(configuration)
    intents = [
        line["message"] for line in installation.messages() if line["subject"].startswith("equipoise.eviction.intent.")
    ]
    ended = time.time() - OUTCOME_DELAY  # noqa: TID251  the clock of the intents
    return RunResult(
        spread_before=figures.spread(before),
        spread_after=figures.spread(after),
        std_before=figures.deviation(before),
        std_after=figures.deviation(after),
        moved_share=len(events.evictions) / len(installation.deployed.trace.pods),
        same_node_returns=events.same_node_returns(),
        burst=figures.by_node(events.burst(BURST_NAMESPACE, BURST_PODS)),
        evictions=tuple(executed[: len(events.evictions)]),
        evictions_at_kill=killed_at,
        downtimes=downtimes,
        limit_violations=figures.limit_violations(events, limits),
        protected_evictions=events.protected_evictions(),
        # The stream deletes expired intents. On a slow machine a restart takes longer than an intent's lifetime.
        intents=frozenset(
            intent["id"]
            for intent in intents
            if intent["expires_at"] < ended and not binder_down[0] <= intent["expires_at"] <= binder_down[1]
        ),
        in_progress=configuration["binder"]["concurrency"],
        outcomes=Counter([outcome["intent_id"] for outcome in await stored_outcomes(installation)]),
        problems={
            name: (await installation.machine.readiness(name)).get("problems", ["no response"]) for name in SERVICES
        },
    )


async def stored_outcomes(installation: Installation) -> list[dict[str, Any]]:
    """All outcomes of the stream, read with the permissions of the scorer."""
    client = await installation.machine.nats_client("scorer")
    try:
        stream, pattern = "EQUIPOISE_OUTCOME", "equipoise.eviction.outcome.*.*"
        config = ConsumerConfig(
            name="test", filter_subject=pattern, deliver_policy=DeliverPolicy.ALL, ack_policy=AckPolicy.NONE
        )
        context = client.jetstream()
        pending = (await context.add_consumer(stream, config)).num_pending or 0
        pull = await context.pull_subscribe_bind(consumer="test", stream=stream)
        outcomes: list[dict[str, Any]] = []
        while len(outcomes) < pending:
            outcomes += [json.loads(message.data) for message in await pull.fetch(100, timeout=60)]
        return outcomes
    finally:
        await client.close()
