"""The API server is suspended, refuses requests, or changes what binders and deschedulers read."""

import signal
from contextlib import suppress
from typing import Any

from equipoise.testbed.api import ApiError
from faults import cluster_setup
from faults.catalog.deschedulers import changing_load
from faults.catalog.fault import Extent, fault
from faults.fault_proxy import (
    BINDER,
    EVICTION,
    WATCH,
    abort_connection,
    delay,
    gone,
    lose_response,
    respond,
    status,
)
from faults.history import History, Span
from faults.rig import TIMEOUT, Rig


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
    async with changing_load(rig):
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


FAULTS = (
    fault(api_stopped, 24, intents=12, evictions=8),
    fault(errors, 25, intents=20, evictions=10),
    fault(flow_control, 25, intents=20, evictions=8),
    fault(watches, 26, intents=6, evictions=6),
    fault(recreated, 30, intents=20, evictions=10),
    fault(budgets, 28, intents=20, evictions=5),
    fault(no_new_pods, 29, intents=20, evictions=8, also=stopped_by_late_replacements),
)
