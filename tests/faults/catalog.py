"""The faults. Each one breaks something under traffic, repairs it, and waits until evictions continue."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
from aiohttp import web

from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import AlreadyQueued, BusError
from equipoise.runtime.kubernetes.client import LEASES
from equipoise.runtime.kubernetes.leader_election import DESCHEDULER_LEASE
from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.fakes import epoch_of, take_lease
from faults.fault_proxy import (
    ProxiedRequest,
    abort_connection,
    around,
    delay,
    gone,
    hold,
    lose_response,
    respond,
    rewrite,
    status,
)
from faults.history import History, ScoreResponse, Span
from faults.invariants import MinimumTraffic
from faults.rig import TIMEOUT, Inconclusive, Program, Rig

EVICTION = r"/eviction(\?|$)"
LEDGER = r"/configmaps/"
BINDER = "equipoise-binder"
WATCH = "watch=true"
ACK_WAIT = 3.0
"""Seconds after which an intent of a killed binder is delivered again; by default 60, too long for a test."""


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault, and the minimum traffic of a conclusive run."""

    name: str
    what: str
    run: Callable[[Rig, "Extent"], Awaitable[None]]
    minimum: MinimumTraffic
    also: Callable[[History], list[str]] | None = None
    """An additional check for this fault."""


class Extent(msgspec.Struct, frozen=True, kw_only=True):
    """The size of a run; `make test` uses the short one."""

    times: int = 4
    """Kills, restarts, storms."""

    stopped: float = 30.0
    """Seconds for which the API server is suspended."""

    half_open: float = 100.0
    """Seconds of half-open watches: more than a reflector waits for."""

    evictions: int = 12
    """Evictions before and after."""


SHORT = Extent(times=1, stopped=5.0, half_open=4.0, evictions=4)
LONG = Extent()


# Binders


async def killed_binders(rig: Rig, extent: Extent) -> None:
    """SIGKILL of one of two binders when its n-th request is sent or its response is returned; it is started again."""
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        await _kill_at_a_request(rig, rig.generator.choice(binders))
    await rig.evictions(extent.evictions)


KILL_POINTS: tuple[Mapping[str, Any], ...] = (
    {},
    {"method": "POST", "path": EVICTION},
    {"method": "PUT", "path": LEDGER},
)
"""Requests at which a binder is killed: any, and the most important ones."""


async def _kill_at_a_request(rig: Rig, binder: Program, *, points: Any = KILL_POINTS, **own: Any) -> None:
    what = rig.generator.choice(points)

    killed = asyncio.Event()

    def kill() -> None:
        binder.send(signal.SIGKILL)
        killed.set()

    fault = around(before=kill) if rig.generator.random() < 0.5 else around(after=kill)
    after = rig.generator.randrange(12 if not what else 3)
    rig.proxy.rule(fault, token=rig.tokens[binder.name], after=after, times=1, **what)
    await rig.until(killed.is_set, f"{binder.name} sent enough requests to be killed")
    binder.kill()
    await binder.start(**own)


async def three_binders(rig: Rig, extent: Extent) -> None:
    """Three binders receive the same intents: the consumer of the queue is created again and again."""
    await rig.start("binder", 3, concurrency=6)
    rig.descheduler.max_pending = 12
    rig.proxy.rule(delay(0.15), method="POST", path=EVICTION, share=0.5)
    for _ in range(2 * extent.times):
        await rig.outcomes(5)
        await rig.recreate_consumer(ack_wait=1.0)
    await rig.evictions(extent.evictions)


async def redelivered(rig: Rig, extent: Extent) -> None:
    """Every intent that may still be in the stream is delivered once more after its outcome.

    The stream keeps an intent for its lifetime. One that is published again later gets the outcome expired, unless it
    was executed: only the ledger records that.
    """
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        rig.descheduler.max_pending = 0
        await rig.all_settled()
        for number, published in enumerate(list(rig.recorder.intents.values())):
            if published.at < rig.since or published.intent.expires_at < rig.clock.now() + rig.descheduler.lifetime / 2:
                continue
            subject = subjects.eviction_intent(published.intent.namespace, published.intent.pod)
            with suppress(AlreadyQueued):
                await rig.bus.publish(subject, published.intent, message_id=f"{rig.clock.now()}.{number}")
        await rig.queue_empty()
        rig.descheduler.max_pending = 6
    await rig.evictions(extent.evictions)


async def delayed(rig: Rig, extent: Extent) -> None:
    """Binders are suspended until their intents and those in the queue have expired; POSTs are delayed as long."""
    binders = await rig.start("binder", 2)
    rig.descheduler.lifetime = 3.0
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        for binder in binders:
            binder.send(signal.SIGSTOP)
        await rig.until(lambda: len(rig.recorder.pending()) >= 5, "intents are pending")
        waiting = rig.recorder.pending()
        over = max(rig.recorder.intents[intent].intent.expires_at for intent in waiting)
        await rig.until(lambda over=over: rig.clock.now() > over + 0.2, "they expire")
        for binder in binders:
            binder.send(signal.SIGCONT)
        await rig.outcomes(5)
        rule = rig.proxy.rule(hold, method="POST", path=EVICTION, share=0.5)
        await rig.until(lambda rule=rule: rule.taken >= 2, "POSTs are delayed")
        over = rig.clock.now() + rig.descheduler.lifetime + 0.5
        await rig.until(lambda over=over: rig.clock.now() > over, "their intents expire")
        rule.lift()
        await rig.outcomes(5)
    await rig.evictions(extent.evictions)


async def dry_run(rig: Rig, extent: Extent) -> None:
    """Two binders with dry runs are killed, and every fifth request fails."""
    begin = rig.clock.now()
    await rig.recreate_consumer(ack_wait=ACK_WAIT)
    binders = await rig.start("binder", 2, evict=False)
    _fail_some(rig, 0.2)
    for _ in range(extent.times):
        # A dry run reserves its pod, so there are not many.
        await rig.outcomes_of(Outcome.DRY_RUN, 3)
        await _kill_at_a_request(rig, rig.generator.choice(binders), points=KILL_POINTS[:1], evict=False)
    await rig.outcomes_of(Outcome.DRY_RUN, 3)
    rig.stop_programs()
    rig.recorder.dry_runs.append(Span(begin=begin, end=rig.clock.now()))
    # Pending intents are settled by a binder that may evict.
    await rig.recreate_consumer()
    await rig.start("binder", 1)
    await rig.evictions(1)


async def paused(rig: Rig, extent: Extent) -> None:
    """`equipoise pause` and `resume` while every fifth request fails; then NATS is killed as well."""
    await rig.start("binder", 2)
    for number in range(extent.times):
        await rig.evictions(extent.evictions)
        rule = _fail_some(rig, 0.2)
        await pause(rig.kube, cluster_setup.OWN, "a fault is injected")
        begin = rig.clock.now()
        if number % 2:
            await rig.restart_nats_empty()
        await rig.outcomes(5)
        await rig.until(lambda begin=begin: rig.clock.now() > begin + 6, "the pause lasts for 6 s")
        await rig.outcomes(5)
        rig.recorder.paused.append(Span(begin=begin, end=rig.clock.now()))
        await resume(rig.kube, cluster_setup.OWN, rig.clock)
        for each in rule:
            each.lift()
    await rig.evictions(extent.evictions)


async def slow_ledger(rig: Rig, extent: Extent) -> None:
    """The response to a write of the ledger that reserves an eviction is 8 s late; meanwhile evictions are paused."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        reserved = asyncio.Event()

        async def respond_late(proxied: ProxiedRequest, reserved: asyncio.Event = reserved) -> web.StreamResponse:
            code, headers, body = await proxied.proxy.fetch(proxied.request, proxied.body)
            ledger = json.loads(json.loads(proxied.body)["data"]["ledger"])
            if code == 200 and any("outcome" not in entry for entry in ledger["entries"]):
                reserved.set()
                await asyncio.sleep(8.0)
            return web.Response(status=code, headers=headers, body=body)

        rule = rig.proxy.rule(respond_late, method="PUT", path=LEDGER, agent=BINDER)
        await rig.until(reserved.is_set, "an eviction is reserved")
        await pause(rig.kube, cluster_setup.OWN, "a fault is injected")
        begin = rig.clock.now()
        rule.lift()
        await rig.until(lambda begin=begin: rig.clock.now() > begin + 10, "the responses arrive")
        rig.recorder.paused.append(Span(begin=begin, end=rig.clock.now()))
        await resume(rig.kube, cluster_setup.OWN, rig.clock)
    await rig.evictions(extent.evictions)


# The API server


async def api_stopped(rig: Rig, extent: Extent) -> None:
    """SIGSTOP of the API server, SIGCONT later."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
    over = rig.clock.now() + extent.stopped
    try:
        await rig.until(lambda: rig.clock.now() > over, "the suspension", seconds=extent.stopped + 10)
    finally:
        rig.cluster.kill("kube-apiserver", signal.SIGCONT)
    await rig.evictions(extent.evictions)


def _fail_some(rig: Rig, share: float) -> list[Any]:
    """That share of all binders' requests: a third is not forwarded, a third gets 503, a third loses its response."""
    broken = respond(503, status(503, "ServiceUnavailable", "the server is currently unable to handle the request"))
    return [
        rig.proxy.rule(fault, agent=BINDER, share=each)
        # Each rule gets the requests that the previous ones did not match.
        for fault, each in ((abort_connection, share / 3), (broken, share / 3), (lose_response, share / 3))
    ]


async def errors(rig: Rig, extent: Extent) -> None:
    """A fifth of all requests fails; half of the responses to evictions are lost."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.proxy.rule(lose_response, method="POST", path=EVICTION, share=0.5)
    _fail_some(rig, 0.2)
    await rig.evictions(extent.times * extent.evictions)
    rig.proxy.clear()
    await rig.evictions(extent.evictions)


async def flow_control(rig: Rig, extent: Extent) -> None:
    """429 for every other request (flow control, in plain text) and for every other eviction (disruption budgets)."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    cause = {"reason": "DisruptionBudget", "message": "The disruption budget needs 6 healthy pods and has 6 currently"}
    no_budget = status(429, "TooManyRequests", "Cannot evict pod", details={"causes": [cause]})
    for _ in range(extent.times):
        rule = rig.proxy.rule(respond(429, no_budget), method="POST", path=EVICTION, share=0.5)
        await rig.outcomes(2 * extent.evictions)
        rule.lift()
        storm = rig.proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}), agent=BINDER, share=0.5)
        await rig.until(lambda storm=storm: storm.taken >= 4, "throttled requests")
        storm.lift()
        await rig.outcomes(extent.evictions)
    await rig.evictions(extent.evictions)


async def watches(rig: Rig, extent: Extent) -> None:
    """The descheduler's watches break, get 410 Gone, and become half-open."""
    await rig.purge_outcomes()
    await rig.start("binder", 2)
    await rig.start("descheduler", 1)
    async with _changing_load(rig):
        await rig.evictions(3)
        for _ in range(extent.times):
            rule = rig.proxy.rule(gone(), path=WATCH, times=4)
            rig.proxy.abort(WATCH)
            await rig.until(lambda rule=rule: rule.taken >= 4, "watches got 410")
            # A watch of objects that do not change is known to work at its next bookmark, a minute later.
            await rig.evictions(2, seconds=2 * TIMEOUT)
        rig.proxy.half_open(WATCH)
        over = rig.clock.now() + extent.half_open
        await rig.until(lambda: rig.clock.now() > over, "half open", seconds=extent.half_open + 10)
        rig.proxy.clear()
        await rig.evictions(2, seconds=2 * TIMEOUT)


async def recreated(rig: Rig, extent: Extent) -> None:
    """A StatefulSet's pods are deleted every two seconds and created under the same names; POSTs for them are slow."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.descheduler.only = (cluster_setup.STATEFUL,)
    rig.descheduler.max_pending = 4
    rig.proxy.rule(delay(0.3), method="POST", path=EVICTION, share=0.7)
    path = f"/api/v1/namespaces/{cluster_setup.NAMESPACE}/pods"
    for _ in range(2 * extent.times):
        await rig.outcomes(2)
        for number in range(cluster_setup.REPLICAS):
            with suppress(ApiError):
                await rig.api.request("DELETE", f"{path}/{cluster_setup.STATEFUL}-{number}?gracePeriodSeconds=0")
        until = rig.clock.now() + 2.0
        await rig.until(lambda until=until: rig.clock.now() > until, "two seconds")
    rig.proxy.clear()
    rig.descheduler.only = ()
    await rig.evictions(extent.evictions)


async def budgets(rig: Rig, extent: Extent) -> None:
    """Most intents are for pods with a budget that allows nothing, or with two; the others must be executed."""
    await rig.start("binder", 2)
    rig.descheduler.mix = {"blocked": 0.6, "stale": 0.15}
    await rig.outcomes(4 * extent.evictions)
    await rig.evictions(extent.evictions)


async def no_new_pods(rig: Rig, extent: Extent) -> None:
    """A webhook without a server refuses every new pod: no evicted pod is replaced."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    await rig.all_replicas_ready()
    await rig.api.apply([_webhook()])
    since = rig.clock.now()
    try:
        await rig.until(lambda: rig.clock.now() > since + 2 * cluster_setup.LATE_AFTER + 4, "time for lateReplacements")
        await rig.outcomes(5)
        rig.recorder.new_pods_refused.append(Span(begin=since, end=rig.clock.now()))
    finally:
        path = await rig.api.path(_webhook())
        await rig.api.request("DELETE", path)
    await rig.all_replicas_ready()
    await rig.evictions(extent.evictions)


def stopped_by_late_replacements(history: History) -> list[str]:
    """Nothing is evicted once replacements are late."""
    return [
        f"{post.pod}: evicted {post.at - span.begin:.1f} s after new pods were refused"
        for span in history.new_pods_refused
        for post in history.new_evictions
        if span.begin + cluster_setup.LATE_AFTER + 4 <= post.at <= span.end
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
    """nats-server is killed with pending intents and starts again with empty streams."""
    await rig.start("binder", 2)
    for _ in range(extent.times):
        await rig.evictions(extent.evictions)
        await rig.restart_nats_empty()
    await rig.evictions(extent.evictions)


# Deschedulers


async def stopped_descheduler(rig: Rig, extent: Extent) -> None:
    """The leading descheduler is suspended until another leads, and resumes; intents in its name arrive late."""
    await rig.purge_outcomes()
    await rig.start("binder", 2)
    deschedulers = await rig.start("descheduler", 2)
    async with _changing_load(rig):
        for _ in range(extent.times):
            await rig.evictions(2)
            leader = await _leader(rig, deschedulers)
            before = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN))
            leader.send(signal.SIGSTOP)

            async def another_leads(before: Any = before) -> bool:
                now = epoch_of(await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN))
                return now.transitions > before.transitions and now.holder not in ("", before.holder)

            await rig.until(another_leads, "the other descheduler leads")
            await rig.evictions(1)
            rig.descheduler.epoch_held = False
            rig.descheduler.epoch = before
            rig.descheduler.mix = {}
            await rig.descheduler.propose(4)
            leader.send(signal.SIGCONT)
            await rig.descheduler.propose(4)
            rig.descheduler.epoch = None
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
async def _changing_load(rig: Rig) -> AsyncIterator[None]:
    """Only real deschedulers propose, and always have a reason: the nodes with most pods become hot."""
    rig.descheduler.epoch = None

    async def change() -> None:
        while True:
            pods: dict[str, int] = dict.fromkeys(cluster_setup.NODES, 0)
            for pod in rig.collector.pods:
                pods[pod.spec.node_name] += 1
            rig.collector.hot = frozenset(sorted(pods, key=lambda node: -pods[node])[:3])
            await asyncio.sleep(4.0)

    task = asyncio.create_task(change())
    try:
        yield
        if task.done():
            task.result()
    finally:
        task.cancel()
        rig.collector.hot = frozenset()


# Metrics, with the real collector and Prometheus behind a proxy


async def _with_real_metrics(rig: Rig, extent: Extent, break_metrics: Callable[[], Any]) -> None:
    rig.descheduler.epoch = None
    rig.collector.publishing = False
    await rig.purge_outcomes()
    await _pack(rig)
    await asyncio.gather(
        rig.start("collector"), rig.start("scorer"), rig.start("binder", 1), rig.start("descheduler", 1)
    )
    requesting = asyncio.create_task(_request_scores(rig))
    try:
        await rig.evictions(2)
        break_metrics()
        begin = rig.clock.now() + cluster_setup.FRESHNESS + 3.0
        # The fake descheduler proposes too; it does not check coverage.
        lease = await rig.kube.get(LEASES, DESCHEDULER_LEASE, cluster_setup.OWN)
        rig.descheduler.epoch = epoch_of(lease)
        await rig.until(lambda: rig.clock.now() > begin, "coverage is lost")
        await rig.outcomes(5)
        await rig.until(lambda: rig.clock.now() > begin + cluster_setup.SCORE_LAG + 3.0, "seconds without coverage")
        if not any(found.at > begin + cluster_setup.SCORE_LAG for found in rig.recorder.scores):
            raise Inconclusive("the scorer did not respond")
        rig.recorder.uncovered.append(Span(begin=begin, end=rig.clock.now()))
        rig.prometheus.clear()
        await rig.evictions(1)
    finally:
        requesting.cancel()
        rig.stop_programs()
        rig.collector.take_over()
        rig.collector.publishing = True
        rig.descheduler.epoch = await take_lease(rig.kube, cluster_setup.OWN, "faults")
        # Pending intents are settled by a binder that receives the fake collector's messages.
        await rig.recreate_consumer()
        await rig.start("binder", 1)


async def _pack(rig: Rig) -> None:
    """All pods with a high usage are placed on two nodes."""
    others = cluster_setup.NODES[2:]
    nodes = "/api/v1/nodes"
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", True)
    path = f"/api/v1/namespaces/{cluster_setup.NAMESPACE}/pods"
    for name in cluster_setup.HEAVY:
        await rig.api.request("DELETE", f"{path}?labelSelector=app%3D{name}")
    await asyncio.sleep(0.5)
    await rig.all_replicas_ready()
    for node in others:
        await _cordon(rig, f"{nodes}/{node}", False)


async def _cordon(rig: Rig, path: str, cordoned: bool) -> None:
    await rig.api.request(
        "PATCH", path, {"spec": {"unschedulable": cordoned}}, content_type="application/merge-patch+json"
    )


async def _request_scores(rig: Rig) -> None:
    pod = PodDemand(
        namespace=cluster_setup.NAMESPACE, name="new", uid="new", requests=Resources(cpu=0.1, memory=2.0**28)
    )
    request = ExplainRequest(pod=pod, nodes=list(cluster_setup.NODES))
    while True:
        with suppress(BusError):
            requested_at = rig.clock.now()
            explanation = await rig.bus.request(subjects.SCORE_EXPLAIN, request, Explanation, timeout=1.0)
            neutral = explanation.neutral or len({node.extender_score for node in explanation.nodes}) == 1
            rig.recorder.scores.append(ScoreResponse(at=requested_at, neutral=neutral))
        await asyncio.sleep(0.5)


USAGE = r"query=(rate|avg_over_time)(\(|%28)"
"""Queries of usage itself."""

UNKNOWN = frozenset(cluster_setup.NODES[4:])


async def few_measured(rig: Rig, extent: Extent) -> None:
    """Six of ten nodes are missing in every response of Prometheus."""

    def without(document: Any) -> Any:
        result = document["data"]["result"]
        if document["data"]["resultType"] in ("vector", "matrix"):
            result = [series for series in result if series["metric"].get("node") not in UNKNOWN]
        return document | {"data": document["data"] | {"result": result}}

    await _with_real_metrics(rig, extent, lambda: rig.prometheus.rule(rewrite(body=without), path="/query"))


async def not_numbers(rig: Rig, extent: Extent) -> None:
    """The usage of six of ten nodes is NaN; the times and numbers of its samples are valid."""

    def nan(document: Any) -> Any:
        for series in document["data"]["result"] if document["data"]["resultType"] == "vector" else ():
            if series["metric"].get("node") in UNKNOWN:
                series["value"][1] = "NaN"
        return document

    await _with_real_metrics(rig, extent, lambda: rig.prometheus.rule(rewrite(body=nan), path=USAGE))


async def frozen(rig: Rig, extent: Extent) -> None:
    """Prometheus evaluates every query as of one fixed time."""

    def freeze() -> None:
        at = rig.clock.now()

        def then(query: dict[str, str]) -> dict[str, str]:
            return query if query.get("query") == "time()" else query | {"time": f"{at:.3f}"}

        rig.prometheus.rule(rewrite(query=then), path="/query")

    await _with_real_metrics(rig, extent, freeze)


def _fault(run: Callable[[Rig, Extent], Awaitable[None]], intents: int, evictions: int, **more: Any) -> Fault:
    return Fault(
        name=run.__name__,
        what=" ".join((run.__doc__ or "").split()),
        run=run,
        minimum=MinimumTraffic(intents=intents, evictions=evictions),
        **more,
    )


FAULTS: Mapping[str, Fault] = {
    fault.name: fault
    for fault in (
        _fault(killed_binders, 20, 10),
        _fault(three_binders, 20, 10),
        _fault(redelivered, 10, 6),
        _fault(delayed, 20, 10),
        _fault(dry_run, 20, 1),
        _fault(paused, 20, 10),
        _fault(slow_ledger, 15, 8),
        _fault(api_stopped, 12, 8),
        _fault(errors, 20, 10),
        _fault(flow_control, 20, 8),
        _fault(watches, 6, 6),
        _fault(recreated, 20, 10),
        _fault(budgets, 20, 5),
        _fault(no_new_pods, 20, 8, also=stopped_by_late_replacements),
        _fault(nats_emptied, 20, 10),
        _fault(stopped_descheduler, 10, 5),
        _fault(few_measured, 5, 3),
        _fault(not_numbers, 5, 3),
        _fault(frozen, 5, 3),
    )
}
