"""What a soak breaks: each action breaks something for some seconds, and repairs it.

Two actions may overlap when they break different things. One that delays requests does not overlap with one during
which nothing may be evicted: a request that was sent before it and arrives late cannot be recalled.
"""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager

import msgspec

from equipoise.contracts.bus.subjects import ServiceName
from faults import cluster_setup
from faults.catalog.api_server import delete_stateful, fail_some
from faults.catalog.binders import evictions_paused, kill_at_a_request
from faults.catalog.metrics import freeze, not_a_number, without_some
from faults.fakes import take_lease
from faults.fault_proxy import (
    BINDER,
    EVICTION,
    LEDGER,
    WATCH,
    Rule,
    delay,
    delay_response,
    gone,
    lose_response,
    no_budget,
    respond,
)
from faults.history import Span
from faults.rig import Rig

SERVICES: dict[ServiceName, int] = {"binder": 2, "descheduler": 2, "collector": 1, "scorer": 1}
"""Processes of each service during a soak."""

KILLED = ("binder-0", "descheduler-0", "collector-0", "scorer-0")
"""The second binder and the second descheduler are only suspended, so that a leak can be seen."""

DESCHEDULERS = ("descheduler-0", "descheduler-1")
EVERY_PROGRAM = (*KILLED, "binder-1", "descheduler-1")

Run = Callable[[Rig], Awaitable[None]]


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of fault."""

    name: str
    run: Run
    breaks: frozenset[str]
    delays: bool = False
    """Requests that are sent may arrive seconds later, or a killed binder needs evictions."""

    forbids: bool = False
    """Nothing may be evicted during some seconds."""

    def may_overlap(self, other: "Action") -> bool:
        return (
            not self.breaks & other.breaks
            and not (self.delays and other.forbids)
            and not (self.forbids and other.delays)
            and not (self.forbids and other.forbids)
        )


async def _for(rig: Rig, least: float, most: float) -> None:
    await asyncio.sleep(rig.generator.uniform(least, most))


async def _lift_later(rig: Rig, rules: Iterable[Rule], least: float, most: float) -> None:
    await _for(rig, least, most)
    for rule in rules:
        rule.lift()


def killed(name: str) -> Run:
    """SIGKILL; started again after up to six seconds."""

    async def action(rig: Rig) -> None:
        rig.programs[name].kill()
        await _for(rig, 0.0, 6.0)
        await rig.programs[name].start()

    return action


def terminated(name: str) -> Run:
    """SIGTERM, and started again when it has ended."""

    async def action(rig: Rig) -> None:
        program = rig.programs[name]
        await program.terminate()
        await program.start()

    return action


def suspended(name: str) -> Run:
    """SIGSTOP, and SIGCONT up to twelve seconds later."""

    async def action(rig: Rig) -> None:
        with _stopped(rig, name):
            await _for(rig, 1.0, 12.0)

    return action


@contextmanager
def _stopped(rig: Rig, *names: str) -> Iterator[None]:
    for name in names:
        rig.programs[name].send(signal.SIGSTOP)
    try:
        yield
    finally:
        for name in names:
            rig.programs[name].send(signal.SIGCONT)


async def killed_at_a_request(rig: Rig) -> None:
    """A binder gets SIGKILL while its n-th request, or the response, is in transit."""
    await kill_at_a_request(rig, rig.programs["binder-0"])


async def failing_requests(rig: Rig) -> None:
    """A fifth of the requests of all binders fails."""
    await _lift_later(rig, fail_some(rig, 0.2), 5.0, 15.0)


async def lost_responses(rig: Rig) -> None:
    """Half of the responses to evictions are lost."""
    await _lift_later(rig, [rig.proxy.rule(lose_response, method="POST", path=EVICTION, share=0.5)], 5.0, 15.0)


async def slow_evictions(rig: Rig) -> None:
    """Most eviction requests take 0.7 s longer."""
    await _lift_later(rig, [rig.proxy.rule(delay(0.7), method="POST", path=EVICTION, share=0.7)], 5.0, 15.0)


async def slow_ledger(rig: Rig) -> None:
    """The responses to writes of the ledger are four seconds late."""
    rule = rig.proxy.rule(delay_response(4.0), method="PUT", path=LEDGER, agent=BINDER, share=0.7)
    await _lift_later(rig, [rule], 6.0, 15.0)


async def throttled(rig: Rig) -> None:
    """429 as from flow control for a third of all requests, and as from a PodDisruptionBudget for half of evictions."""
    rules = [
        rig.proxy.rule(no_budget(), method="POST", path=EVICTION, share=0.5),
        rig.proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}), agent=BINDER, share=0.3),
    ]
    await _lift_later(rig, rules, 5.0, 15.0)


async def broken_watches(rig: Rig) -> None:
    """All watches are aborted and get 410 Gone."""
    rule = rig.proxy.rule(gone(), path=WATCH, times=4)
    rig.proxy.abort(WATCH)
    await _lift_later(rig, [rule], 2.0, 8.0)


async def paused(rig: Rig) -> None:
    """`equipoise pause`, and `resume` later."""
    async with evictions_paused(rig):
        await _for(rig, 7.0, 15.0)


async def nats_restarted(rig: Rig) -> None:
    """SIGKILL of nats-server; started again with its storage."""
    async with _without_intents(rig):
        rig.cluster.kill("nats-server")
        await _for(rig, 0.0, 6.0)
        await asyncio.to_thread(rig.cluster.restart, "nats-server")
        await rig.connected()
    await rig.count_kept()


async def nats_emptied(rig: Rig) -> None:
    """SIGKILL of nats-server; started again with empty storage."""
    async with _without_intents(rig):
        await rig.restart_nats_empty()


@asynccontextmanager
async def _without_intents(rig: Rig) -> AsyncIterator[None]:
    """The harness must receive every intent, so nothing proposes while it may not be connected."""
    most = rig.descheduler.max_pending
    rig.descheduler.max_pending = 0
    try:
        with _stopped(rig, *DESCHEDULERS):
            yield
    finally:
        rig.descheduler.max_pending = most


async def delivered_again(rig: Rig) -> None:
    """The consumer of the queue is created again: intents that are being processed are delivered again."""
    await rig.recreate_consumer(ack_wait=3.0)


async def api_server_suspended(rig: Rig) -> None:
    """SIGSTOP of kube-apiserver, SIGCONT up to eight seconds later."""
    rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
    try:
        await _for(rig, 2.0, 8.0)
    finally:
        rig.cluster.kill("kube-apiserver", signal.SIGCONT)


async def scheduler_killed(rig: Rig) -> None:
    """SIGKILL of kube-scheduler: evicted pods are not replaced for some seconds."""
    rig.cluster.kill("kube-scheduler")
    await _for(rig, 1.0, 6.0)
    await asyncio.to_thread(rig.cluster.restart, "kube-scheduler")


async def lease_taken(rig: Rig) -> None:
    """Another client takes the Lease of the deschedulers, and does not renew it."""
    await take_lease(rig.kube, cluster_setup.OWN, "faults")


def without_metrics(break_metrics: Callable[[Rig], object]) -> Run:
    """Too few nodes are measured, until nothing may be evicted any more and for some seconds."""

    async def action(rig: Rig) -> None:
        break_metrics(rig)
        begin = rig.clock.now() + cluster_setup.FRESHNESS + 3.0
        await rig.until_time(begin)
        await _for(rig, 5.0, 12.0)
        rig.recorder.uncovered.append(Span(begin=begin, end=rig.clock.now()))
        rig.prometheus.clear()

    return action


def _unavailable(rig: Rig) -> object:
    return rig.prometheus.rule(respond(503, "unavailable"), path="/query")


def _action(name: str, run: Run, *breaks: str, delays: bool = False, forbids: bool = False) -> Action:
    return Action(name=name, run=run, breaks=frozenset(breaks), delays=delays, forbids=forbids)


METRICS = ("metrics", "collector-0")

ACTIONS = (
    *(_action(f"{name} killed", killed(name), name) for name in KILLED),
    *(_action(f"{name} terminated", terminated(name), name) for name in KILLED),
    *(_action(f"{name} suspended", suspended(name), name, delays="binder" in name) for name in EVERY_PROGRAM),
    _action("binder-0 killed at a request", killed_at_a_request, "binder-0", delays=True),
    _action("failing requests", failing_requests, "requests"),
    _action("lost responses to evictions", lost_responses, "evictions"),
    _action("slow evictions", slow_evictions, "evictions", delays=True),
    _action("slow writes of the ledger", slow_ledger, "ledger"),
    _action("429", throttled, "evictions", "requests"),
    _action("broken watches", broken_watches, "watches"),
    _action("pause and resume", paused, "api", forbids=True),
    _action("NATS restarted", nats_restarted, "nats", *DESCHEDULERS),
    _action("NATS emptied", nats_emptied, "nats", *DESCHEDULERS),
    _action("intents delivered again", delivered_again, "nats"),
    _action("API server suspended", api_server_suspended, "api", *EVERY_PROGRAM, delays=True),
    _action("kube-scheduler killed", scheduler_killed, "scheduler", "api"),
    _action("Lease taken", lease_taken, "api", *DESCHEDULERS),
    _action("pods recreated", delete_stateful, "api"),
    _action("six nodes not measured", without_metrics(without_some), *METRICS, forbids=True),
    _action("usage of six nodes is NaN", without_metrics(not_a_number), *METRICS, forbids=True),
    _action("frozen metrics", without_metrics(freeze), *METRICS, forbids=True),
    _action("Prometheus unavailable", without_metrics(_unavailable), *METRICS, forbids=True),
)
