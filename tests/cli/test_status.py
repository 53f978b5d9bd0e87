"""`equipoise status`: its output and exit codes."""

import io
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from binder.ledgers import a_ledger, an_entry
from builders import NOW, a_workload
from cli.programs import run
from rich.console import Console

from equipoise.binder.decisions.limits import EvictionsPerCluster, Limits, Maintenance
from equipoise.binder.decisions.limits.maintenance import WeeklyTimes
from equipoise.binder.decisions.status import ledger_status
from equipoise.binder.shell.ledger_store import KEY, NAME, create_ledger
from equipoise.binder.state.ledger import HourlyCount, Ledger, LedgerClosed
from equipoise.binder.state.ledger_json import encode
from equipoise.cli.status.run import read_status, show
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"


def shown(ledger: Ledger | LedgerClosed, limits: Limits | None = None, now: float = NOW) -> str:
    """The text without folded lines."""
    text = io.StringIO()
    show(ledger_status(ledger, limits or Limits(), now), Console(file=text, width=400), "the default limits")
    return text.getvalue()


def test_an_open_ledger_shows_usage_pending_and_recent_evictions() -> None:
    """Recent evictions, pending evictions, and the usage of each limit."""
    moving = an_entry("web-1", settled_at=NOW - 30, target="node-b")
    back = an_entry("db-1", workload=a_workload("db"), settled_at=NOW - 60, recovered_at=NOW - 5)
    text = shown(a_ledger(moving, back, hours=(HourlyCount(begin=NOW - 3_600, evictions=2),)))
    lines = {" ".join(line.split()) for line in text.splitlines()}
    assert "evictions: allowed" in lines
    assert "limits: in full" in lines
    assert "last 24 hours: 2 evictions, 0 dry runs" in lines
    assert "evictionsPerNamespace namespace shop 2 5 10m" in lines
    assert "evictionsPerCluster the cluster 2 1% of the pods, at most 20 10m" in lines
    assert "migratingPerNode node node-a 1 2" in lines
    pending, settled = text.index("pending since"), text.index("finished")
    assert text[pending:settled].count("UTC") == 1
    assert "shop/web-1" in text[pending:settled]
    assert text[settled:].count("evicted") == 2


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


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[tuple[Path, dict[str, Any]]]:
    """A kubeconfig, and the objects of the API server by path."""
    found: dict[str, Any] = {}

    async def respond(request: web.Request) -> web.Response:
        missing = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}
        body = found.get(request.path)
        return web.json_response(body or missing, status=200 if body else 404)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    async with TestServer(app) as server:
        file = tmp_path / "kubeconfig"
        context = {"name": "home", "context": {"cluster": "castle", "user": "me"}}
        clusters = [{"name": "castle", "cluster": {"server": str(server.make_url(""))}}]
        users = [{"name": "me", "user": {"token": "t"}}]
        file.write_text(
            json.dumps({"current-context": "home", "contexts": [context], "clusters": clusters, "users": users})
        )
        yield file, found


async def test_the_command_needs_only_a_kubeconfig(cluster: tuple[Path, dict[str, Any]]) -> None:
    """NATS may be unavailable. `-o json` is one object; NO_COLOR is respected."""
    file, found = cluster
    now = SystemClock().now()
    entry = an_entry("web-1", reserved_at=now - 9, settled_at=now - 8, expires_at=now + 170)
    data = {KEY: encode(a_ledger(entry, created_at=now - 9_000, started_at=now - 9_000))}
    path = f"/api/v1/namespaces/{OWN}/configmaps/{NAME}"
    found[path] = {"metadata": {"name": NAME, "namespace": OWN, "resourceVersion": "1"}, "data": data}
    code, output = await run("status", KUBECONFIG=str(file), NO_COLOR="1", EQUIPOISE_NATS__URL="nats://127.0.0.1:1")
    assert code == 0, output
    assert "evictions: allowed" in output
    assert "shop/web-1" in output
    assert "\x1b" not in output
    code, output = await run("status", "-o", "json", KUBECONFIG=str(file))
    status = json.loads(output)
    assert code == 0
    assert status["evictions"] == "allowed"
    assert [entry["pod"] for entry in status["pending"]] == ["web-1"]


async def test_a_missing_ledger_is_a_closed_ledger(cluster: tuple[Path, dict[str, Any]]) -> None:
    """The output states how to create one; the command does not fail."""
    code, output = await run("status", KUBECONFIG=str(cluster[0]))
    assert code == 0
    assert "evictions: closed" in output
    assert "equipoise resume" in output


async def test_an_unavailable_api_server_is_a_failure(tmp_path: Path) -> None:
    """Exit code 1, without a traceback."""
    file = tmp_path / "kubeconfig"
    clusters = [{"name": "castle", "cluster": {"server": "http://127.0.0.1:1"}}]
    context = {"name": "home", "context": {"cluster": "castle", "user": "me"}}
    users = [{"name": "me", "user": {"token": "t"}}]
    file.write_text(
        json.dumps({"current-context": "home", "contexts": [context], "clusters": clusters, "users": users})
    )
    code, output = await run("status", KUBECONFIG=str(file))
    assert code == 1
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
