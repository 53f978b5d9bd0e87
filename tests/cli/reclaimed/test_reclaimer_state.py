"""The reclaimer in `equipoise status`: found by its Lease, read from the bus."""

import json
from pathlib import Path

from binder.ledgers import a_ledger
from builders import NOW
from cli.buses import Bus
from cli.http_clusters import OWN, HttpCluster
from cli.reclaimed_nodes import a_reclaimed_node, a_stale_node

from equipoise.cli.reclaimed.nodes import node_bands, summary_of
from equipoise.cli.reclaimed.state import AGENTS, ReclaimerState, read_reclaimer_state, reclaimer_lines
from equipoise.contracts.bus.subjects import reclaimed_node
from equipoise.runtime.bus import connect
from equipoise.runtime.bus.dev_server import embedded_server
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/equipoise-reclaimer"


def paused(cluster: HttpCluster) -> HttpCluster:
    now = SystemClock().now()
    cluster.put_ledger(a_ledger(created_at=now - 9_000, started_at=now - 9_000, paused=True, pause_reason="release"))
    return cluster


async def test_without_a_reclaimer_the_status_does_not_mention_it(bus: Bus, cluster: HttpCluster) -> None:
    """Neither in the text nor as a key, also if Leases may not be read."""
    paused(cluster)
    _, text = await bus.run("status", KUBECONFIG=str(cluster.file))
    assert "evictions: paused (release)" in text
    assert "reclaimer" not in text
    assert "agents" not in text
    cluster.refused = {LEASE}
    _, encoded = await bus.run("status", "-o", "json", KUBECONFIG=str(cluster.file))
    status = json.loads(encoded)
    assert (status["evictions"], "reclaimer" in status) == ("paused", False)


async def test_with_a_reclaimer_the_status_has_its_mode_and_what_nodes_offer(bus: Bus, cluster: HttpCluster) -> None:
    """Also while evictions are paused; the state of evictions does not change."""
    paused(cluster).objects[LEASE] = {"metadata": {"name": "equipoise-reclaimer", "namespace": OWN}}
    code, text = await bus.run("status", KUBECONFIG=str(cluster.file))
    assert code == 0, text
    assert "\nreclaimer: off (no node was evaluated within the last 24 h)\n" in text

    now = SystemClock().now()
    async with connect(bus.settings("reclaimer"), "reclaimer", clock=SystemClock()) as link:
        for message in (a_reclaimed_node("a", evaluated_at=now), a_stale_node("b", evaluated_at=now, written=False)):
            await link.publish(reclaimed_node(message.node), message)
    code, text = await bus.run("status", KUBECONFIG=str(cluster.file))
    assert code == 0, text
    assert "\nreclaimer: on, mode enforce: written to the status of 1 of 2 nodes, 1 due; the latest " in text
    assert "\n  mid: 1.00 cores, 4.00 GiB can still be requested for 24 h; " in text
    assert "\n  batch: 0.50 cores, 2.00 GiB can still be requested for 6 h; " in text
    assert "\n  1 node not in these totals: `equipoise colocation nodes` states why\n" in text
    assert f"\n{AGENTS}\n" in text
    _, encoded = await bus.run("status", "-o", "json", KUBECONFIG=str(cluster.file))
    found = json.loads(encoded)["reclaimer"]
    assert (found["state"], found["summary"]["mode"], found["summary"]["totals"]["nodes"]) == ("on", "enforce", 1)


def test_a_reclaimer_that_no_longer_evaluates_is_off() -> None:
    summary = summary_of([node_bands(a_reclaimed_node(evaluated_at=NOW - 7_200), NOW, 300.0)])
    lines = list(reclaimer_lines(ReclaimerState(state=summary.state, summary=summary), NOW))
    assert lines[0].startswith("reclaimer: off, no node was evaluated recently, the last one 2 h ago")


async def test_on_a_bus_that_cannot_be_read_its_state_is_unknown(tmp_path: Path) -> None:
    """Before `equipoise setup`, it has no streams."""
    async with embedded_server(tmp_path) as url:
        found = await read_reclaimer_state(Nats(url=url), SystemClock())
    assert found.state == "unknown"
    assert next(iter(reclaimer_lines(found, NOW))).startswith("reclaimer: unknown (")
