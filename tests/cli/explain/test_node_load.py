"""`equipoise explain node`: why a node is hot, by the thresholds that run, and its pods by usage."""

import io
import json
from typing import Any

from builders import GIB, NOW, a_node_utilization, a_placed_pod, a_placement
from cli.buses import Bus
from cli.effective.test_effective import published
from cli.narrow import assert_never_cut
from msgspec.structs import replace
from rich.console import Console

from equipoise.cli.effective.running import RunningConfiguration, running_configurations
from equipoise.cli.explain.node import EXAMPLE, show_load
from equipoise.cli.explain.node_load import ExplainedLoad, headline, lines, node_load
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.messages.descheduling import DescheduleDecision, NodeClassification
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

RUNNING = running_configurations([published("descheduler-1")], "descheduler", NOW)


def usage(cpu: float, **fields: Any) -> NodeUtilization:
    """The usage of a node with 10 cores, 64 GiB and two measured pods."""
    pods = {"uid-small": Resources(cpu=0.5, memory=GIB), "uid-big": Resources(cpu=5.0, memory=2 * GIB)}
    return a_node_utilization(cpu=cpu, pods=pods, system=Resources(cpu=0.75, memory=GIB), **fields)


def placed() -> NodePlacement:
    pods = [a_placed_pod("small"), a_placed_pod("big"), a_placed_pod("new"), a_placed_pod("ending", terminating=True)]
    return a_placement(pods=pods)


def found(
    cpu: float = 8.21, running: list[RunningConfiguration] = RUNNING, decisions: tuple[DescheduleDecision, ...] = ()
) -> ExplainedLoad:
    return node_load("node-a", usage(cpu), placed(), decisions, running, NOW)


def text(load: ExplainedLoad) -> list[str]:
    return [f"{label}: {line}" for label, line in lines(load, NOW)]


def test_a_hot_node_states_what_is_above_which_threshold() -> None:
    assert headline(found()) == "hot: cpu 82.1% is above 65%"
    assert headline(found(cpu=4)) == "load cpu 40.0%, memory 6.2% of 10.00 cores, 64.00 GiB"
    assert text(found())[0] == (
        "thresholds: hot above cpu 65%, memory 80%; idle at or below cpu 45%, memory 60% "
        "(descheduler-1, published 4 s ago)"
    )


def test_the_thresholds_are_those_that_run_and_not_the_defaults() -> None:
    """Nobody runs: they are not known, and no node is called hot."""
    settings = {**RUNNING[0].settings, "thresholds": {"high": {"cpu": 90.0}}}
    other = [replace(RUNNING[0], settings=settings)]
    assert found(running=other).over == []
    assert found(running=[]).over == []
    assert found(running=[]).thresholds.startswith("not known: no descheduler has published its configuration")


def test_a_node_states_how_long_its_processes_wait() -> None:
    """With the threshold of the running descheduler; or why it is unknown."""
    settings = {**RUNNING[0].settings, "thresholds": {"pressure": {"cpu": 20.0, "io": None}}}
    other = [replace(RUNNING[0], settings=settings)]

    def explained(pressure: NodePressure) -> ExplainedLoad:
        return node_load("node-a", usage(4.0, pressure=pressure), placed(), (), other, NOW)

    waiting = explained(NodePressure(sampled_at=NOW - 6, waiting=Pressure(cpu=0.31, io=0.5)))
    unknown = explained(NodePressure(sampled_at=NOW - 6, unknown={"cpu": "its counters are not in seconds"}))
    assert headline(waiting) == "hot: pods wait for CPU 31% of the time (above 20%)"
    assert "waits for: CPU 31%, disks 50% of the time (newest sample 6 s old)" in text(waiting)
    assert "waits for: unknown: its counters are not in seconds" in text(unknown)


def test_a_node_that_is_being_emptied_states_since_when() -> None:
    tainted = replace(placed(), taints=[consolidation_taint(NOW)])
    load = node_load("node-a", usage(1.0), tainted, (), RUNNING, NOW)

    assert text(load)[0] == "node: being emptied by consolidation since 2027-01-15 08:00 UTC"


def test_its_pods_are_listed_by_usage() -> None:
    """The larger share of cpu or memory decides; unmeasured pods are unknown, not 0."""
    pods = found().pods
    assert [pod.pod for pod in pods] == ["shop/big", "shop/small", "shop/ending", "shop/new"]
    assert [pod.state for pod in pods] == ["", "", "terminating", "not measured yet"]
    assert pods[3].usage == Resources()


def test_what_is_not_in_the_load_yet_is_named() -> None:
    shown = text(found())
    assert "terminating: 1 pod still in the load: shop/ending" in shown
    assert "unmeasured: 1 pod not in the load yet: shop/new" in shown
    assert "system: 0.75 cores, 1.00 GiB outside of pods" in shown
    assert any(line.startswith("load: 5m cpu 82.1%, memory 6.2%; 15m ") for line in shown)


def test_the_last_evaluation_of_each_strategy_is_shown() -> None:
    def decision(strategy: str, at: float, count: int) -> DescheduleDecision:
        node = NodeClassification(
            node="node-a", state="hot", load=Resources(cpu=0.8), abnormal_evaluations=count, why="cpu is above"
        )
        return DescheduleDecision(strategy=strategy, evaluated_at=at, nodes=[node], intents=[])

    decisions = (decision("a", NOW - 200, 2), decision("b", NOW - 90, 1), decision("a", NOW - 80, 3))
    assert found(decisions=decisions).evaluations == [
        "a, 80 s ago: hot, cpu 80.0%, memory ?, 3 in a row of 5 needed: cpu is above",
        "b, 90 s ago: hot, cpu 80.0%, memory ?, 1 in a row of 5 needed: cpu is above",
    ]
    assert "evaluation: none of the last 10 minutes has this node" in text(found())


def test_a_node_without_measurement_is_unknown_and_not_idle() -> None:
    nothing = node_load("node-a", None, placed(), (), RUNNING, NOW)
    assert headline(nothing) == "load unknown: no collector has published its usage in the last 30 minutes"
    assert len(nothing.pods) == 4
    uncovered = node_load("node-a", usage(1.0, windows={}), None, (), RUNNING, NOW)
    assert headline(uncovered) == "load unknown: samples cover no window"
    future = node_load("node-a", usage(1.0, sampled_at=NOW + 9), None, (), RUNNING, NOW)
    assert not [line for line in text(future) if "-" in line.partition("sample")[2]]


def test_no_terminal_is_too_narrow() -> None:
    assert_never_cut(lambda shown, to: show_load(shown, to, NOW, wide=True), found())
    out = io.StringIO()
    many = replace(found(), pods=found().pods * 10)
    show_load(many, Console(file=out, width=200), NOW, wide=False)
    assert "Pods by usage (first 15 of 40, -o wide has all)" in out.getvalue()


async def test_the_command_needs_no_scorer_and_calls_its_score_an_example(bus: Bus) -> None:
    """The user tap reads what the bus retains; also in JSON."""
    clock = SystemClock()
    now = clock.now()
    async with (
        open_bus(bus.settings("collector"), "collector", clock, None) as collector,
        open_bus(bus.settings("descheduler"), "descheduler", clock, None) as descheduler,
    ):
        measured = usage(8.21, node="node-a", sampled_at=now - 5)
        await collector.publish(subjects.node_utilization("node-a"), replace(measured, queried_at=now))
        await collector.publish(subjects.node_placement("node-a"), placed())
        message: EffectiveConfiguration = replace(published("descheduler-1"), at=now, started_at=now)
        await descheduler.publish(subjects.configuration("descheduler", "descheduler-1"), message)
    code, output = await bus.run("explain", "node", "node-a")
    _, encoded = await bus.run("explain", "node", "node-a", "-o", "json")
    unknown, error = await bus.run("explain", "node", "node-z")

    assert code == 0, output
    assert "node-a: hot: cpu 82.1% is above 65%" in output
    assert output.index("Pods by usage") < output.index("no example of a score: no scorer responds at ")
    assert EXAMPLE.startswith("Example, not a pod of this cluster")
    assert json.loads(encoded)["load"]["over"] == ["cpu 82.1% is above 65%"]
    assert (unknown, "nothing is known of node node-z" in error) == (1, True)
