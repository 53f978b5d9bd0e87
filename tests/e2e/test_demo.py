"""`make demo` on a small cluster for a short day: it runs to its last line, and its figures are there."""

import asyncio
import io
import json
import sys
from pathlib import Path

import pytest
from cli.programs import invoke, processes_with, started
from monitored.on_prometheus import Queries, panels_without_data, true_for
from monitoring.alerts import ALERTS
from rich.console import Console

from equipoise.cli.demo.colocation.figures import ColocationResult
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.options import DemoOptions
from equipoise.cli.demo.rebalance.run import run_rebalance_demo
from equipoise.cli.demo.run import Demo, run_demo
from equipoise.cli.exit_codes import TERMINATED
from equipoise.runtime.process.clock import SystemClock

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("testbed_binaries")]

NODES = 12
STEPS = 9
"""Steps per day, of 4 s each."""

BURST_PODS = 24

HOUR = 3_600

RECLAIMER = '"username":"system:serviceaccount:equipoise-system:equipoise-reclaimer"'


async def test_the_demo_runs_to_its_end() -> None:
    """Pods move within the limits, a burst is placed on several nodes, and the result is printed.

    A day of 36 s is too short to judge the load: the deployed services are judged for that, and weekly the whole demo.
    """
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    options = DemoOptions(nodes=NODES, steps=STEPS, burst_pods=BURST_PODS)
    result = await run_demo(options, Screen(console), at_end=check_monitoring)
    output = console.file.getvalue()  # type: ignore[attr-defined]

    assert (result.nodes, result.limit_violations, result.protected_evictions) == (NODES, 0, 0)
    assert result.evictions > 0
    assert result.outcomes["evicted"] > 0
    assert min(result.spread_before, result.spread_after, result.std_before, result.std_after) > 0
    assert result.burst_max_share < 0.5
    encoded = json.loads(result.encoded())
    assert encoded["evictions"] == result.evictions
    assert {"colocation", "surge"}.isdisjoint(encoded)
    assert "batch pods" not in output
    for text in (
        "compressed 225 times",
        "the limits of evictions",
        "hottest node",
        f"{BURST_PODS} pods placed on",
    ):
        assert text in output


async def test_batch_pods_run_on_what_the_reclaimer_offers() -> None:
    """It writes the status of nodes as its own ServiceAccount; batch work is part of the result."""
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    options = DemoOptions(nodes=6, steps=6, burst_pods=12, colocation=True, batch_hours=0.5)
    worked: list[ColocationResult] = []

    async def batch_pods_finish(demo: Demo) -> None:
        """A short day may end before the first one has, and before its usage was scraped."""
        assert demo.colocation is not None
        async with asyncio.timeout(240):
            while not worked or not worked[-1].pods_finished or not worked[-1].core_hours:
                await asyncio.sleep(0.5)
                now = SystemClock().now()
                worked.append(await demo.colocation.result(demo.running_since, now, limit=65.0, evictions=0))
        lines = demo.cluster.audit_log.read_text().splitlines()
        assert any('"resource":"nodes"' in line and RECLAIMER in line for line in lines)

    result = await run_demo(options, Screen(console), at_end=batch_pods_finish)
    output = console.file.getvalue()  # type: ignore[attr-defined]

    assert worked[-1].core_hours > 0
    assert worked[-1].suppressed_share is not None
    assert result.colocation is not None
    assert result.colocation.evictions == 0
    assert json.loads(result.encoded())["colocation"]["limit"] == 65.0
    for text in (
        "reclaimer.mode enforce",
        "a queue of batch pods",
        "batch work: ",
        "suppressed: ",
        "node-hours above 65 %",
    ):
        assert text in output


@pytest.mark.weekly
async def test_every_pod_moves_without_a_gap() -> None:
    """Single replicas among them, and workloads whose budgets allow no eviction; as the accounts of k8s/surge."""
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    options = DemoOptions(nodes=NODES, steps=STEPS, burst_pods=BURST_PODS, surge=True)
    result = await run_demo(options, Screen(console))
    output = console.file.getvalue()  # type: ignore[attr-defined]

    assert (result.limit_violations, result.protected_evictions) == (0, 0)
    surge = result.surge
    assert surge is not None
    assert surge.moved == surge.without_gap == result.evictions > 0
    assert (surge.shortages, surge.seconds_with_fewer_ready, surge.detached_left_over) == (0, 0.0, 0)
    assert surge.services > NODES
    assert json.loads(result.encoded())["surge"]["moved"] == surge.moved
    for text in ("surge.mode always", "of them without a gap: 0 s with fewer ready endpoints", "0 detached pods left"):
        assert text in output


@pytest.mark.weekly
async def test_a_campaign_fills_new_nodes_and_ends() -> None:
    """All moves are without a gap. Each new node needs a pod before the spread can fall: with ten of them beside forty,
    it is halved within a third of the moves; beside twelve, that takes half of them. The loads do not change, so that
    no move does harm, and the campaign does not stop before its end.
    """
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    options = DemoOptions(nodes=NODES, surge=True, rebalance=True)
    result = await run_rebalance_demo(options, Screen(console))
    output = console.file.getvalue()  # type: ignore[attr-defined]

    assert result.nodes == NODES + result.new_nodes
    assert result.ended.startswith(("nothing more to gain", "used its budget"))
    assert result.moves_until_half is not None
    assert result.moves_until_half < result.moves
    assert result.spread_after < result.spread_before / 2
    assert result.surge.moved == result.surge.without_gap >= result.moves > 0
    assert (result.surge.seconds_with_fewer_ready, result.surge.detached_left_over) == (0.0, 0)
    assert result.same_node_returns == 0
    assert json.loads(result.encoded())["campaign"] == result.campaign
    for text in ("10 nodes have joined", "equipoise rebalance: ", f"campaign {result.campaign}: ", "halved"):
        assert text in output


async def test_the_demo_leaves_nothing_behind_at_sigterm(tmp_path: Path) -> None:
    """`equipoise testbed` lists its cluster, and can stop it."""
    temporary, state = tmp_path / "temporary", {"XDG_STATE_HOME": str(tmp_path / "state")}
    temporary.mkdir()
    demo = await started("demo", TMPDIR=str(temporary), **state)
    await demo.prints("time is compressed")
    [cluster] = json.loads(invoke("testbed", "status", "-o", "json", **state).stdout)
    assert cluster["pid"] == demo.process.pid
    assert Path(cluster["directory"]).parent == temporary
    assert invoke("testbed", "down", cluster["name"], **state).exit_code == 0
    assert await demo.ends() == TERMINATED, demo.output
    assert "Traceback" not in demo.output
    assert list(temporary.iterdir()) == []
    assert processes_with(str(temporary)) == {}


@pytest.mark.weekly
@pytest.mark.timeout(2 * HOUR)
async def test_no_alert_fires_in_an_hour() -> None:
    """Nine days of the demo, in which pods move."""
    options = DemoOptions(nodes=NODES, burst_pods=BURST_PODS)
    result = await run_demo(options, Screen(Console(file=sys.stdout, force_terminal=False)), at_end=an_hour)

    assert result.evictions > 0


async def an_hour(demo: Demo) -> None:
    """An alert fires when its expression was true for as long as its rule requires."""
    end, clock = demo.running_since + HOUR, SystemClock()
    await clock.sleep(end - clock.now())
    queries = Queries(demo.session, demo.cluster.prometheus_url)
    seconds = await true_for(queries, demo.running_since, end)
    print(f"true for seconds: {seconds}")

    assert [alert.name for alert in ALERTS if seconds.get(alert.name, -1.0) >= seconds_of(alert.lasts)] == []


def seconds_of(duration: str) -> int:
    """Of "15m"."""
    return int(duration[:-1]) * {"m": 60, "h": 3_600, "d": 86_400}[duration[-1]]


async def check_monitoring(demo: Demo) -> None:
    """Every panel of the dashboards has data. No alert fires, even if its expression need not be true for minutes."""
    queries = Queries(demo.session, demo.cluster.prometheus_url)
    assert await panels_without_data(queries) == {}

    seconds = await true_for(queries, demo.running_since, SystemClock().now())
    # How fast scores are depends on what else the machine does.
    assert [name for name, each in seconds.items() if each > 20 and name != "EquipoiseExtenderSlow"] == []
    assert [alert.name for alert in ALERTS if alert.lasts == "0m" and alert.name in seconds] == []
