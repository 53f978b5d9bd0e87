"""The faults: each breaks something while there is traffic, heals it, and sees that work goes on."""

import asyncio
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import PrioritizeQuestion, Ranking
from equipoise.runtime.bus import AlreadyQueued, BusError
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.testbed.api import ApiError
from equipoise.testbed.fault_proxy import around, delay, gone, hold, lose_response, refuse, respond, rewrite, status
from faults import fleet
from faults.history import Answered, History, Span
from faults.invariants import Least
from faults.rig import PATIENCE, Inconclusive, Program, Rig
from faults.stand_ins import epoch_of, take_lease

EVICTION = r"/eviction(\?|$)"
LEDGER = r"/configmaps/"
BINDER = "equipoise-binder"
WATCH = "watch=true"
ACK_WAIT = 3.0
"""Seconds after which an intent of a killed binder comes again; 60 by default, which nobody would wait for here."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """What is broken, how, and what must have happened for the run to say anything."""

    name: str
    what: str
    run: Callable[[Rig, "Extent"], Awaitable[None]]
    least: Least
    also: Callable[[History], list[str]] | None = None
    """What else must hold in this fault alone."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """How much of it: the short form is for every day."""

    times: int = 4
    """Kills, restarts, storms."""

    stopped: float = 30.0
    """Seconds for which the API server stands still."""

    silent: float = 100.0
    """Seconds of half-open watches: more than a reflector waits for."""

    some: int = 12
    """Evictions before and after."""


SHORT = Extent(times=1, stopped=5.0, silent=4.0, some=4)
LONG = Extent()


# Binders


async def killed_binders(rig: Rig, extent: Extent) -> None:
    """SIGKILL when the n-th request of one of two binders is on its way to the API server, or its answer on its way
    back; started again, while the other goes on."""
    await rig.renew_workers(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2)
    await rig.evictions(extent.some)
    for _ in range(extent.times):
        await _kill_at_a_request(rig, rig.chance.choice(binders))
    await rig.evictions(extent.some)


MOMENTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"method": "POST", "path": EVICTION},
    {"method": "PUT", "path": LEDGER},
)
"""Requests at which a binder is killed: any, and those that matter most."""


async def _kill_at_a_request(rig: Rig, binder: Program, *, moments: Any = MOMENTS, **own: Any) -> None:
    what = rig.chance.choice(moments)

    killed = asyncio.Event()

    def kill() -> None:
        binder.send(signal.SIGKILL)
        killed.set()

    trouble = around(before=kill) if rig.chance.random() < 0.5 else around(after=kill)
    after = rig.chance.randrange(12 if not what else 3)
    rig.proxy.rule(trouble, token=rig.tokens[binder.name], after=after, times=1, **what)
    await rig.until(killed.is_set, f"{binder.name} asked often enough to be killed")
    binder.kill()
    await binder.start(**own)


async def three_binders(rig: Rig, extent: Extent) -> None:
    """Three binders that are given the same intents at once: the queue forgets again and again who has what."""
    await rig.start("binder", 3, concurrency=6)
    rig.proposing.open_at_once = 12
    rig.proxy.rule(delay(0.15), method="POST", path=EVICTION, share=0.5)
    for _ in range(2 * extent.times):
        await rig.outcomes(5)
        await rig.renew_workers(ack_wait=1.0)
    await rig.evictions(extent.some)


async def redelivered(rig: Rig, extent: Extent) -> None:
    """Every intent that its stream may still hold is delivered once more, when it is settled already.

    The stream keeps an intent for its life. One that somebody says again after that is remembered by nobody, unless it
    was carried out: it is told to have expired.
    """
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.some)
        rig.proposing.open_at_once = 0
        await rig.all_settled()
        for number, said in enumerate(list(rig.recorder.intents.values())):
            if said.at < rig.since or said.intent.expires_at < rig.clock.now() + rig.proposing.life / 2:
                continue
            subject = subjects.eviction_intent(said.intent.namespace, said.intent.pod)
            with suppress(AlreadyQueued):
                await rig.bus.publish(subject, said.intent, message_id=f"{rig.clock.now()}.{number}")
        await rig.queue_empty()
        rig.proposing.open_at_once = 6


async def delayed(rig: Rig, extent: Extent) -> None:
    """Binders stand still until the intents they hold and those in the queue are over; POSTs are held up as long."""
    binders = await rig.start("binder", 2)
    rig.proposing.life = 3.0
    await rig.evictions(extent.some)
    for _ in range(extent.times):
        for binder in binders:
            binder.send(signal.SIGSTOP)
        await rig.until(lambda: len(rig.recorder.open()) >= 5, "intents wait")
        waiting = rig.recorder.open()
        over = max(rig.recorder.intents[intent].intent.expires_at for intent in waiting)
        await rig.until(lambda over=over: rig.clock.now() > over + 0.2, "they have expired")
        for binder in binders:
            binder.send(signal.SIGCONT)
        await rig.outcomes(5)
        rule = rig.proxy.rule(hold(), method="POST", path=EVICTION, share=0.5)
        await rig.until(lambda rule=rule: rule.taken >= 2, "POSTs are held up")
        over = rig.clock.now() + rig.proposing.life + 0.5
        await rig.until(lambda over=over: rig.clock.now() > over, "their intents have expired")
        rule.lift()
        await rig.outcomes(5)
    await rig.evictions(extent.some)


async def rehearsed(rig: Rig, extent: Extent) -> None:
    """Two binders in a dry run are killed, and every fifth request fails."""
    begin = rig.clock.now()
    await rig.renew_workers(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2, evict=False)
    _fail_some(rig, 0.2)
    for _ in range(extent.times):
        # A pod counts as moved by a dry run, so there are not many.
        await rig.ended(Outcome.DRY_RUN, 3)
        await _kill_at_a_request(rig, rig.chance.choice(binders), moments=MOMENTS[:1], evict=False)
    await rig.ended(Outcome.DRY_RUN, 3)
    rig.stop_programs()
    rig.recorder.rehearsing.append(Span(begin=begin, end=rig.clock.now()))
    # What was in hand is settled by a binder that is allowed to act.
    await rig.renew_workers()
    await rig.start("binder", 1)
    await rig.evictions(1)


async def paused(rig: Rig, extent: Extent) -> None:
    """`equipoise pause` and `resume` while every fifth request fails; then NATS dies as well."""
    await rig.start("binder", 2)
    for number in range(extent.times):
        await rig.evictions(extent.some)
        rule = _fail_some(rig, 0.2)
        await pause(rig.kube, fleet.OWN, "a fault is tried")
        begin = rig.clock.now()
        if number % 2:
            await rig.empty_nats()
        await rig.outcomes(5)
        await rig.until(lambda begin=begin: rig.clock.now() > begin + 6, "the pause has lasted for 6 s")
        await rig.outcomes(5)
        rig.recorder.paused.append(Span(begin=begin, end=rig.clock.now()))
        await resume(rig.kube, fleet.OWN, rig.clock)
        for each in rule:
            each.lift()
    await rig.evictions(extent.some)


# The API server


async def api_stopped(rig: Rig, extent: Extent) -> None:
    """SIGSTOP of the API server, SIGCONT later."""
    await rig.start("binder", 2)
    await rig.evictions(extent.some)
    rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
    over = rig.clock.now() + extent.stopped
    try:
        await rig.until(lambda: rig.clock.now() > over, "it stood still", seconds=extent.stopped + 10)
    finally:
        rig.cluster.kill("kube-apiserver", signal.SIGCONT)
    await rig.evictions(extent.some)


def _fail_some(rig: Rig, share: float) -> list[Any]:
    """That share of all binders' requests: a third not even sent on, a third answered with 503, a third carried out
    without an answer."""
    broken = respond(503, status(503, "ServiceUnavailable", "the server is currently unable to handle the request"))
    return [
        rig.proxy.rule(trouble, agent=BINDER, share=each)
        # Each rule sees what the ones before it let through.
        for trouble, each in ((refuse(), share / 3), (broken, share / 3), (lose_response(), share / 3))
    ]


async def errors(rig: Rig, extent: Extent) -> None:
    """A fifth of all requests fails, half of the answers to evictions is lost."""
    await rig.start("binder", 2)
    await rig.evictions(extent.some)
    rig.proxy.rule(lose_response(), method="POST", path=EVICTION, share=0.5)
    _fail_some(rig, 0.2)
    await rig.evictions(extent.times * extent.some)
    rig.proxy.clear()
    await rig.evictions(extent.some)


async def flow_control(rig: Rig, extent: Extent) -> None:
    """Storms of 429: of flow control, in plain text, on every other request; of disruption budgets on every other
    eviction."""
    await rig.start("binder", 2)
    await rig.evictions(extent.some)
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 6 healthy pods and has 6 currently"}
    no_budget = status(429, "TooManyRequests", "Cannot evict pod", details={"causes": [cause]})
    for _ in range(extent.times):
        rule = rig.proxy.rule(respond(429, no_budget), method="POST", path=EVICTION, share=0.5)
        await rig.outcomes(2 * extent.some)
        rule.lift()
        storm = rig.proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}), agent=BINDER, share=0.5)
        await rig.until(lambda storm=storm: storm.taken >= 4, "a storm")
        storm.lift()
        await rig.outcomes(extent.some)
    await rig.evictions(extent.some)


async def watches(rig: Rig, extent: Extent) -> None:
    """The descheduler's watches break, are told 410 Gone, and fall silent with their connections open."""
    await rig.forget_outcomes()
    await rig.start("binder", 2)
    await rig.start("descheduler", 1)
    async with _weather(rig):
        await rig.evictions(3)
        for _ in range(extent.times):
            rule = rig.proxy.rule(gone(), path=WATCH, times=4)
            rig.proxy.abort(WATCH)
            await rig.until(lambda rule=rule: rule.taken >= 4, "watches were told 410")
            # A watch of things that do not change proves itself by its next bookmark, a minute later.
            await rig.evictions(2, seconds=2 * PATIENCE)
        rig.proxy.half_open(WATCH)
        over = rig.clock.now() + extent.silent
        await rig.until(lambda: rig.clock.now() > over, "half open", seconds=extent.silent + 10)
        rig.proxy.clear()
        await rig.evictions(2, seconds=2 * PATIENCE)


async def recreated(rig: Rig, extent: Extent) -> None:
    """A StatefulSet's pods are deleted every other second and come back under the same names, while they are proposed
    and POSTs are slow."""
    await rig.start("binder", 2)
    await rig.evictions(extent.some)
    rig.proposing.only = (fleet.STATEFUL,)
    rig.proposing.open_at_once = 4
    rig.proxy.rule(delay(0.3), method="POST", path=EVICTION, share=0.7)
    path = f"/api/v1/namespaces/{fleet.NAMESPACE}/pods"
    for _ in range(2 * extent.times):
        await rig.outcomes(2)
        for number in range(fleet.REPLICAS):
            with suppress(ApiError):
                await rig.api.request("DELETE", f"{path}/{fleet.STATEFUL}-{number}?gracePeriodSeconds=0")
        until = rig.clock.now() + 2.0
        await rig.until(lambda until=until: rig.clock.now() > until, "two seconds")
    rig.proxy.clear()
    rig.proposing.only = ()
    await rig.evictions(extent.some)


async def budgets(rig: Rig, extent: Extent) -> None:
    """Most intents are for pods of a budget that allows nothing, or of two budgets; the others must get through."""
    await rig.start("binder", 2)
    rig.proposing.mix = {"blocked": 0.6, "stale": 0.15}
    await rig.outcomes(4 * extent.some)
    await rig.evictions(extent.some)


async def no_new_pods(rig: Rig, extent: Extent) -> None:
    """A webhook that nobody answers refuses every new pod: nothing that is evicted comes back."""
    await rig.start("binder", 2)
    await rig.evictions(extent.some)
    await rig.whole()
    await rig.api.apply([_webhook()])
    since = rig.clock.now()
    try:
        await rig.until(lambda: rig.clock.now() > since + 2 * fleet.LATE_AFTER + 4, "time for the interlock")
        await rig.outcomes(5)
        rig.recorder.without_new_pods.append(Span(begin=since, end=rig.clock.now()))
    finally:
        path = await rig.api.path(_webhook())
        await rig.api.request("DELETE", path)
    await rig.whole()
    await rig.evictions(extent.some)


def interlocked(history: History) -> list[str]:
    """Once replacements are late nothing is evicted any more."""
    return [
        f"{post.pod}: evicted {post.at - span.begin:.1f} s after new pods were refused"
        for span in history.without_new_pods
        for post in history.new_evictions
        if span.begin + fleet.LATE_AFTER + 4 <= post.at <= span.end
    ]


def _webhook() -> dict[str, Any]:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refuses-new-pods"},
        "webhooks": [
            {
                "name": "pods.refused.example",
                "failurePolicy": "Fail",
                "sideEffects": "None",
                "timeoutSeconds": 1,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:9/"},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
            }
        ],
    }


# The bus


async def nats_emptied(rig: Rig, extent: Extent) -> None:
    """nats-server is killed with intents under way and starts again with nothing in it."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.some)
        await rig.empty_nats()
    await rig.evictions(extent.some)


# Deschedulers


async def stopped_descheduler(rig: Rig, extent: Extent) -> None:
    """The leading descheduler stands still until another leads, and wakes up; intents in its name come late."""
    await rig.forget_outcomes()
    await rig.start("binder", 2)
    deschedulers = await rig.start("descheduler", 2)
    async with _weather(rig):
        for _ in range(extent.times):
            await rig.evictions(2)
            leader = await _leader(rig, deschedulers)
            before = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, fleet.OWN))
            leader.send(signal.SIGSTOP)

            async def another_leads(before: Any = before) -> bool:
                now = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, fleet.OWN))
                return now.transitions > before.transitions and now.holder not in ("", before.holder)

            await rig.until(another_leads, "the other descheduler leads")
            await rig.evictions(1)
            rig.proposing.epoch_held = False
            rig.proposing.epoch = before
            rig.proposing.mix = {}
            await rig.proposing.propose(4)
            leader.send(signal.SIGCONT)
            await rig.proposing.propose(4)
            rig.proposing.epoch = None
            await rig.all_settled()
        await rig.evictions(2)


async def _leader(rig: Rig, deschedulers: list[Program]) -> Program:
    found: list[Program] = []

    async def known() -> bool:
        reports = [await program.readiness() for program in deschedulers]
        found[:] = [
            program for program, report in zip(deschedulers, reports, strict=True) if report and report["leading"]
        ]
        return len(found) == 1

    await rig.until(known, "one descheduler leads")
    return found[0]


@asynccontextmanager
async def _weather(rig: Rig) -> AsyncIterator[None]:
    """Only real deschedulers propose, and there is always something to do: heat moves to where the pods are."""
    rig.proposing.epoch = None

    async def change() -> None:
        while True:
            pods: dict[str, int] = dict.fromkeys(fleet.NODES, 0)
            for pod in rig.measuring.pods:
                pods[pod.spec.node_name] += 1
            rig.measuring.hot = frozenset(sorted(pods, key=lambda node: -pods[node])[:3])
            await asyncio.sleep(4.0)

    task = asyncio.create_task(change())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        rig.measuring.hot = frozenset()


# Metrics: here the collector is real, and Prometheus behind a proxy


async def _measured_for_real(rig: Rig, extent: Extent, break_metrics: Callable[[], Any]) -> None:
    rig.proposing.epoch = None
    rig.measuring.speaking = False
    await rig.forget_outcomes()
    await _pack(rig)
    await asyncio.gather(
        rig.start("collector"), rig.start("scorer"), rig.start("binder", 1), rig.start("descheduler", 1)
    )
    asking = asyncio.create_task(_ask_scorer(rig))
    try:
        await rig.evictions(2)
        break_metrics()
        begin = rig.clock.now() + fleet.FRESHNESS + 3.0
        # Somebody who does not look proposes as well.
        lease = await rig.kube.get(LEASES, DESCHEDULER_LEASE, fleet.OWN)
        rig.proposing.epoch = epoch_of(lease)
        await rig.until(lambda: rig.clock.now() > begin, "blindness begins")
        await rig.outcomes(5)
        await rig.until(lambda: rig.clock.now() > begin + fleet.SCORE_LAG + 3.0, "seconds of blindness")
        if not any(found.at > begin + fleet.SCORE_LAG for found in rig.recorder.answers):
            raise Inconclusive("the scorer gave no answer")
        rig.recorder.blind.append(Span(begin=begin, end=rig.clock.now()))
        rig.prometheus.clear()
        await rig.evictions(1)
    finally:
        asking.cancel()
        rig.stop_programs()
        rig.measuring.renew()
        rig.measuring.speaking = True
        rig.proposing.epoch = await take_lease(rig.kube, fleet.OWN, rig.clock, "faults")
        # What waits, and what was in hand, is for a binder that hears the harness again.
        await rig.renew_workers()
        await rig.start("binder", 1)


async def _pack(rig: Rig) -> None:
    """All pods that use a lot go to two nodes."""
    others = fleet.NODES[2:]
    nodes = "/api/v1/nodes"
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", True)
    path = f"/api/v1/namespaces/{fleet.NAMESPACE}/pods"
    for name in fleet.HEAVY:
        await rig.api.request("DELETE", f"{path}?labelSelector=app%3D{name}")
    await asyncio.sleep(0.5)
    await rig.whole()
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", False)


async def _cordon(rig: Rig, path: str, cordoned: bool) -> None:
    await rig.api.request(
        "PATCH", path, {"spec": {"unschedulable": cordoned}}, content_type="application/merge-patch+json"
    )


async def _ask_scorer(rig: Rig) -> None:
    pod = PodDemand(namespace=fleet.NAMESPACE, name="new", uid="new", requests=Resources(cpu=0.1, memory=2.0**28))
    question = PrioritizeQuestion(pod=pod, nodes=list(fleet.NODES))
    while True:
        with suppress(BusError):
            asked_at = rig.clock.now()
            ranking = await rig.bus.request(subjects.SCORE_PRIORITIZE, question, Ranking, timeout=1.0)
            neutral = ranking.neutral or len(set(ranking.scores.values())) == 1
            rig.recorder.answers.append(Answered(at=asked_at, neutral=neutral))
        await asyncio.sleep(0.5)


USAGE = r"query=(rate|avg_over_time)(\(|%28)"
"""Questions for usage itself."""

UNKNOWN = frozenset(fleet.NODES[4:])


async def few_measured(rig: Rig, extent: Extent) -> None:
    """Six of ten nodes vanish from every answer of Prometheus."""

    def without(document: Any) -> Any:
        result = document["data"]["result"]
        if document["data"]["resultType"] in ("vector", "matrix"):
            result = [series for series in result if series["metric"].get("node") not in UNKNOWN]
        return document | {"data": document["data"] | {"result": result}}

    await _measured_for_real(rig, extent, lambda: rig.prometheus.rule(rewrite(body=without), path="/query"))


async def not_numbers(rig: Rig, extent: Extent) -> None:
    """The usage of six of ten nodes is NaN; when and how often it was sampled is as it should be."""

    def nan(document: Any) -> Any:
        for series in document["data"]["result"] if document["data"]["resultType"] == "vector" else ():
            if series["metric"].get("node") in UNKNOWN:
                series["value"][1] = "NaN"
        return document

    await _measured_for_real(rig, extent, lambda: rig.prometheus.rule(rewrite(body=nan), path=USAGE))


async def frozen(rig: Rig, extent: Extent) -> None:
    """Prometheus answers every question as it stood at one moment."""

    def freeze() -> None:
        moment = rig.clock.now()

        def then(query: dict[str, str]) -> dict[str, str]:
            return query if query.get("query") == "time()" else query | {"time": f"{moment:.3f}"}

        rig.prometheus.rule(rewrite(query=then), path="/query")

    await _measured_for_real(rig, extent, freeze)


def _fault(run: Callable[[Rig, Extent], Awaitable[None]], intents: int, evictions: int, **more: Any) -> Fault:
    return Fault(
        name=run.__name__,
        what=" ".join((run.__doc__ or "").split()),
        run=run,
        least=Least(intents=intents, evictions=evictions),
        **more,
    )


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        _fault(killed_binders, 20, 10),
        _fault(three_binders, 20, 10),
        _fault(redelivered, 10, 6),
        _fault(delayed, 20, 10),
        _fault(rehearsed, 20, 1),
        _fault(paused, 20, 10),
        _fault(api_stopped, 12, 8),
        _fault(errors, 20, 10),
        _fault(flow_control, 20, 8),
        _fault(watches, 6, 6),
        _fault(recreated, 20, 10),
        _fault(budgets, 20, 5),
        _fault(no_new_pods, 20, 8, also=interlocked),
        _fault(nats_emptied, 20, 10),
        _fault(stopped_descheduler, 10, 5),
        _fault(few_measured, 5, 3),
        _fault(not_numbers, 5, 3),
        _fault(frozen, 5, 3),
    )
}
