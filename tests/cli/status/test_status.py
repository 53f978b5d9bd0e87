"""`equipoise status`: its output and exit codes."""

import asyncio
import io
import json
import re
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload, nodes_being_emptied
from cli.buses import Bus
from cli.http_clusters import LEDGER_PATH, HttpCluster, a_kubeconfig
from cli.narrow import assert_never_cut, printed
from cli.programs import run, started
from cli.published_modes import end_configuration, publish_configuration, publish_leader
from kube_objects import a_pod
from rich.console import Console

from equipoise.binder.decisions.limits import EvictionsPerCluster, Limits, Maintenance
from equipoise.binder.decisions.limits.maintenance import WeeklyTimes
from equipoise.binder.decisions.limits.rule import ProposedEviction
from equipoise.binder.decisions.status import allowed_text, ledger_status, rule_text
from equipoise.binder.shell.ledger_store import create_ledger
from equipoise.binder.state.ledger import HourlyCount, Ledger, LedgerClosed
from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.effective.running import RunningConfiguration
from equipoise.cli.status.binder_mode import BinderMode
from equipoise.cli.status.run import ShownStatus, combined, count_pods, read_status, show
from equipoise.contracts.bus.subjects import NODES_EMPTYING
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.kubernetes.client import PODS
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"
CASTLE = ClusterName(context="home", cluster="castle", server="https://castle:6443")
BINDER = RunningConfiguration(
    service="binder", processes=["binder-1"], version="1", published_at=NOW - 4, current=True, settings={}
)


def shown(ledger: Ledger | LedgerClosed, limits: Limits | None = None, now: float = NOW) -> str:
    """The text without folded lines."""
    mode = BinderMode(mode="real", why="1 binder at nats://x: real")
    allowed = isinstance(ledger, Ledger) and not ledger.paused
    status = combined(ledger_status(ledger, limits or Limits(), now), mode if allowed else None, CASTLE)
    return text_of(status)


def text_of(status: ShownStatus) -> str:
    """The text with limits that a binder has published."""
    text = io.StringIO()
    known = msgspec.structs.replace(status, configurations=(BINDER,))
    show(known, Console(file=text, width=400), now=NOW)
    return text.getvalue()


def test_one_eviction_is_not_plural() -> None:
    hours = (HourlyCount(begin=NOW - 3_600, evictions=1),)
    assert "last 24 hours: 1 eviction, 0 dry runs" in shown(a_ledger(hours=hours))


def test_an_open_ledger_shows_usage_pending_and_recent_evictions() -> None:
    """Recent evictions, pending evictions, and the usage of each limit."""
    moving = an_entry("web-1", settled_at=NOW - 30, target="node-b")
    back = an_entry("db-1", workload=a_workload("db"), settled_at=NOW - 60, recovered_at=NOW - 5)
    text = shown(a_ledger(moving, back, hours=(HourlyCount(begin=NOW - 3_600, evictions=2),)))
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert "evictions: allowed" in lines
    assert "limits: in full" in lines
    assert "last 24 hours: 2 evictions, 0 dry runs" in lines
    assert "configuration: of binder-1, published 4 s ago" in lines
    assert "evictionsPerNamespace namespace shop 2 5 10m" in lines
    assert "evictionsPerCluster the cluster 2 1% of the pods, at most 20 10m" in lines
    assert "evictionsPerWorkload Deployment/shop/web 1 1 5m 08:04:34" in lines, "when it is free again"
    assert "migratingPerNode node node-a 1 2" in lines
    pending, settled = text.index("pending since"), text.index("finished")
    assert text[pending:settled].count("UTC") == 1
    assert "shop/web-1" in text[pending:settled]
    assert text[settled:].count("evicted") == 1
    assert 1 == text.count("shop/web-1"), "an eviction is listed once, as pending until its replacement is ready"


@pytest.mark.parametrize(
    ("ledger", "expected"),
    [
        (a_ledger(paused=True, pause_reason="release day"), "evictions: paused (release day)"),
        (a_ledger(started_at=NOW - 60), "halved until 2027-01-15 08:59:00 UTC after setup"),
        (
            a_ledger(outage_ended_at=NOW - 600, outage="the bus was unavailable for 90 s"),
            "halved until 2027-01-15 08:50:00 UTC after the bus was unavailable for 90 s",
        ),
        (LedgerClosed(why="it is missing: run `equipoise resume`"), "evictions: closed (it is missing"),
        (a_ledger(an_entry(settled_at=None, outcome=None)), "reserved"),
        (a_ledger(an_entry(failing_since=NOW, failure="a webhook")), "no replacement can be created: a webhook"),
        (
            a_ledger(an_entry("batch-1", preempted_for=(a_workload(),), settled_at=NOW)),
            "preemptions",
        ),
    ],
)
def test_a_state_that_restricts_evictions_is_shown(ledger: Ledger | LedgerClosed, expected: str) -> None:
    """With its reason."""
    assert expected in shown(ledger)


def test_maintenance_times_are_shown() -> None:
    """With their end; maintenance is no pause."""
    limits = Limits(maintenance=Maintenance(never=(WeeklyTimes(begin="07:00", end="09:30"),)))
    assert "evictions: allowed (no evictions at this time" in shown(a_ledger(), limits)
    assert "until 2027-01-15 09:30:00 UTC" in shown(a_ledger(), limits)


def test_dry_runs_are_shown_without_evictions() -> None:
    """In dry-run mode the limits count them."""
    dry = an_entry("web-1", dry_run=True, outcome=Outcome.DRY_RUN)
    assert "namespace shop" in shown(a_ledger(dry))
    real = an_entry("pod-1", namespace="bank")
    assert "namespace shop" not in shown(a_ledger(dry, real))


async def test_the_configured_limits_are_shown() -> None:
    """Times are the API server's."""
    clock = ManualClock(NOW)
    kube = MemoryKube(clock)
    kube.skew = 1_000.0
    await create_ledger(kube, OWN, clock)
    limits = Limits(evictions_per_cluster=EvictionsPerCluster(max="2%", max_count=7))
    status = await read_status(kube, OWN, limits, clock)
    assert status.halved_until == NOW + 1_000 + 3_600
    assert "2% of the pods, at most 7" in {each.max for each in status.usage}


@pytest.mark.parametrize(
    ("limit", "pods", "text"),
    [
        (EvictionsPerCluster(), 640, ("6", "1% of the pods, at most 20")),
        (EvictionsPerCluster(), 9_000, ("20", "1% of the pods, at most 20")),
        (EvictionsPerCluster(), None, ("1% of the pods, at most 20", "")),
        (EvictionsPerCluster(max=7), None, ("7", "7, at most 20")),
    ],
)
def test_a_limit_is_the_number_that_it_comes_to(
    limit: EvictionsPerCluster, pods: int | None, text: tuple[str, str]
) -> None:
    """The rule is beside it with -o wide, and in its place if the pods could not be counted."""
    ledger = a_ledger(an_entry(), created_at=NOW - 9_000, started_at=NOW - 9_000)
    found = ledger_status(ledger, Limits(evictions_per_cluster=limit), NOW, cluster_pods=pods)
    assert text in {(allowed_text(each), rule_text(each, in_half=False)) for each in found.usage}


def test_a_limit_is_what_a_rejection_names() -> None:
    """Half of itself after a start."""
    limits = Limits(evictions_per_cluster=EvictionsPerCluster(max=3))
    ledger = a_ledger(an_entry("web-1"), an_entry("web-2"), created_at=NOW, started_at=NOW)
    timeout, grace = limits.migration_timeout, limits.startup_grace_period
    view = ledger.view(NOW, dry_run=False, migration_timeout=timeout, grace_period=grace)
    eviction = ProposedEviction(namespace="", node="", workload=None, replicas=1, unready=0, cluster_pods=9)
    assert "2 of 2 allowed, half of the limit" in limits.evictions_per_cluster.refusal(eviction, view)
    (usage,) = (each for each in ledger_status(ledger, limits, NOW, cluster_pods=9).usage if each.max.startswith("3,"))
    assert (usage.counted, allowed_text(usage), rule_text(usage, in_half=True)) == (2, "2", "half of 3, at most 20")


async def test_pods_are_counted_as_binders_count_them() -> None:
    """Not those that have finished, and not those without a node; no pod is read if their number decides nothing."""
    kube = MemoryKube(ManualClock(NOW))
    for number, (phase, node) in enumerate([("Running", "node-a")] * 3 + [("Succeeded", "node-a"), ("Pending", "")]):
        kube.put(PODS, a_pod(f"web-{number}", node=node, status={"phase": phase}))
    assert 3 == await count_pods(kube, EvictionsPerCluster())
    kube.fail_next("list", status=403, message="forbidden", times=None)
    assert await count_pods(kube, EvictionsPerCluster()) is None
    assert 0 == await count_pods(kube, EvictionsPerCluster(max=7))


def a_stored_ledger(cluster: HttpCluster, **fields: Any) -> None:
    now = SystemClock().now()
    entry = an_entry("web-1", reserved_at=now - 9, settled_at=now - 8, expires_at=now + 170)
    cluster.put_ledger(a_ledger(entry, created_at=now - 9_000, started_at=now - 9_000, **fields))


async def test_the_mode_of_binders_is_unknown_without_nats_and_configuration(cluster: HttpCluster) -> None:
    """The ledger allows evictions, also in dry run: it is not shown as allowed. `-o json` states the same."""
    a_stored_ledger(cluster)
    code, output = await cluster.run("status", NO_COLOR="1")
    assert code == 1
    assert output.startswith(
        f"cluster: castle {cluster.url} (context home)\nevictions: unknown (the ledger allows them;"
    )
    assert "cannot connect to NATS at nats://127.0.0.1:1: connection refused" in output
    assert "shop/web-1" in output
    assert "\x1b" not in output
    code, encoded, _ = await cluster.run_split("status", "-o", "json")
    status = json.loads(encoded)
    assert code == 1
    assert (status["evictions"], status["mode"]) == ("unknown", "unknown")
    assert status["cluster"] == {"context": "home", "cluster": "castle", "server": cluster.url}
    assert [entry["pod"] for entry in status["last"]] == ["web-1"]
    assert status["usage"] == [], "limits are not known"


@pytest.mark.parametrize("evict", ["false", "true"])
async def test_a_file_is_no_promise_of_what_is_in_effect(cluster: HttpCluster, tmp_path: Path, evict: str) -> None:
    """No binder has confirmed it: neither the mode nor a limit is taken from it, nor from the defaults."""
    a_stored_ledger(cluster)
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
        f"binder: {{evict: {evict}, limits: {{maintenance: {{never: [{{}}]}}}}}}\n"
    )
    code, output = await cluster.run("status", "--config", str(file))
    assert code == 1, output
    assert "\nevictions: unknown (" in output
    assert "\nconfiguration: not known: cannot connect to NATS at nats://127.0.0.1:1" in output
    assert "\nlimits: not known\n" in output
    for word in ("halved", "in full", "evictionsPer", "no evictions at this time", "dry run ("):
        assert word not in output


async def test_a_pause_is_known_without_nats(cluster: HttpCluster) -> None:
    """Whatever binders do, they evict nothing."""
    a_stored_ledger(cluster, paused=True, pause_reason="release")
    code, output = await cluster.run("status")
    assert code == 0, output
    assert "evictions: paused (release)" in output


async def test_a_watched_status_in_yaml_has_a_document_for_each(cluster: HttpCluster) -> None:
    a_stored_ledger(cluster, paused=True, pause_reason="release")
    watching = await started("status", "--watch", "1", "-o", "yaml", KUBECONFIG=str(cluster.file))
    await watching.prints(r"(?s)^---\n.*evictions: paused\n.*\n---\n.*evictions: paused\n")
    watching.process.terminate()
    await watching.ends()


async def test_a_missing_ledger_is_a_closed_ledger(cluster: HttpCluster) -> None:
    """The output states how to create one; the command does not fail. Numbers are unknown, not 0."""
    cluster.put_namespace()
    code, output = await cluster.run("status")
    assert code == 0, output
    assert "evictions: closed" in output
    assert "equipoise resume" in output
    _, encoded = await cluster.run("status", "-o", "json")
    assert json.loads(encoded)["last_day"] is None


async def test_a_ledger_that_may_not_be_read_is_unknown(cluster: HttpCluster) -> None:
    """Pods may be evicted at this moment: exit code 1."""
    a_stored_ledger(cluster)
    cluster.refused.add(LEDGER_PATH)
    code, output = await cluster.run("status")
    assert code == 1
    assert "evictions: unknown (ConfigMap equipoise-system/equipoise-ledger may not be read" in output
    assert "last 24 hours" not in output
    _, encoded, _ = await cluster.run_split("status", "-o", "json")
    assert json.loads(encoded)["evictions"] == "unknown"


async def test_a_cluster_without_equipoise_is_named_as_such(cluster: HttpCluster) -> None:
    """Its cause is the namespace, not the ledger; another namespace may have binders."""
    code, output = await cluster.run("status")
    assert code == 1
    assert "evictions: unknown (namespace equipoise-system does not exist: Equipoise is not installed" in output
    assert "equipoise resume" not in output


async def test_an_unavailable_api_server_is_a_failure(tmp_path: Path) -> None:
    """Exit code 1, without a traceback. The cluster is named."""
    file = a_kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    code, output = await run("status", KUBECONFIG=str(file))
    assert code == 1
    assert "cluster: castle http://127.0.0.1:1 (context home)\nevictions: unknown (get configmaps" in output
    assert "the API server at http://127.0.0.1:1 cannot be reached: connection refused)" in output
    assert "Traceback" not in output


async def test_an_invalid_configuration_is_invalid_input(tmp_path: Path) -> None:
    """Exit code 2, with the path of the setting."""
    file = tmp_path / "equipoise.yaml"
    file.write_text(
        "apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\nbinder: {limits: {rate: {max: lots}}}\n"
    )
    code, output = await run("status", "--config", file)
    assert code == 2
    assert "binder.limits.rate.max" in output


async def test_the_state_of_placement_hints_is_shown(cluster: HttpCluster) -> None:
    """`off` in a cluster without their kind; `-o json` has it too."""
    a_stored_ledger(cluster, paused=True, pause_reason="release")
    _, output = await cluster.run("status")
    _, encoded = await cluster.run("status", "-o", "json")

    assert "\nplacement hints: off\n" in output
    assert json.loads(encoded)["hints"]["state"] == "off"


def a_full_status() -> ShownStatus:
    """With pending and finished evictions."""
    entries = (
        an_entry("checkout-7d9f8c6b5-x2x9k", settled_at=NOW - 30, target="node-b", detail="accepted"),
        an_entry("db-1", settled_at=None, outcome=None),
    )
    mode = BinderMode(mode="real", why="1 binder at nats://x: real")
    return combined(ledger_status(a_ledger(*entries), Limits(), NOW), mode, CASTLE)


def test_no_terminal_is_too_narrow_for_a_cell() -> None:
    """A cut `counted` column once made a limit of 5 read as five used."""
    status = a_full_status()
    assert_never_cut(partial(show, now=NOW), status)
    narrow = printed(lambda to: show(status, to, now=NOW), 40)
    assert "scope    node node-a\nused     2\nallowed  2\n" in narrow, narrow


ALWAYS = {"maintenance": {"only": [], "never": [{}]}, "startupGracePeriod": "0s"}
"""No evictions at any time, and no grace period."""


async def test_what_binders_run_with_is_shown_at_once_and_not_a_file(
    bus: Bus, cluster: HttpCluster, tmp_path: Path
) -> None:
    """Maintenance is in effect and the grace period is 0, whatever the defaults or an edited file say."""
    a_stored_ledger(cluster, outage_ended_at=SystemClock().now() - 5)
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", ALWAYS)
    file = tmp_path / "equipoise.yaml"
    file.write_text("apiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\nbinder: {evict: true}\n")
    code, plain = await bus.run("status", KUBECONFIG=str(cluster.file))
    _, with_file = await bus.run("status", "--config", str(file), KUBECONFIG=str(cluster.file))
    await end_configuration(bus, "binder-1")

    for output in (plain, with_file):
        assert (
            "\nevictions: allowed (no evictions at this time (Mon,Tue,Wed,Thu,Fri,Sat,Sun 00:00-00:00 UTC)" in output
        ), output
        assert "\nconfiguration: of binder-1, published " in output
        assert "\nlimits: in full\n" in output
    assert "\n  not the default in binder-1:\n    binder.evict: true\n" in plain
    assert "    binder.limits.startupGracePeriod: 0s\n" in plain
    assert f"\n  {file} differs from what binder-1 runs with:\n" in with_file
    assert "    binder.limits.startupGracePeriod: 1h in the file, 0s\n" in with_file
    assert "not the default" not in with_file
    assert code == 0
    assert "waiting" not in plain, "it is read, not listened for"


async def test_the_bus_is_read_by_one_connection(bus: Bus, cluster: HttpCluster, tmp_path: Path) -> None:
    """Through a port-forward, each connection takes a while. The connection that only tests the port sends nothing."""
    a_stored_ledger(cluster)
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", {})
    target, clients = urlsplit(bus.url), set[asyncio.StreamReader]()

    async def copy(source: asyncio.StreamReader, to: asyncio.StreamWriter, senders: set[asyncio.StreamReader]) -> None:
        with suppress(ConnectionError):
            while data := await source.read(2**16):
                senders.add(source)
                to.write(data)
        to.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection(target.hostname, target.port)
        await asyncio.gather(copy(reader, to_server, clients), copy(from_server, writer, set()))

    async with await asyncio.start_server(forward, "127.0.0.1", 0) as forwarder:
        port = forwarder.sockets[0].getsockname()[1]
        forwarded = Bus(tmp_path, f"nats://127.0.0.1:{port}")
        _, output = await forwarded.run("status", KUBECONFIG=str(cluster.file))
    await end_configuration(bus, "binder-1")
    assert "binder-1" in output
    assert len(clients) == 1


async def test_nodes_that_are_being_emptied_are_shown(bus: Bus, cluster: HttpCluster) -> None:
    """As long as the message is valid, with the reason."""
    a_stored_ledger(cluster)
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", {})
    now = SystemClock().now()
    async with open_bus(bus.settings("descheduler"), "descheduler", SystemClock(), None) as connection:
        await connection.publish(NODES_EMPTYING, nodes_being_emptied("node-a", at=now))
        _, shown = await bus.run("status", KUBECONFIG=str(cluster.file))
        _, as_json = await bus.run("status", "-o", "json", KUBECONFIG=str(cluster.file))
        await connection.publish(NODES_EMPTYING, nodes_being_emptied(at=now + 1))
        _, after = await bus.run("status", KUBECONFIG=str(cluster.file))
    await end_configuration(bus, "binder-1")

    assert re.search(r"^consolidation: node-a is being emptied by consolidation since .* UTC: few pods$", shown, re.M)
    assert [node["node"] for node in json.loads(as_json)["emptied"]] == ["node-a"]
    assert "consolidation" not in after


async def test_binders_that_differ_are_both_shown(bus: Bus, cluster: HttpCluster) -> None:
    """A change of the limits is being rolled out; JSON has both, too."""
    a_stored_ledger(cluster)
    await publish_leader(bus, cluster)
    await publish_configuration(bus, "binder-1", {"maintenance": {"only": [], "never": [{}]}})
    await publish_configuration(bus, "binder-2", {})
    _, output = await bus.run("status", KUBECONFIG=str(cluster.file))
    _, encoded = await bus.run("status", "-o", "json", KUBECONFIG=str(cluster.file))
    for id in ("binder-1", "binder-2"):
        await end_configuration(bus, id)

    assert "by binder-1: no evictions at this time" in output, output
    assert "by binder-2: no maintenance time forbids them" in output
    assert "\n  binders differ (a change that is being rolled out?): binder-2 and binder-1\n" in output
    assert "binder.limits.maintenance.never: [] in binder-2, [{}] in binder-1" in output
    shown = json.loads(encoded[encoded.index("{") :].splitlines()[0])
    assert [each["processes"] for each in shown["configurations"]] == [["binder-2"], ["binder-1"]]


def test_limits_of_a_binder_that_is_gone_are_not_shown_as_in_effect() -> None:
    gone = msgspec.structs.replace(BINDER, current=False, published_at=NOW - 720)
    mode = BinderMode(mode="unknown", why="no heartbeat")
    status = combined(ledger_status(a_ledger(), Limits(), NOW), mode, CASTLE)
    text = io.StringIO()
    show(msgspec.structs.replace(status, configurations=(gone,)), Console(file=text, width=400), now=NOW)
    assert "configuration: of binder-1, published 12 min ago and not since: it may no longer run\n" in text.getvalue()
    assert "\nlimits: those that binder-1 had; it may no longer run\n" in text.getvalue()
    assert "in full" not in text.getvalue()
