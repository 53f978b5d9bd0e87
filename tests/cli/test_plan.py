"""`equipoise plan`: what it shows, what it remembers, and how it ends."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from bus_worlds import eventually, free_port
from cli.buses import Bus
from cli.programs import run
from descheduler.cluster import Cluster
from rich.console import Console

from equipoise.cli import plan as plan_module
from equipoise.cli.plan import asked, show, show_changes
from equipoise.cli.plan_changes import LastPlans, changes
from equipoise.contracts.messages.descheduling import DryRunMove, NodeCooldown, RefusedMove
from equipoise.contracts.messages.lease import LeaseEpoch
from equipoise.contracts.messages.plan import PendingMove, PlannedMove, PlannedNode, PlanResponse
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.kube import MemoryKube

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

HOT = "node is overutilized, cpu usage(80.00%)>threshold(65.00%)"


def a_move(pod: str = "web-1", target: str = "node-b") -> PlannedMove:
    return PlannedMove(
        strategy="low_node_load",
        namespace="shop",
        pod=pod,
        workload=a_workload(),
        node="node-a",
        target=target,
        reason=HOT,
        expected_reduction=Resources(cpu=1.5, memory=2 * GIB),
        sampled_at=NOW - 5,
    )


def a_planned_node(node: str = "node-a", state: Any = "hot", missing: int = 3, **fields: Any) -> PlannedNode:
    defaults: dict[str, Any] = {
        "strategy": "low_node_load",
        "node": node,
        "state": state,
        "before": Resources(cpu=0.8, memory=0.5),
        "after": Resources(cpu=0.65, memory=None),
        "missing_evaluations": missing,
        "why": HOT if state == "hot" else "",
    }
    return PlannedNode(**(defaults | fields))


def a_plan(*moves: PlannedMove, **fields: Any) -> PlanResponse:
    defaults: dict[str, Any] = {
        "moves": list(moves),
        "nodes": [a_planned_node()],
        "evictions": "dry run",
        "considered": 40,
        "interval": 120.0,
        "leader": LeaseEpoch(lease_uid="lease", transitions=1, holder="descheduler-1"),
        "planned_at": NOW,
    }
    return PlanResponse(**(defaults | fields))


# the whole way


@pytest.fixture(scope="module")
async def led(bus: Bus) -> AsyncIterator[Bus]:
    """A descheduler that leads, and sees node-a at 80 % beside two nodes with nothing."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(open_bus(bus.settings("collector"), "collector", clock, None))
        service = await stack.enter_async_context(open_bus(bus.settings("descheduler"), "descheduler", clock, None))
        cluster = Cluster()
        cluster.clock, cluster.kube = clock, MemoryKube(clock)  # type: ignore[assignment]
        cluster.add_namespace()
        cluster.hot_and_idle()
        cluster.bus = collector  # type: ignore[assignment]
        await cluster.measure()
        cluster.bus = service  # type: ignore[assignment]
        descheduler = cluster.descheduler()
        await descheduler.attach()
        running = asyncio.create_task(descheduler.run())
        await eventually(lambda: cluster.health.leading is True)
        yield bus
        running.cancel()
        await asyncio.wait([running])


async def test_nobody_who_leads_is_exit_code_1(bus: Bus, tmp_path: Path) -> None:
    """On stderr, with what to look at; this comes before the descheduler of this file begins."""
    code, said = await bus.ask("plan", XDG_CACHE_HOME=str(tmp_path))

    assert code == 1
    assert said == (
        f"equipoise: no descheduler leads at {bus.url}, and only the leader knows: is one running, and does it hold "
        "its Lease (`leading` in its /readyz)?\n"
    )


async def test_no_bus_at_all_is_said_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Services wait for their bus for ever; a person does not."""
    monkeypatch.setattr(plan_module, "TIMEOUT", 0.2)
    url = f"nats://127.0.0.1:{free_port()}"

    with pytest.raises(BusUnavailable, match=rf"nobody lets us in at {url} within 0.2 s: is NATS there \(--nats\)"):
        await asked(Nats(url=url))


async def test_a_plan_is_shown_to_who_may_watch(led: Bus, tmp_path: Path) -> None:
    """As the user tap: which pods, from where to where, what nodes become; a table without colours on a pipe."""
    code, said = await led.ask("plan", XDG_CACHE_HOME=str(tmp_path))
    lines = said.splitlines()

    assert code == 0, said
    assert lines[0].startswith("2 pods would move of 3 nodes at ")
    assert lines[1] == "evictions: not known, for no binder was heard lately: is one running?"
    assert "hot nodes" in said
    assert "before anything is proposed" in said
    moves = [line.split() for line in lines if line.startswith("shop/app")]
    assert len(moves) == 2
    assert {move[1][:-1] for move in moves} == {"Deployment/app"}
    assert [move[2:6] for move in moves] == [["node-a", node, "1.00", "cores,"] for node in ("node-b", "node-c")]
    (node,) = [line for line in lines if line.startswith("node-a")]
    assert "80.0% → 60.0%" in node
    assert "\x1b" not in said


async def test_json_is_the_whole_plan_and_diff_what_is_new(led: Bus, tmp_path: Path) -> None:
    """One object on standard output; the second time nothing is new."""
    code, said = await led.ask("plan", "-o", "json", XDG_CACHE_HOME=str(tmp_path))
    _, same = await led.ask("plan", "--diff", XDG_CACHE_HOME=str(tmp_path))
    _, as_json = await led.ask("plan", "--diff", "-o", "json", XDG_CACHE_HOME=str(tmp_path))
    plan, told = msgspec.json.decode(said, type=PlanResponse), json.loads(as_json)

    assert code == 0
    assert [(move.node, move.target) for move in plan.moves] == [("node-a", "node-b"), ("node-a", "node-c")]
    assert same.startswith("nothing has changed since the plan of ")
    assert (told["new"], told["gone"], told["nodes"]) == ([], [], [])
    assert told["until"] > told["since"]


async def test_the_first_diff_has_nothing_to_compare_with(led: Bus, tmp_path: Path) -> None:
    """For people the whole plan, for programs everything as new; and that is said beside it."""
    _, said = await led.ask("plan", "--diff", XDG_CACHE_HOME=str(tmp_path / "one"))
    _, as_json = await led.ask("plan", "--diff", "-o", "json", XDG_CACHE_HOME=str(tmp_path / "two"))
    note, encoded = as_json.splitlines()

    assert "no plan of this cluster was shown before: everything is new\n" in said
    assert "2 pods would move" in said
    assert note == "no plan of this cluster was shown before: everything is new"
    assert [move["target"] for move in json.loads(encoded)["new"]] == ["node-b", "node-c"]


async def test_a_cache_that_cannot_be_written_hides_no_plan(led: Bus, tmp_path: Path) -> None:
    """The plan is shown, and what is wrong with the cache is said."""
    (tmp_path / "file").write_text("")
    code, said = await led.ask("plan", XDG_CACHE_HOME=str(tmp_path / "file"))

    assert code == 0
    assert "2 pods would move" in said
    assert "the plan is not kept for --diff: " in said


async def test_who_asks_wrongly_is_told() -> None:
    """Exit code 2."""
    code, said = await run("plan", "-o", "yaml")

    assert code == 2
    assert "'yaml' is not one of" in said


# what people see


def shown(plan: PlanResponse, **console: object) -> str:
    out = io.StringIO()
    show(plan, Console(file=out, highlight=False, width=220, **console))  # type: ignore[arg-type]
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_everything_of_a_plan_has_its_place() -> None:
    """Moves, nodes with what is still needed, who stays, what is under way, assumed or left alone."""
    text = shown(
        a_plan(
            a_move(),
            refused=[RefusedMove(pod="shop/db-0", node="node-a", why="its workload has too few replicas")],
            pending=[PendingMove(namespace="shop", pod="web-7", node="node-c", target="node-d", evicted_at=NOW)],
            dry_run_moves=[
                DryRunMove(namespace="shop", pod="web-8", node="node-e", target="node-f", since=0, until=NOW)
            ],
            cooldowns=[NodeCooldown(node="node-g", until=NOW, why="it did not get better, 2 times in a row")],
        )
    )

    assert "1 pod would move of 40 nodes at 2027-01-15 08:00:00 UTC, by descheduler-1\n" in text
    assert "evictions: dry run (binder.evict is false): nothing is evicted\n" in text
    assert "the first of 1 hot nodes needs 3 more evaluations over its mark, about 6 min, before" in text
    assert "shop/web-1  Deployment/web  node-a  node-b  1.50 cores, 2.00 GiB  07:59:55  node is overutilized" in text
    assert "node-a  hot    80.0% → 65.0%  50.0% → ?  3 more (6 min)  node is" in text
    assert "\nStay\npod        node    why\nshop/db-0  node-a  its workload has too few replicas\n" in text
    assert "shop/web-7  node-c → node-d  evicted 08:00:00, no replacement seen" in text
    assert "Assumed moved in dry run, and counted so above\n" in text
    assert "shop/web-8  node-e → node-f  until 2027-01-15 08:00:00 UTC" in text
    assert "node-g  until 2027-01-15 08:00:00 UTC  it did not get better, 2 times in a row" in text


def test_an_empty_plan_says_why() -> None:
    """Per strategy."""
    text = shown(a_plan(nodes=[], why={"low_node_load": "no node is over its mark"}, evictions="paused: upgrade"))

    assert text.splitlines() == [
        "0 pods would move of 40 nodes at 2027-01-15 08:00:00 UTC, by descheduler-1",
        "evictions: paused: upgrade",
        "low_node_load: no node is over its mark",
    ]


def test_long_lists_are_cut_for_people() -> None:
    """And the title says so."""
    refused = [RefusedMove(pod=f"shop/web-{number}", node="node-a", why="it stays") for number in range(50)]
    text = shown(a_plan(refused=refused))

    assert "Stay (the first 20 of 50; -o json has all)" in text
    assert text.count("it stays") == 20


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal there are colours, unless NO_COLOR asks for none."""
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = shown(a_plan(a_move()), force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(a_plan(a_move()), force_terminal=True)

    assert "\x1b[31m" in coloured
    assert "31m" not in plain


# what is new


def changed(before: PlanResponse, now: PlanResponse) -> str:
    out = io.StringIO()
    show_changes(changes(before, now), Console(file=out, highlight=False, width=220))
    return out.getvalue()


def test_changes_are_lines() -> None:
    """New, gone and redirected moves, nodes, refusals, and what binders do."""
    stays = RefusedMove(pod="shop/db-0", node="node-a", why="it stays")
    before = a_plan(a_move("web-1"), a_move("web-2"), refused=[stays])
    now = a_plan(
        a_move("web-2", "node-c"),
        a_move("web-3"),
        nodes=[a_planned_node(missing=2), a_planned_node("node-c", "idle", 0)],
        evictions="real",
        planned_at=NOW + 240,
    )

    assert changed(before, now).splitlines() == [
        "What is new since the plan of 2027-01-15 08:00:00 UTC, 4 min before",
        f"+ shop/web-3  node-a → node-b  {HOT}",
        "- shop/web-1  node-a → node-b",
        "~ shop/web-2  node-a → node-c, before to node-b",
        "~ node node-a: hot, 2 evaluations needed (before hot, 3 evaluations needed); cpu 80.0%, memory 50.0%",
        "~ node node-c: idle (before neither hot nor touched); cpu 80.0%, memory 50.0%",
        "- stays: shop/db-0 on node-a: it stays",
        "~ evictions: real, before dry run",
    ]


def test_another_load_alone_is_no_change() -> None:
    """It is another one every few seconds."""
    now = a_plan(a_move(), nodes=[a_planned_node(before=Resources(cpu=0.81))], planned_at=NOW + 60)

    assert changes(a_plan(a_move()), now).none


def test_clusters_have_their_own_last_plan(tmp_path: Path) -> None:
    """Told apart by the Lease, for behind a port-forward all have one URL; what cannot be read is none."""
    plans = LastPlans({"XDG_CACHE_HOME": str(tmp_path)})
    other = a_plan(leader=LeaseEpoch(lease_uid="../other", transitions=1, holder="x"))
    plans.keep(a_plan(a_move()))

    assert plans.last(a_plan()) == a_plan(a_move())
    assert plans.last(other) is None
    (file,) = (tmp_path / "equipoise" / "plans").iterdir()
    file.write_text("{")
    assert plans.last(a_plan()) is None


def test_a_cache_that_is_not_absolute_is_ignored(tmp_path: Path) -> None:
    """As the XDG specification asks."""
    LastPlans({"XDG_CACHE_HOME": "here", "HOME": str(tmp_path)}).keep(a_plan())

    assert list((tmp_path / ".cache" / "equipoise" / "plans").iterdir())
