"""`explain eviction` answers after a restart of the bus and of every service: from the ledger, else from Events."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload
from cli.buses import Bus
from cli.http_clusters import HttpCluster
from cli.published_modes import publish_configuration, publish_leader

from equipoise.binder.decisions.event import CONTROLLER
from equipoise.binder.state.ledger import HourlyCount, Ledger
from equipoise.binder.state.ledger_entry import PastEviction
from equipoise.cli.explain.eviction_history import EvictionHistory, with_recorded
from equipoise.cli.explain.recorded_evictions import NO_REASON, ledger_text, of_ledger
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.process.clock import SystemClock

WHY = "cpu 82.1% is above the threshold of 65%"


def a_past_eviction(pod: str = "web-1", at: float = NOW - 180, **fields: Any) -> PastEviction:
    defaults: dict[str, Any] = {
        "intent_id": f"intent-{pod}",
        "namespace": "shop",
        "pod": pod,
        "node": "node-a",
        "target": "node-b",
        "workload": a_workload(),
        "strategy": "low_node_load",
        "reason": WHY,
        "reserved_at": at - 1,
        "settled_at": at,
    }
    return PastEviction(**(defaults | fields))


def restarted(*past: PastEviction, now: float = NOW) -> Ledger:
    """A ledger hours after a restart: no entry is left, only counts and reasons."""
    hours = (HourlyCount(begin=now - now % 3_600, evictions=len(past)),) if past else ()
    return a_ledger(past=past, hours=hours, created_at=now - 9_000, started_at=now - 9_000)


def test_an_eviction_is_found_in_the_ledger_by_its_pod() -> None:
    """Its entry while it counts, and its reason for a day; each once."""
    entry = an_entry("web-1", reason=WHY)
    ledger = a_ledger(entry, past=(a_past_eviction(), a_past_eviction("web-2"), a_past_eviction(namespace="bank")))
    (found,) = of_ledger(ledger, "own", "shop", "web-1")
    assert (found.intent_id, found.reason, found.node) == ("intent-web-1", WHY, "node-a")
    assert found.outcome is not None
    assert found.outcome.outcome is Outcome.EVICTED
    assert "own/equipoise-ledger" in found.source


def test_a_dry_run_a_reservation_and_an_older_entry_are_shown_as_such() -> None:
    ledger = a_ledger(
        an_entry("web-1", settled_at=None, outcome=None, reason=WHY),
        an_entry("web-2"),
        an_entry("web-3", outcome=Outcome.REJECTED_LIMIT, counted=False),
        past=(a_past_eviction("web-4", dry_run=True),),
    )
    assert [each.outcome for each in of_ledger(ledger, "own", "shop", "web-1")] == [None]
    assert [each.reason for each in of_ledger(ledger, "own", "shop", "web-2")] == [NO_REASON]
    assert of_ledger(ledger, "own", "shop", "web-3") == [], "it was refused"
    (dry,) = of_ledger(ledger, "own", "shop", "web-4")
    assert dry.outcome is not None
    assert dry.outcome.outcome is Outcome.DRY_RUN


def test_what_the_bus_has_is_not_repeated() -> None:
    (recorded,) = of_ledger(restarted(a_past_eviction()), "own", "shop", "web-1")
    history = EvictionHistory(namespace="shop", pod="web-1", evictions=[recorded], not_moved=[])
    assert with_recorded(history, [recorded]) == history


def test_the_ledger_counts_as_status_does() -> None:
    """And names the evictions whose reasons it has."""
    text = ledger_text(restarted(a_past_eviction(), a_past_eviction("web-2")), NOW)
    assert text == (
        "the ledger counts 2 evictions, 0 dry runs in the last 24 hours, with reasons of shop/web-2 at 07:57:00, "
        "shop/web-1 at 07:57:00"
    )
    assert ledger_text(a_ledger(), NOW) == "the ledger counts 0 evictions, 0 dry runs in the last 24 hours"


async def test_after_a_restart_the_ledger_has_the_reason(bus: Bus, cluster: HttpCluster) -> None:
    """A new bus has no message of it. The output states where the answer is from; status counts the same."""
    now = SystemClock().now()
    cluster.put_ledger(restarted(a_past_eviction("old-1", now - 180), now=now))
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", {})
    code, output = await bus.run("explain", "eviction", "shop/old-1", KUBECONFIG=str(cluster.file))
    _, status = await bus.run("status", KUBECONFIG=str(cluster.file))
    _, other = await bus.run("explain", "eviction", "shop/other", KUBECONFIG=str(cluster.file))

    assert code == 0, output
    assert "\nshop/old-1 of Deployment/shop/web on node-a: evicted\n" in output
    assert f" by low_node_load: {WHY}\n" in output
    assert "\nsource          the ledger, ConfigMap equipoise-system/equipoise-ledger; the bus has no message" in output
    assert "last 24 hours: 1 eviction, 0 dry runs" in status
    assert "no eviction of shop/other found" in other
    assert "the ledger counts 1 eviction, 0 dry runs in the last 24 hours, with reasons of shop/old-1 at" in other


async def test_without_a_bus_the_ledger_has_the_reason(cluster: HttpCluster) -> None:
    """Also in JSON; the problem of the bus is named."""
    now = SystemClock().now()
    cluster.put_ledger(restarted(a_past_eviction("old-1", now - 180), now=now))
    code, output = await cluster.run("explain", "eviction", "shop/old-1")
    _, encoded = await cluster.run("explain", "eviction", "shop/old-1", "-o", "json")

    assert code == 0, output
    assert output.startswith("not from the bus: cannot connect to NATS at nats://127.0.0.1:1: connection refused")
    assert WHY in output
    (found,) = json.loads(encoded)["evictions"]
    assert (found["reason"], found["outcome"]["outcome"]) == (WHY, "evicted")


async def test_without_the_ledger_the_event_of_the_pod_has_the_reason(cluster: HttpCluster) -> None:
    """The ledger was forgotten with `equipoise resume --forget`."""
    now = SystemClock().now()
    cluster.put_ledger(restarted(now=now))
    event = {
        "metadata": {"name": "old-1.abc", "namespace": "shop"},
        "eventTime": datetime.fromtimestamp(now - 180, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "message": f'Pod evicted from node "node-a" by the reason "{WHY}"',
        "reason": "Descheduled",
        "reportingComponent": CONTROLLER,
        "involvedObject": {"kind": "Pod", "namespace": "shop", "name": "old-1"},
    }
    others = {**event, "reportingComponent": "kubelet", "message": "Started container"}
    cluster.objects["/api/v1/namespaces/shop/events"] = {"kind": "EventList", "metadata": {}, "items": [event, others]}
    code, output = await cluster.run("explain", "eviction", "shop/old-1")

    assert code == 0, output
    assert "\nshop/old-1: evicted\n" in output
    assert WHY in output
    assert "source          the Event shop/old-1.abc" in output
    assert "Started container" not in output


async def test_an_answer_that_is_nowhere_states_what_was_searched(cluster: HttpCluster, tmp_path: Path) -> None:
    code, output = await cluster.run("explain", "eviction", "shop/old-1")
    assert code == 1
    assert "no eviction of shop/old-1 found: cannot connect to NATS at nats://127.0.0.1:1" in output
    assert "the ledger cannot be read: namespace equipoise-system does not exist" in output
    assert "Events of shop cannot be read" in output
