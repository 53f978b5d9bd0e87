"""`equipoise plan`: its output, the differences between two plans, and its exit codes."""

import asyncio
import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload
from bus_worlds import eventually, free_port
from cli.buses import Bus
from cli.http_clusters import OWN, HttpCluster
from cli.narrow import assert_never_cut
from cli.programs import run, started
from descheduler.cluster import Cluster
from rich.console import Console

from equipoise.cli.bus.messages import send_request
from equipoise.cli.hints.state import HintsState
from equipoise.cli.plan.changes import LastPlans, plan_changes
from equipoise.cli.plan.plan_hints import PlanHints, target_hints
from equipoise.cli.plan.plan_limits import PlanLimits
from equipoise.cli.plan.run import show, show_changes
from equipoise.cli.plan.waiting import waiting_nodes
from equipoise.cli.status.in_effect import InEffect
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import PLAN_PREVIEW
from equipoise.contracts.hints.hints_object import stored_hints
from equipoise.contracts.hints.policy import NAME
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.descheduling import DryRunMove, NodeCooldown, RefusedMove
from equipoise.contracts.messages.health import DRY_RUN, REAL, Heartbeat
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint
from equipoise.contracts.messages.plan import (
    PendingMove,
    PlannedBand,
    PlannedMove,
    PlannedNode,
    PlanRequest,
    PlanResponse,
)
from equipoise.contracts.messages.values.lease import LeaseEpoch
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.nats.nats_bus import NatsBus, open_bus
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import HINTS, LEASES, NODES
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.kube import MemoryKube

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

HOT = "node is hot: cpu 80.0% is above 65%"


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


def test_a_shortened_plan_says_so() -> None:
    """What is missing is missing in every list below."""
    to = io.StringIO()
    show(a_plan(shortened="without 250 of 500 refused"), Console(file=to, width=200))

    assert "The plan was too large for the bus: it is without 250 of 500 refused." in to.getvalue()


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


# the command


@dataclass
class Leader:
    """A descheduler that leads, without heartbeats of binders."""

    bus: Bus
    binder: NatsBus
    kube: MemoryKube

    async def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        return await self.bus.run(*arguments, **variables)

    @property
    def lease_uid(self) -> str:
        (lease,) = self.kube.stored(LEASES)
        return lease.metadata.uid

    async def a_binder_reports(self, evictions: str) -> None:
        """Until the plan has it."""
        heartbeat = Heartbeat(
            service="binder", id="binder-1", version="1", ready=True, evictions=evictions, at=SystemClock().now()
        )
        settings, planned = self.bus.settings("tap"), ""
        while planned != evictions:
            await self.binder.publish(subjects.health("binder", "binder-1"), heartbeat)
            plan = await send_request(settings, PLAN_PREVIEW, PlanRequest(), PlanResponse, no_responder="")
            planned = plan.evictions


@pytest.fixture(scope="module")
async def leader(bus: Bus) -> AsyncIterator[Leader]:
    """A leading descheduler, with node-a at 80 % and two idle nodes."""
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
        binder = await stack.enter_async_context(open_bus(bus.settings("binder"), "binder", clock, None))
        cluster.bus = service  # type: ignore[assignment]
        descheduler = cluster.descheduler()
        await descheduler.attach()
        running = asyncio.create_task(descheduler.run())
        await eventually(lambda: cluster.health.leading is True)
        yield Leader(bus, binder, cluster.kube)  # type: ignore[arg-type]
        running.cancel()
        await asyncio.wait([running])


async def test_without_a_leader_the_exit_code_is_1(bus: Bus, tmp_path: Path) -> None:
    """The error states what to check. Runs before the fixture `leader`."""
    code, output = await bus.run("plan", XDG_CACHE_HOME=str(tmp_path))

    assert code == 1
    assert output == (
        f"Error: no descheduler leads at {bus.url}, and only the leader has a plan: check that one is running and "
        "holds its Lease (`leading` in its /readyz)\n"
    )


async def test_without_a_leader_the_holder_of_the_lease_is_named(
    bus: Bus, cluster: HttpCluster, tmp_path: Path
) -> None:
    """In the cluster of the kubeconfig: it uses another NATS server. Runs before the fixture `leader`."""
    renewed = datetime.fromtimestamp(SystemClock().now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "vm-1", "leaseDurationSeconds": 600, "renewTime": renewed}
    cluster.leases = [{"metadata": {"name": "equipoise-descheduler", "namespace": OWN}, "spec": spec}]
    code, output = await bus.run("plan", XDG_CACHE_HOME=str(tmp_path), KUBECONFIG=str(cluster.file))

    assert code == 1
    assert output.endswith(
        f"; in cluster castle {cluster.url} (context home), Lease {OWN}/equipoise-descheduler is held by vm-1: "
        "use its NATS server\n"
    )


async def test_an_unreachable_server_is_reported_after_the_timeout() -> None:
    """Services wait for the bus without end; a command does not."""
    url = f"nats://127.0.0.1:{free_port()}"

    with pytest.raises(BusUnavailable, match=f"no connection to {url} within 0.2 s: check --nats"):
        await send_request(Nats(url=url), PLAN_PREVIEW, PlanRequest(), PlanResponse, no_responder="", timeout=0.2)


async def test_the_user_tap_may_show_the_plan(leader: Leader, tmp_path: Path) -> None:
    """Moves with source and target, and the load of nodes; without colors on a pipe."""
    code, output = await leader.run("plan", XDG_CACHE_HOME=str(tmp_path))
    lines = output.splitlines()

    assert code == 1, output
    expected = "not compared with a cluster (no kubeconfig at /nowhere: use --kubeconfig)"
    assert lines[0] == f"messages of {leader.bus.url}, {expected}"
    assert lines[1].startswith("2 pods would move (3 nodes, ")
    assert lines[2] == "evictions: unknown, no heartbeat of a binder: check that one is running"
    assert lines[-1] == "Error: it is unknown whether binders evict"
    assert "Nothing is proposed until the hot node stays above its threshold for " in output
    moves = [line.split() for line in lines if line.startswith("shop/app")]
    assert len(moves) == 2
    assert {move[1][:-1] for move in moves} == {"Deployment/app"}
    assert [move[2:6] for move in moves] == [["node-a", node, "1.00", "cores,"] for node in ("node-b", "node-c")]
    (node,) = [line for line in lines if line.startswith("node-a")]
    assert "80.0% → 60.0%" in node
    assert "\x1b" not in output


async def test_the_plan_names_its_cluster(leader: Leader, cluster: HttpCluster, tmp_path: Path) -> None:
    """Only if the descheduler that responded holds the Lease of the kubeconfig's cluster."""
    await leader.a_binder_reports(DRY_RUN)
    name = f"castle {cluster.url} (context home)"
    path = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/equipoise-descheduler"
    variables = {"XDG_CACHE_HOME": str(tmp_path), "KUBECONFIG": str(cluster.file)}

    missing = await leader.run("plan", **variables)
    cluster.objects[path] = {"metadata": {"name": "equipoise-descheduler", "namespace": OWN, "uid": "other"}}
    another = await leader.run("plan", **variables)
    cluster.objects[path]["metadata"]["uid"] = leader.lease_uid
    await leader.a_binder_reports(DRY_RUN)  # again: on a busy machine a command may take longer than a report lasts
    same = await leader.run("plan", **variables)
    await leader.a_binder_reports(DRY_RUN)
    changes = await leader.run("plan", "--diff", "-o", "json", **variables)
    await leader.a_binder_reports(DRY_RUN)
    encoded = await leader.run("plan", "-o", "json", **variables)

    assert missing[0] == 0
    assert missing[1].startswith(f"messages of {leader.bus.url}; the Lease of {name} cannot be read: 404")
    assert another[0] == 1
    assert another[1].startswith(f"cluster: NOT {name}: the descheduler at {leader.bus.url} holds another Lease")
    assert same[0] == 0, same[1]
    assert same[1].startswith(f"cluster: {name}\n2 pods would move")
    assert "\nevictions: dry run (binder.evict is false)\n" in same[1]
    shown = json.loads(changes[1])["cluster"]
    assert (shown["state"], shown["name"]["context"], shown["name"]["server"]) == ("confirmed", "home", cluster.url)
    assert json.loads(encoded[1])["hints"]["status"]["state"] == "off"


async def test_json_has_the_whole_plan_and_diff_the_changes(leader: Leader, tmp_path: Path) -> None:
    """One object on stdout; the second plan has no changes. Placement hints of an unknown cluster are unknown."""
    await leader.a_binder_reports(DRY_RUN)
    code, output = await leader.run("plan", "-o", "json", XDG_CACHE_HOME=str(tmp_path))
    _, same = await leader.run("plan", "--diff", XDG_CACHE_HOME=str(tmp_path))
    _, as_json = await leader.run("plan", "--diff", "-o", "json", XDG_CACHE_HOME=str(tmp_path))
    plan, changes = json.loads(output), json.loads(as_json)

    assert code == 0, output
    assert [(move["node"], move["target"]) for move in plan["moves"]] == [("node-a", "node-b"), ("node-a", "node-c")]
    assert plan["hints"] is None
    assert same.splitlines()[1].startswith("No changes since the plan of ")
    assert (changes["added"], changes["removed"], changes["nodes"]) == ([], [], [])
    assert changes["until"] > changes["since"]


async def test_scripts_may_have_an_exit_code_for_moves(leader: Leader, tmp_path: Path) -> None:
    """Without the option, moves are no failure."""
    await leader.a_binder_reports(DRY_RUN)
    with_moves, _ = await leader.run("plan", "--exit-code", XDG_CACHE_HOME=str(tmp_path))
    plain, _ = await leader.run("plan", XDG_CACHE_HOME=str(tmp_path))
    assert (with_moves, plain) == (3, 0)


async def test_a_watched_plan_is_shown_whole_and_then_its_changes(leader: Leader, tmp_path: Path) -> None:
    """One JSON object for each; nothing if nothing has changed."""
    await leader.a_binder_reports(DRY_RUN)
    options = ("--nats", leader.bus.url, "--user", "tap", "--password-file", leader.bus.password_file("tap"))
    watching = await started(
        "plan", "--watch", "1", "-o", "json", *options, KUBECONFIG="/nowhere", XDG_CACHE_HOME=str(tmp_path)
    )
    first = await watching.prints(r"(.*)\n")
    await leader.a_binder_reports(REAL)
    second = await watching.prints(r".*\n(.*)\n")
    watching.process.terminate()
    await watching.ends()
    assert json.loads(first[1])["evictions"] == DRY_RUN
    changes = json.loads(second[1])
    assert (changes["evictions_before"], changes["evictions"], changes["added"]) == (DRY_RUN, REAL, [])


async def test_a_watched_plan_in_yaml_has_a_document_for_each(leader: Leader, tmp_path: Path) -> None:
    await leader.a_binder_reports(DRY_RUN)
    options = ("--nats", leader.bus.url, "--user", "tap", "--password-file", leader.bus.password_file("tap"))
    watching = await started(
        "plan", "--watch", "1", "-o", "yaml", *options, KUBECONFIG="/nowhere", XDG_CACHE_HOME=str(tmp_path)
    )
    await watching.prints(rf"(?s)^---\n.*evictions: {DRY_RUN}\n.*cluster:")
    await leader.a_binder_reports(REAL)
    await watching.prints(rf"(?s)cluster:.*\n---\n.*evictions: {REAL}\n")
    watching.process.terminate()
    await watching.ends()


async def test_the_first_diff_shows_the_whole_plan(leader: Leader, tmp_path: Path) -> None:
    """In JSON all moves are added; a note on stderr states that there is no earlier plan."""
    await leader.a_binder_reports(DRY_RUN)
    _, output = await leader.run("plan", "--diff", XDG_CACHE_HOME=str(tmp_path / "one"))
    _, as_json = await leader.run("plan", "--diff", "-o", "json", XDG_CACHE_HOME=str(tmp_path / "two"))
    note, encoded = as_json.splitlines()

    assert "no earlier plan of this cluster: everything is new\n" in output
    assert "2 pods would move" in output
    assert note == "no earlier plan of this cluster: everything is new"
    assert [move["target"] for move in json.loads(encoded)["added"]] == ["node-b", "node-c"]


async def test_the_plan_is_shown_even_if_it_cannot_be_saved(leader: Leader, tmp_path: Path) -> None:
    """A note on stderr names the error."""
    await leader.a_binder_reports(DRY_RUN)
    (tmp_path / "file").write_text("")
    code, output = await leader.run("plan", XDG_CACHE_HOME=str(tmp_path / "file"))

    assert code == 0
    assert "2 pods would move" in output
    assert "could not save the plan for --diff: " in output


async def test_an_unknown_output_format_is_invalid_input() -> None:
    """Exit code 2."""
    code, output = await run("plan", "-o", "xml")

    assert code == 2
    assert "'xml' is not one of" in output


# text


def test_a_plan_of_several_strategies_names_them() -> None:
    """A node that is hot for two strategies is one hot node; a pod that both would move is in two rows."""
    moves = [a_move(), msgspec.structs.replace(a_move(), strategy="level_day")]
    nodes = [a_planned_node(), a_planned_node(strategy="level_day", missing=5)]
    text = shown(a_plan(*moves, nodes=nodes))
    rows = [line for line in text.splitlines() if line.startswith("shop/web-1")]
    assert ["low_node_load" in rows[0], "level_day" in rows[1]] == [True, True]
    assert "until the hot node stays above its threshold for" in text
    assert "strategy" not in shown(a_plan(a_move()))


@pytest.mark.parametrize("first", [0, 1])
def test_a_node_of_several_strategies_is_one_row(first: int) -> None:
    """The most urgent state, the fewest evaluations that are needed, and the reasons of all."""
    hot = a_planned_node(missing=3)
    others = [
        a_planned_node(strategy="level_day", missing=5, why="hot at 14:00"),
        a_planned_node(strategy="bin_pack", state="idle", missing=0, before=Resources(cpu=0.1, memory=0.1)),
    ]
    nodes = [hot, *others] if first == 0 else [*others, hot]
    table = shown(a_plan(a_move(), nodes=[*nodes, a_planned_node("node-b", "idle", 0)]))
    rows = [" ".join(line.split()) for line in table.partition("Nodes")[2].splitlines() if line.startswith("node-")]

    evaluations = "node-a hot 80.0% → 65.0% 50.0% → ? 3 (6 min)"
    assert f"{evaluations} low_node_load, level_day, bin_pack {HOT}; hot at 14:00" == rows[0]
    assert ["node-a", "node-b"] == [row.split()[0] for row in rows]


def test_wide_output_has_all_rows() -> None:
    """And the strategies."""
    refused = [RefusedMove(pod=f"shop/web-{n}", node="node-a", why="protected") for n in range(50)]
    text = io.StringIO()
    show(a_plan(a_move(), refused=refused), Console(file=text, width=220), wide=True)
    assert text.getvalue().count("protected") == 50
    assert "low_node_load" in text.getvalue()


def shown(plan: PlanResponse, hints: PlanHints | None = None, **console: object) -> str:
    out = io.StringIO()
    show(plan, Console(file=out, highlight=False, width=220, **console), hints=hints)  # type: ignore[arg-type]
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_a_plan_states_what_only_the_binder_knows_of_moves_without_a_gap() -> None:
    move = a_move()
    assert "Without a gap: only the binder reads Services" not in shown(a_plan(move))
    without_gap = shown(a_plan(msgspec.structs.replace(move, without_gap=True)))
    assert f"without a gap: {HOT}" in without_gap
    assert "Without a gap: only the binder reads Services and ResourceQuotas" in without_gap


def placed_without_scores(*nodes: str) -> PlanResponse:
    """Moves to node-b, with the node that kube-scheduler prefers for each replacement."""
    return a_plan(*(msgspec.structs.replace(a_move(f"web-{n}"), preferred_without_scores=n) for n in nodes))


def test_the_plan_says_how_many_replacements_would_follow_it_without_scores() -> None:
    """What is not known is not counted."""
    sentence = "Without the extender or placement hints, kube-scheduler would prefer"

    assert f"{sentence} the planned node for 1 of 2 replacements." in shown(
        placed_without_scores("node-b", "node-c", "")
    )
    assert f"{sentence} node-c for the replacement." in shown(placed_without_scores("node-c"))
    assert f"{sentence} the planned node for the replacement." in shown(placed_without_scores("node-b"))
    assert sentence not in shown(a_plan(a_move()))


def a_pending_move(pod: str, workload: Workload | None, target: str = "node-b") -> PendingMove:
    return PendingMove(namespace="shop", pod=pod, workload=workload, node="node-a", target=target)


PENDING = [
    a_pending_move("web-1", a_workload()),
    a_pending_move("web-2", a_workload(), "node-c"),
    a_pending_move("web-3", a_workload(), "node-d"),
    a_pending_move("db-1", a_workload("db")),
    a_pending_move("bare", None),
]


async def test_a_plan_shows_whether_hints_lead_replacements_to_their_targets() -> None:
    """By the labels of the targets. Of a target that is gone, or that the hint does not name, as of any other node."""
    kube = MemoryKube(SystemClock())
    for name in ("node-b", "node-c"):
        labels = {"kubernetes.io/hostname": f"host-{name}"}
        kube.put(NODES, Node(metadata=ObjectMeta(name=name, labels=labels)))
    hint = WorkloadHint(prefer=(WeightedNodes(weight=100, hostnames=("host-node-b",)),))
    stored = stored_hints({"Deployment.web": hint}, 1_000)
    kube.put(HINTS, msgspec.structs.replace(stored, metadata=ObjectMeta(name=NAME, namespace="shop")))
    plan = a_plan(pending=PENDING)
    pending = await target_hints(kube, plan)
    text = shown(plan, PlanHints(status=HintsState(state="on"), pending=pending))

    assert [("web-1", 100), ("web-2", 0), ("web-3", 0)] == [(each.pod, each.weight) for each in pending]
    assert "placement hints: on; once a move is proposed, new pods of its workload prefer the target" in text
    assert "node-a → node-b  proposed; new pods of its workload prefer the target with weight 100" in text
    assert "node-a → node-c  proposed; new pods of its workload do not prefer the target now" in text
    assert text.count("proposed; new pods of its workload get no hint") == 2


@pytest.mark.parametrize("hints", [None, PlanHints(status=HintsState(state="off"))])
def test_a_plan_does_not_mention_hints_that_are_off(hints: PlanHints | None) -> None:
    """Or unknown."""
    assert "hint" not in shown(a_plan(pending=PENDING), hints)


def test_a_plan_has_a_section_for_each_list() -> None:
    """Moves, nodes, refused moves, pending moves, dry-run moves, cooldowns."""
    text = shown(
        a_plan(
            a_move(),
            refused=[RefusedMove(pod="shop/db-0", node="node-a", why="its workload has too few replicas")],
            pending=[PendingMove(namespace="shop", pod="web-7", node="node-c", target="node-d", evicted_at=NOW)],
            dry_run_moves=[
                DryRunMove(namespace="shop", pod="web-8", node="node-e", target="node-f", since=0, until=NOW)
            ],
            cooldowns=[NodeCooldown(node="node-g", until=NOW, why="no load reduction, 2 times in a row")],
        )
    )

    assert "1 pod would move (40 nodes, 2027-01-15 08:00:00 UTC, planned by descheduler-1)\n" in text
    assert "evictions: dry run (binder.evict is false)\n" in text
    assert (
        "Nothing is proposed until the hot node stays above its threshold for 3 more evaluations (about 6 min).\n"
        in text
    )
    assert "shop/web-1  Deployment/web  node-a  node-b  1.50 cores, 2.00 GiB     ?  ?     07:59:55  node is hot" in text
    assert "node-a  hot    80.0% → 65.0%  50.0% → ?  3 (6 min)           node is" in text
    assert "\nNot moved\npod        node    reason\nshop/db-0  node-a  its workload has too few replicas\n" in text
    assert "shop/web-7  node-c → node-d  evicted at 08:00:00, replacement not placed yet" in text
    assert "Dry-run moves, counted above as done\n" in text
    assert "shop/web-8  node-e → node-f  2027-01-15 08:00:00 UTC" in text
    assert "node-g  2027-01-15 08:00:00 UTC  no load reduction, 2 times in a row" in text


def test_a_plan_shows_batch_work_and_the_bands_of_its_nodes() -> None:
    """Only where there are such pods and bands: otherwise the table has no such columns."""
    node = a_planned_node(
        batch_work=Resources(cpu=0.3, memory=0.125),
        bands={
            "batch": PlannedBand(
                offered=Resources(cpu=6.0, memory=8 * GIB), requested=Resources(cpu=4.0, memory=5 * GIB)
            )
        },
    )
    text = shown(a_plan(a_move(), nodes=[node, a_planned_node("node-b", "idle")]))

    assert "batch work" in text
    assert "cpu 30.0%, memory 12.5%" in text
    assert "batch 4.00 of 6.00 cores, 5.00 of 8.00 GiB" in text
    assert "batch work" not in shown(a_plan(a_move()))
    assert "reclaimed" not in shown(a_plan(a_move()))


def test_an_empty_plan_has_the_reason_of_each_strategy() -> None:
    """Below the state of evictions."""
    text = shown(a_plan(nodes=[], why={"low_node_load": "no node is above its threshold"}, evictions="paused: upgrade"))

    assert text.splitlines() == [
        "0 pods would move (40 nodes, 2027-01-15 08:00:00 UTC, planned by descheduler-1)",
        "evictions: paused: upgrade",
        "low_node_load: no node is above its threshold",
    ]


def test_long_lists_are_shortened_in_text() -> None:
    """The title has their number."""
    refused = [RefusedMove(pod=f"shop/web-{number}", node="node-a", why="protected") for number in range(50)]
    text = shown(a_plan(refused=refused))

    assert "Not moved (first 20 of 50, -o wide has all)" in text
    assert text.count("protected") == 20


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text has colors on a terminal unless NO_COLOR is set."""
    monkeypatch.setenv("TERM", "xterm-256color")
    colored = shown(a_plan(a_move()), force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(a_plan(a_move()), force_terminal=True)

    assert "\x1b[31m" in colored
    assert "31m" not in plain


# changes


def changed(before: PlanResponse, now: PlanResponse) -> str:
    out = io.StringIO()
    show_changes(plan_changes(before, now), Console(file=out, highlight=False, width=220))
    return out.getvalue()


def test_each_change_is_one_line() -> None:
    """Added, removed and retargeted moves, nodes, refused moves, and the state of evictions."""
    refused = RefusedMove(pod="shop/db-0", node="node-a", why="protected")
    before = a_plan(a_move("web-1"), a_move("web-2"), refused=[refused])
    now = a_plan(
        a_move("web-2", "node-c"),
        a_move("web-3"),
        nodes=[a_planned_node(missing=2), a_planned_node("node-c", "idle", 0)],
        evictions="real",
        planned_at=NOW + 240,
    )

    assert changed(before, now).splitlines() == [
        "Changes since the plan of 2027-01-15 08:00:00 UTC (4 min earlier)",
        f"+ shop/web-3  node-a → node-b  {HOT}",
        "- shop/web-1  node-a → node-b",
        "~ shop/web-2  node-a → node-c (was node-b)",
        "~ node node-a (low_node_load): hot, 2 evaluations needed (was hot, 3 evaluations needed); cpu 80.0%, "
        "memory 50.0%",
        "~ node node-c (low_node_load): idle (was not in the plan); cpu 80.0%, memory 50.0%",
        "- not moved: shop/db-0 on node-a: protected",
        "~ evictions: real (was dry run)",
    ]


def test_a_different_load_alone_is_no_change() -> None:
    """It differs every few seconds."""
    now = a_plan(a_move(), nodes=[a_planned_node(before=Resources(cpu=0.81))], planned_at=NOW + 60)

    assert plan_changes(a_plan(a_move()), now).empty


def test_each_cluster_has_its_own_last_plan(tmp_path: Path) -> None:
    """The Lease identifies it: behind a port-forward all have the same URL. An unreadable file counts as none."""
    plans = LastPlans({"XDG_CACHE_HOME": str(tmp_path)})
    other = a_plan(leader=LeaseEpoch(lease_uid="../other", transitions=1, holder="x"))
    plans.save(a_plan(a_move()))

    assert plans.last(a_plan()) == a_plan(a_move())
    assert plans.last(other) is None
    (file,) = (tmp_path / "equipoise" / "plans").iterdir()
    file.write_text("{")
    assert plans.last(a_plan()) is None


def test_a_relative_cache_directory_is_ignored(tmp_path: Path) -> None:
    """As the XDG specification requires."""
    LastPlans({"XDG_CACHE_HOME": "here", "HOME": str(tmp_path)}).save(a_plan())

    assert list((tmp_path / ".cache" / "equipoise" / "plans").iterdir())


def test_no_terminal_is_too_narrow_for_a_plan() -> None:
    """Tables and lines are folded, never cut."""
    move = a_move("checkout-7d9f8c6b5-x2x9k", target="ip-10-0-113-27.eu-central-1.compute.internal")
    refused = [RefusedMove(node="node-a", pod="shop/web-2", why="no target has room")]
    plan = a_plan(move, a_move(), refused=refused)
    assert_never_cut(show, plan)
    assert_never_cut(show_changes, plan_changes(a_plan(), plan))


# limits


def test_a_plan_shows_which_moves_the_limits_do_not_allow_now() -> None:
    """First the number that they allow, then each move."""
    why = "limits.evictionsPerCluster: evictions in the cluster in 10m: 1 of 1 allowed, again at 20:10:00 UTC"
    to = io.StringIO()
    limits = PlanLimits(refusals={"shop/web-2": why})
    show(a_plan(a_move(), a_move("web-2")), Console(file=to, width=300), limits=limits)
    text = to.getvalue()

    assert f"The limits allow 1 of these moves now ({why})" in text
    (allowed,) = [line for line in text.splitlines() if "shop/web-1" in line]
    (refused,) = [line for line in text.splitlines() if "shop/web-2" in line]
    assert f"not now: {HOT}" in refused
    assert "not now" not in allowed

    none = io.StringIO()
    show(a_plan(a_move("web-2")), Console(file=none, width=300), limits=limits)
    assert "The limits allow none of these moves now" in none.getvalue()


def test_a_plan_says_why_it_is_not_known_what_the_limits_allow() -> None:
    """No binder reports what it runs with."""
    to = io.StringIO()
    show(a_plan(a_move()), Console(file=to, width=300), limits=PlanLimits(problem="no binder reports"))

    assert "which moves the limits allow now is not known: no binder reports" in to.getvalue()


def test_a_node_of_two_strategies_waits_for_the_first_of_them() -> None:
    """It is one hot node."""
    nodes = [
        a_planned_node(missing=2),
        a_planned_node(strategy="level_day", missing=5),
        a_planned_node("node-b", missing=4),
    ]
    to = io.StringIO()
    show(a_plan(a_move(), nodes=nodes), Console(file=to, width=300))

    assert waiting_nodes(a_plan(nodes=nodes)) == {"node-a": 2, "node-b": 4}
    assert "until one of the 2 hot nodes stays above its threshold for 2 more evaluations" in to.getvalue()


@pytest.mark.parametrize(
    ("evictions", "line"),
    [
        ("real", "evictions: real, now restricted: paused: release\n"),
        ("dry run", "evictions: dry run (binder.evict is false), now restricted: paused: release\n"),
        ("paused: release", "evictions: paused: release\n"),
        ("", "evictions: unknown, no heartbeat of a binder: check that one is running\n"),
    ],
)
def test_what_restricts_evictions_is_stated_once(evictions: str, line: str) -> None:
    """ "evictions: real" alone was once shown in a maintenance time."""
    out = io.StringIO()
    in_effect = InEffect(restriction="paused: release", lines=["limits: of binder-1 (published 4 s ago)"])
    show(a_plan(evictions=evictions), Console(file=out, width=200, highlight=False), in_effect=in_effect)
    assert line in out.getvalue()
    assert "\nlimits: of binder-1 (published 4 s ago)\n" in out.getvalue()
