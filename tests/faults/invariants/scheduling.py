"""Scores, and pods that kube-scheduler schedules with them."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from faults.history import ExtenderExchange, Guarantees, History, PodBatch, ScheduledPod

FAIR_SHARE = 1.5
"""A node gets at most this many times the mean number of pods of a burst."""

BURST = 100
"""Pods. In a smaller batch the share of a node says nothing."""


def responses_are_valid(history: History, guarantees: Guarantees) -> list[str]:
    """I9: the scorer responds in time: an error, or one integer of 0..10 for each node of the request.

    A filter refuses some of the nodes of the request, never all.
    """
    wrong = []
    for exchange in history.exchanges:
        found = _response(exchange, guarantees) if exchange.scorer_runs else _content(exchange)
        if found:
            wrong.append(f"{exchange.verb} {exchange.at - history.since:.1f} s after the begin: {found}")
    return wrong


def _response(exchange: ExtenderExchange, guarantees: Guarantees) -> str:
    if exchange.seconds > guarantees.response:
        return f"took {exchange.seconds * 1000:.0f} ms"
    return "no response" if exchange.status is None and exchange.caller_waited else _content(exchange)


def _content(exchange: ExtenderExchange) -> str:
    if exchange.status != 200:
        return ""
    try:
        body = json.loads(exchange.body)
        return _filtered(exchange.hosts, body) if exchange.verb == "filter" else _priorities(exchange.hosts, body)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return f"invalid: {type(error).__name__} {error}"


def _priorities(hosts: Sequence[str], body: Any) -> str:
    scores = [each["Score"] for each in body]
    if Counter(each["Host"] for each in body) != Counter(set(hosts)):
        return "the nodes are not those of the request"
    if not all(type(score) is int and 0 <= score <= 10 for score in scores):
        return f"scores {scores}"
    return ""


def _filtered(hosts: Sequence[str], body: Any) -> str:
    kept = body["NodeNames"]
    refused = [*(body.get("FailedNodes") or {}), *(body.get("FailedAndUnresolvableNodes") or {})]
    if body.get("Error"):
        return f"an error with status 200: {body['Error']}"
    if Counter([*kept, *refused]) != Counter(set(hosts)):
        return "the nodes are not those of the request"
    return "all nodes are refused" if hosts and not kept else ""


def pods_are_scheduled(history: History, guarantees: Guarantees) -> list[str]:
    """I10: every pod is bound; the 99th percentile of the times until then is at most that of the baseline and twice
    httpTimeout."""
    wrong = []
    for batch in history.batches:
        unbound = [pod.pod for pod in batch.pods if pod.bound_at is None]
        if unbound:
            wrong.append(f"{batch.what}: {len(unbound)} of {len(batch.pods)} pods are not bound: {unbound[:3]}")
        elif batch.http_timeout is not None:
            allowed = percentile99(batch.baseline) + 2 * batch.http_timeout + guarantees.transit
            found = percentile99(batch.pods)
            if found > allowed:
                wrong.append(f"{batch.what}: pods are pending for {found:.2f} s, at most {allowed:.2f} s are allowed")
    return wrong


def percentile99(pods: Sequence[ScheduledPod]) -> float:
    """Of the seconds from creation to binding; infinite if the pod of that rank is not bound."""
    pending = sorted(math.inf if pod.bound_at is None else pod.bound_at - pod.created_at for pod in pods)
    return pending[math.ceil(0.99 * len(pending)) - 1]


def no_herd(history: History, guarantees: Guarantees) -> list[str]:
    """I12: no node gets a larger share of a burst than without a fault, or than 1.5 times the fair share."""
    wrong = []
    for batch in history.batches:
        if len(batch.pods) < BURST:
            continue
        allowed = max(largest_share(batch.baseline), FAIR_SHARE / guarantees.nodes)
        found = largest_share(batch.pods)
        if found > allowed:
            wrong.append(f"{batch.what}: one node got {found:.1%} of the pods, {allowed:.1%} allowed")
    return wrong


def largest_share(pods: Sequence[ScheduledPod]) -> float:
    """Of the node that got most of them, 0..1."""
    nodes = Counter(pod.node for pod in pods if pod.node)
    return max(nodes.values(), default=0) / max(1, len(pods))


def figures(batch: PodBatch) -> str:
    """For reports: the times and shares that I10 and I12 compare."""
    parts = [
        f"p99 pending {percentile99(pods):.2f} s, largest share {largest_share(pods):.1%}" if pods else "none"
        for pods in (batch.pods, batch.baseline)
    ]
    return f"{batch.what}: {len(batch.pods)} pods: {parts[0]}; baseline: {parts[1]}"
