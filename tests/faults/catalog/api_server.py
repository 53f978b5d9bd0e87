"""The API server is suspended, refuses requests, or changes what binders and deschedulers read."""

import asyncio
import signal
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import aiohttp

from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.background import background
from faults.catalog.deschedulers import descheduling
from faults.catalog.fault import Extent, fault
from faults.cluster_setup import PODS
from faults.fault_proxy import (
    BINDER,
    EVICTION,
    WATCH,
    CountResponses,
    DropEvents,
    abort_connection,
    delay,
    forward_to,
    gone,
    lose_response,
    no_budget,
    respond,
    status,
)
from faults.history import HARNESS, History, Span
from faults.rig import TIMEOUT, Rig
from faults.slow_link import SlowLink


async def api_stopped(rig: Rig, extent: Extent) -> None:
    """SIGSTOP of the API server, SIGCONT later."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.cluster.kill("kube-apiserver", signal.SIGSTOP)
    try:
        await asyncio.sleep(extent.stopped)
    finally:
        rig.cluster.kill("kube-apiserver", signal.SIGCONT)
    await rig.evictions(extent.evictions)


def fail_some(rig: Rig, share: float) -> list[Any]:
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
    fail_some(rig, 0.2)
    await rig.evictions(extent.times * extent.evictions)
    rig.proxy.clear()
    await rig.evictions(extent.evictions)


async def flow_control(rig: Rig, extent: Extent) -> None:
    """429 for every other request (flow control, in plain text) and for every other eviction (disruption budgets)."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        rule = rig.proxy.rule(no_budget(), method="POST", path=EVICTION, share=0.5)
        await rig.outcomes(2 * extent.evictions)
        rule.lift()
        storm = rig.proxy.rule(respond(429, "Too many requests", {"Retry-After": "1"}), agent=BINDER, share=0.5)
        await rig.until(lambda storm=storm: storm.taken >= 4, "throttled requests")
        storm.lift()
        await rig.outcomes(extent.evictions)
    await rig.evictions(extent.evictions)


async def expire_watches(rig: Rig) -> None:
    """All watches are aborted, and four get 410 Gone."""
    rule = rig.proxy.rule(gone(), path=WATCH, times=4)
    rig.proxy.abort(WATCH)
    await rig.until(lambda: rule.taken >= 4, "watches got 410")


async def watches(rig: Rig, extent: Extent) -> None:
    """The descheduler's watches break, get 410 Gone, and become half-open."""
    async with descheduling(rig):
        await rig.evictions(3)
        for _ in range(extent.times):
            await expire_watches(rig)
            # A watch of objects that do not change is known to work at its next bookmark, a minute later.
            await rig.evictions(2, seconds=2 * TIMEOUT)
        rig.proxy.half_open(WATCH)
        await asyncio.sleep(extent.half_open)
        rig.proxy.clear()
        await rig.evictions(2, seconds=2 * TIMEOUT)


async def delete_stateful(rig: Rig) -> None:
    """All pods of the StatefulSet, which its controller creates again under the same names."""
    for number in range(cluster_setup.REPLICAS):
        with suppress(ApiError):
            await rig.api.request("DELETE", f"{PODS}/{cluster_setup.STATEFUL}-{number}?gracePeriodSeconds=0")


async def recreated(rig: Rig, extent: Extent) -> None:
    """A StatefulSet's pods are deleted every two seconds and created under the same names; POSTs for them are slow."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    rig.descheduler.only = (cluster_setup.STATEFUL,)
    rig.descheduler.max_pending = 4
    rig.proxy.rule(delay(0.3), method="POST", path=EVICTION, share=0.7)
    for _ in range(2 * extent.times):
        await rig.outcomes(2)
        await delete_stateful(rig)
        await asyncio.sleep(2.0)
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
    async with refusing_webhook(rig):
        since = rig.clock.now()
        await asyncio.sleep(2 * cluster_setup.LATE_AFTER + 4)
        await rig.outcomes(5)
        rig.recorder.new_pods_refused.append(Span(begin=since, end=rig.clock.now()))
    await rig.all_replicas_ready()
    await rig.evictions(extent.evictions)


@asynccontextmanager
async def refusing_webhook(rig: Rig) -> AsyncIterator[None]:
    """Refuses every new pod, as it has no server."""
    await rig.api.apply([_webhook()])
    try:
        yield
    finally:
        await rig.api.request("DELETE", await rig.api.path(_webhook()))


def stopped_by_late_replacements(history: History) -> list[str]:
    """Nothing is evicted once replacements are late."""
    return [
        f"{post.pod}: evicted {post.at - span.begin:.1f} s after new pods were refused"
        for span in history.new_pods_refused
        for post in history.new_evictions
        if span.begin + cluster_setup.LATE_AFTER + 4 <= post.at <= span.end
    ]


def _webhook(resource: str = "pods", *, port: int = 9, policy: str = "Fail", seconds: int = 1) -> dict[str, Any]:
    """For each creation of this resource; nothing listens on port 9."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource]}
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": f"fault-{resource.replace('/', '-')}"},
        "webhooks": [
            {
                "name": "pods.refused.example",
                "failurePolicy": policy,
                "sideEffects": "None",
                "timeoutSeconds": seconds,
                "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": f"https://127.0.0.1:{port}/"},
                "rules": [rule],
            }
        ],
    }


async def hanging_webhook(rig: Rig, extent: Extent) -> None:
    """A webhook for evictions does not respond: after its timeout they fail, or are executed (failurePolicy Ignore)."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        called.set()
        await reader.read()
        writer.close()

    called = asyncio.Event()
    async with await asyncio.start_server(hang, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        path = await rig.api.path(_webhook("pods/eviction"))
        try:
            for _ in range(extent.times):
                called.clear()
                await rig.api.apply([_webhook("pods/eviction", port=port, seconds=2)])
                await rig.until(called.is_set, "the webhook is called")
                await rig.outcomes(3)
                await rig.api.apply([_webhook("pods/eviction", port=port, seconds=2, policy="Ignore")])
                await rig.evictions(2)
        finally:
            await rig.api.request("DELETE", path)
        await rig.evictions(extent.evictions)


async def slow_responses(rig: Rig, extent: Extent) -> None:
    """Every request takes 0.1 s, then 2 s: then no read is recent enough for an eviction, and nothing is evicted."""
    await rig.start("binder", 2)
    await rig.evictions(extent.evictions)
    for _ in range(extent.times):
        slow = rig.proxy.rule(delay(0.1), agent=BINDER)
        await rig.evictions(2)
        slow.lift()
        slow = rig.proxy.rule(delay(LATENCY), agent=BINDER)
        await asyncio.sleep(LATENCY)  # until the requests before it have reached the server
        with rig.recorder.forbidding("every request takes 2 s"):
            await asyncio.sleep(10.0)
            await rig.outcomes(3)
        slow.lift()
        await rig.evictions(extent.evictions)


LATENCY = 2.0

ONE_SEAT: tuple[dict[str, Any], ...] = (
    {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "one-seat"},
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 1,
                "borrowingLimitPercent": 0,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 1, "handSize": 1, "queueLengthLimit": 2}},
            },
        },
    },
    # Its share is so large that one seat remains for the level above. The components of the cluster are exempt.
    {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "large"},
        "spec": {
            "type": "Limited",
            "limited": {"nominalConcurrencyShares": 100_000, "limitResponse": {"type": "Reject"}},
        },
    },
    {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "one-seat"},
        "spec": {
            "matchingPrecedence": 100,
            "priorityLevelConfiguration": {"name": "one-seat"},
            "rules": [
                {
                    "subjects": [
                        {"kind": "Group", "group": {"name": f"system:serviceaccounts:{cluster_setup.OWN}"}},
                    ],
                    "resourceRules": [
                        {
                            "verbs": ["*"],
                            "apiGroups": ["*"],
                            "resources": ["*"],
                            "namespaces": ["*"],
                            "clusterScope": True,
                        }
                    ],
                }
            ],
        },
    },
)


async def one_seat(rig: Rig, extent: Extent) -> None:
    """API priority and fairness gives all services together one seat, which other requests occupy."""
    await rig.start("binder", 3, concurrency=6)
    await rig.evictions(extent.evictions)
    rig.descheduler.max_pending = 12

    async def occupy() -> None:
        while True:
            with suppress(ApiError, aiohttp.ClientError, TimeoutError):
                await rig.api.request("GET", "/api/v1/pods", token=rig.tokens["scorer-0"])

    for _ in range(extent.times):
        await rig.api.apply(ONE_SEAT)
        throttled = CountResponses(429)
        rule = rig.proxy.rule(throttled, agent=BINDER)
        try:
            async with background(*(occupy() for _ in range(4))):
                await rig.until(lambda throttled=throttled: throttled.count >= 6, "binders are throttled")
        finally:
            for document in ONE_SEAT:
                await rig.api.request("DELETE", await rig.api.path(document))
        rule.lift()
        await rig.evictions(extent.evictions)


LAG = 3.0
"""Seconds by which the data of the second API server is late."""


async def two_api_servers(rig: Rig, extent: Extent) -> None:
    """Clients are switched between two API servers; the data of the second one is 3 s late: its reads take as long, and
    its watches and lists are stale."""
    etcd_port = int(rig.cluster.etcd_url.rpartition(":")[2])
    name = f"kube-apiserver-{rig.clock.now():.0f}"
    async with SlowLink(etcd_port) as link, descheduling(rig, 2):
        second = await asyncio.to_thread(rig.cluster.start_api_server, name, f"http://127.0.0.1:{link.port}")
        try:
            await rig.evictions(2)
            for _ in range(extent.times):
                link.delay = LAG
                # A Lease is renewed through the first one: otherwise nobody would lead.
                rules = [
                    rig.proxy.rule(forward_to(second), path=WATCH, share=0.5),
                    rig.proxy.rule(forward_to(second), agent=BINDER, share=0.05),
                ]
                for _ in range(3):
                    rig.proxy.abort(WATCH)
                    await rig.evictions_as_leader(2)
                    rig.descheduler.epoch = None
                link.delay = 0.0
                for rule in rules:
                    rule.lift()
                rig.proxy.abort(WATCH)
                await rig.evictions(1, seconds=2 * TIMEOUT)
        finally:
            rig.proxy.clear()
            await asyncio.to_thread(rig.cluster.kill, name)


async def compacted(rig: Rig, extent: Extent) -> None:
    """etcd is compacted and the API server started again: watches go on from versions that no longer exist."""
    async with descheduling(rig):
        await rig.evictions(3)
        for _ in range(extent.times):
            first = (await rig.api.request("GET", "/api/v1/pods"))["metadata"]["resourceVersion"]
            await rig.evictions(2)
            async with rig.http.post(f"{rig.cluster.etcd_url}/v3/kv/range", json={"key": "AA=="}) as response:
                revision = (await response.json(content_type=None))["header"]["revision"]
            body = {"revision": revision, "physical": True}
            async with rig.http.post(f"{rig.cluster.etcd_url}/v3/kv/compaction", json=body) as response:
                response.raise_for_status()
            await asyncio.to_thread(rig.cluster.restart, "kube-apiserver")
            watch = f"/api/v1/pods?watch=true&timeoutSeconds=1&resourceVersion={first}"
            await rig.until(lambda watch=watch: _expired(rig, watch), "the API server no longer knows that version")
            await rig.evictions(2, seconds=2 * TIMEOUT)


async def _expired(rig: Rig, watch: str) -> bool:
    headers = {"Authorization": f"Bearer {rig.cluster.admin_token}"}
    tls = ssl.create_default_context(cafile=str(rig.cluster.ca_file))
    async with rig.http.get(rig.cluster.url + watch, headers=headers, ssl=tls) as response:
        return response.status == 410 or '"code":410' in await response.text()


async def lost_deletions(rig: Rig, extent: Extent) -> None:
    """The watches of the descheduler lose every DELETED event, until they get 410 Gone."""
    async with descheduling(rig):
        await rig.evictions(2)
        for _ in range(extent.times):
            drop = DropEvents("DELETED")
            rule = rig.proxy.rule(drop, path=WATCH)
            rig.proxy.abort(WATCH)
            await rig.until(lambda rule=rule: rule.taken >= 4, "the watches go through the rule")
            for name in rig.generator.sample(cluster_setup.MOVABLE, 3):
                pods = (await rig.api.request("GET", f"{PODS}?labelSelector=app%3D{name}"))["items"]
                await rig.api.request("DELETE", f"{PODS}/{pods[0]['metadata']['name']}?gracePeriodSeconds=0")
            # Evicted pods seem to exist, so their moves are pending: nothing has to be evicted now.
            await rig.until(lambda drop=drop: drop.dropped >= 3, "deletions are lost")
            rule.lift()
            await expire_watches(rig)
            await rig.evictions(2, seconds=2 * TIMEOUT)


def proposed_pods_exist(history: History) -> list[str]:
    """No descheduler proposes a pod that was deleted ten seconds before."""
    deleted: dict[tuple[str, str], float] = {}
    for change in history.pods:
        if change.what == "deleted":
            deleted.setdefault((change.namespace, change.pod), change.at)
    for post in history.evictions:
        deleted.setdefault((post.namespace, post.pod), post.at)
    return [
        f"{intent.pod}: proposed {published.at - at:.1f} s after it was deleted"
        for published in history.new_intents
        if (intent := published.intent).strategy != HARNESS
        and published.at > (at := deleted.get((intent.namespace, intent.pod), published.at)) + 10
        and not intent.pod.startswith(cluster_setup.STATEFUL)  # its pods are created again with the same names
    ]


FAULTS = (
    fault(api_stopped, 24, intents=12, evictions=8),
    fault(errors, 25, intents=20, evictions=10),
    fault(flow_control, 25, intents=20, evictions=8),
    fault(watches, 26, intents=6, evictions=6),
    fault(recreated, 30, intents=20, evictions=10),
    fault(budgets, 28, intents=20, evictions=5),
    fault(hanging_webhook, 29, intents=15, evictions=8),
    fault(slow_responses, 25, intents=15, evictions=8),
    fault(one_seat, 25, intents=20, evictions=8),
    fault(two_api_servers, 27, intents=15, evictions=8),
    fault(compacted, 26, intents=8, evictions=7),
    fault(lost_deletions, 26, intents=4, evictions=4, also=proposed_pods_exist),
    fault(no_new_pods, 29, intents=20, evictions=8, also=stopped_by_late_replacements),
)
