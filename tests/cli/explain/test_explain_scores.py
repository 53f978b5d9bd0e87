"""`equipoise explain pod` and `node`: output and exit codes."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import builders
import pytest
from builders import (
    GIB,
    NOW,
    a_batch_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_window,
    a_workload,
    a_workload_utilization,
)
from cli.buses import Bus
from cli.narrow import assert_never_cut
from cli.reclaimed_nodes import a_reclaimed_node
from prometheus_client import CollectorRegistry
from rich.console import Console
from scorer.clusters import a_batch_request, a_cycle, a_pod, a_scoring_state

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.explain.scores import pod_request, show
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.scorer.decisions.explanations.explanation import explain
from equipoise.scorer.decisions.scoring_settings import BandScoring
from equipoise.scorer.service import Scorer
from equipoise.scorer.settings import ScorerSettings

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")


@pytest.fixture(scope="module")
async def scored(bus: Bus) -> AsyncIterator[Bus]:
    """A scorer with three nodes; the pod shop/web-1 is on the first."""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        collector = await stack.enter_async_context(open_bus(bus.settings("collector"), "collector", clock, None))
        service = await stack.enter_async_context(open_bus(bus.settings("scorer"), "scorer", clock, None))
        now = clock.now()
        pod = a_placed_pod("web-1", placed_at=now - 200, running_since=now - 190)
        for node, cpu in {"node-a": 2.0, "node-b": 3.0, "node-c": 7.0}.items():
            pods = [pod] if node == "node-a" else []
            placement = a_placement(node, pods)
            windows = {name: a_window(cpu, 4 * GIB, now) for name in ("5m", "15m", "1h", "1d")}
            used = {each.uid: Resources(cpu=0.4, memory=GIB) for each in pods}
            utilization = a_node_utilization(node, sampled_at=now, queried_at=now, windows=windows, pods=used)
            await collector.publish(subjects.node_placement(node), placement)
            await collector.publish(subjects.node_utilization(node), utilization)
        await collector.publish(subjects.utilization_cycle("0"), a_cycle(3, queried_at=now))
        metrics = CollectorRegistry()
        scorer = Scorer(
            settings=ScorerSettings(listen="127.0.0.1:0"),
            load=LoadSettings(),
            thresholds=Thresholds(),
            bus=service,
            clock=clock,
            health=Health(configuration_hash="", metrics=metrics),
            metrics=metrics,
        )
        await scorer.attach()
        yield bus


async def test_without_a_scorer_the_exit_code_is_1(bus: Bus) -> None:
    """The error states what to check. Runs before the fixture `scored`."""
    code, output = await bus.run("explain", "pod", "shop/web-1")

    assert code == 1
    assert output == f"Error: no scorer responds at {bus.url}: check that one is running and ready (/readyz)\n"


async def test_the_user_tap_may_explain_a_pod(scored: Bus) -> None:
    """The best node comes first, with a label; without colors on a pipe."""
    code, output = await scored.run("explain", "pod", "shop/web-1")
    cluster, *lines = output.splitlines()
    ranking = next(number for number, line in enumerate(lines) if line.split()[:1] == ["node"])

    assert code == 0, output
    assert cluster.startswith(f"messages of {scored.url}, not compared with a cluster (no kubeconfig at /nowhere")
    assert lines[0] == "shop/web-1 of Deployment/shop/web, placed on node-a (its load there is scored without the pod)"
    assert lines[1].startswith(
        "expected usage: 0.50 cores (request), 1.00 GiB (request); sources in order of precedence: measured, request"
    )
    assert lines[ranking + 1].startswith("best")
    assert "\x1b" not in output
    assert "Nearest change of the ranking: " in output
    assert "departed: shop/web-1 (this pod)" in output


async def test_json_has_the_whole_explanation(scored: Bus) -> None:
    """One object on stdout, also for a node."""
    code, output = await scored.run("explain", "node", "node-c", "-o", "json")
    shown = json.loads(output)
    explanation = shown["example"]

    assert code == 0
    assert [each["node"] for each in explanation["nodes"]][-1] == "node-c"
    assert explanation["nodes"][-1]["windows"][0]["measured"]["mean"]["cpu"] == 7.0
    assert shown["load"]["node"] == "node-c"
    assert not {"reclaimed", "co_located"} & shown.keys(), "there is no reclaimer"


async def test_with_a_reclaimer_a_node_shows_what_it_offers(scored: Bus) -> None:
    clock = SystemClock()
    async with open_bus(scored.settings("reclaimer"), "reclaimer", clock, None) as reclaimer:
        message = a_reclaimed_node("node-b", evaluated_at=clock.now())
        await reclaimer.publish(subjects.reclaimed_node("node-b"), message)
    code, output = await scored.run("explain", "node", "node-b")

    assert code == 0
    assert "\nreclaimed: mode enforce, written to its status; evaluated " in output


async def test_the_hint_of_a_pod_is_unknown_without_its_cluster(scored: Bus) -> None:
    """The pod is in the API server. `null` alone would mean that it was created without a hint."""
    code, output = await scored.run("explain", "pod", "shop/web-1", "-o", "json")
    explanation = json.loads(output)

    assert code == 0
    assert (explanation["hint"], "no kubeconfig" in explanation["hint_problem"]) == (None, True)


async def test_an_unknown_pod_is_exit_code_1(scored: Bus) -> None:
    """The error is the scorer's."""
    code, output = await scored.run("explain", "pod", "shop/web-7", "-o", "json")

    assert code == 1
    assert output == (
        "Error: the scorer has not received a placement of pod shop/web-7, and can explain only placed pods: "
        "see `kubectl -n shop get pod web-7 -o wide`\n"
    )


@pytest.mark.parametrize("name", ["web-1", "/web-1", "shop/", "a/b/c", ""])
def test_a_pod_name_requires_its_namespace(name: str) -> None:
    """Anything else is invalid input."""
    with pytest.raises(InvalidInput, match="use NAMESPACE/NAME"):
        pod_request(name, "")


# text


def shown(explanation: Explanation, requested_node: str = "", **console: object) -> str:
    out = io.StringIO()
    show(explanation, Console(file=out, highlight=False, width=200, **console), requested_node)  # type: ignore[arg-type]
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_the_ranking_has_ten_nodes_and_the_current_and_the_requested_one() -> None:
    """These two are shown whatever their rank, with all their inputs."""
    state = a_scoring_state({f"n{number:02}": 0.5 + 0.25 * number for number in range(30)})
    state.on_placement(a_placement("n25", [a_placed_pod("web-1")], sequence=2), NOW)
    explanation = explain(state, ExplainRequest(namespace="shop", name="web-1", node="n29"), NOW)
    text = shown(explanation, "n29")
    ranking = text.split("\n\n")[1].splitlines()

    assert len(ranking) == 1 + 10 + 2
    assert next(line for line in ranking if "n25" in line).startswith("current")
    assert ranking[1].startswith("best")
    assert f"n29: rank {explanation.nodes[-1].rank} of 30" in text
    assert "30 nodes considered" in text


def test_the_inputs_of_a_window_are_one_row() -> None:
    """Measured + arrived − departed + reserved of the base, then the load, now and with the pod."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    late = a_placed_pod("web-1", placed_at=NOW - 160, running_since=NOW - 150)
    state.nodes.on_workload(a_workload_utilization(cpu=1.0), NOW)
    state.on_placement(a_placement("low", [late], sequence=2), NOW)
    state.nodes.on_utilization(a_node_utilization("low", 1.0, sequence=2), NOW)
    state.prioritize(a_pod("other", cpu=0.25), ["low"], NOW)
    text = shown(explain(state, ExplainRequest(pod=a_pod(cpu=0.5)), NOW + 1))

    row = next(line.split() for line in text.splitlines() if line.startswith("15m "))

    assert row[1:6] == ["cpu,", "cores", "1.00", "0.83", "(1)"]
    assert row[6:12] == ["–", "0.25", "10.00", "20.8%", "→", "25.8%"]
    assert row[12:] == ["1.0", "of", "180", "s"]
    assert "\n5m (unused)  cpu, cores       1.00   0.50 (1)  " in text
    assert "\narrived: shop/web-1\n" in text
    assert "reserved: 1 pods that may be placed here by the latest responses" in text


def test_an_unknown_load_is_shown_as_unknown() -> None:
    """Never as 0, and with the reason."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    state.on_placement(a_placement("silent"), NOW)
    text = shown(explain(state, ExplainRequest(pod=a_pod(), node="silent"), NOW), "silent")

    row = next(line for line in text.splitlines() if "silent" in line)
    assert row.split()[:5] == ["silent", "0", "0.0", "?", "?"]
    assert "never" in row
    assert "no utilization was received" in row
    assert "unknown: samples do not cover it" in text


@pytest.mark.parametrize(
    ("hint", "line"),
    [
        (PlacedHint(preferred=20, avoided=3, weight=-50), "its node is avoided with weight 50"),
        (PlacedHint(preferred=20, avoided=3), "20 nodes preferred, 3 avoided; its node is neither"),
        (PlacedHint(), ""),
        (None, ""),
    ],
)
def test_the_hint_of_the_pod_is_shown_below_its_node(hint: PlacedHint | None, line: str) -> None:
    """Of a pod that was created with one."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    state.on_placement(a_placement("over", [a_placed_pod("web-1", hint=hint)], sequence=2), NOW)
    second = shown(explain(state, ExplainRequest(namespace="shop", name="web-1"), NOW)).splitlines()[1]

    assert second.endswith(line)
    assert second.startswith("created with a placement hint" if line else "expected usage")


def test_a_neutral_score_is_shown_in_the_headline() -> None:
    """With the reason; no node is labeled as best."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    state.on_cycle(a_cycle(10, sequence=2), NOW)
    text = shown(explain(state, ExplainRequest(pod=a_pod(workload=a_workload())), NOW))

    assert "all nodes get the same score: the load of 2 of 10 nodes is known, 70% needed\n" in text
    assert "best" not in text


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Text has colors on a terminal unless NO_COLOR is set."""
    explanation = explain(a_scoring_state({"low": 1.0, "over": 6.0}), ExplainRequest(pod=a_pod()), NOW)
    monkeypatch.setenv("TERM", "xterm-256color")
    colored = shown(explanation, force_terminal=True)
    monkeypatch.setenv("NO_COLOR", "1")
    plain = shown(explanation, force_terminal=True)

    assert "\x1b[1;32m" in colored
    assert "32m" not in plain


def test_no_age_is_negative() -> None:
    """The clock of the scorer may be behind that of Prometheus."""
    state = a_scoring_state({"low": 1.0, "over": 6.0})
    text = shown(explain(state, ExplainRequest(pod=a_pod(), node="low"), NOW - 3.0))
    assert " 0.0 s" in text
    assert "-3.0 s" not in text


def test_no_terminal_is_too_narrow_for_scores() -> None:
    """The ranking has a column for each part of the score."""
    state = a_scoring_state({f"n{number:02}": 0.5 + 0.25 * number for number in range(12)})
    state.on_placement(a_placement("n05", [a_placed_pod("web-1")], sequence=2), NOW)
    state.on_placement(a_placement("silent"), NOW)
    explanation = explain(state, ExplainRequest(namespace="shop", name="web-1", node="silent"), NOW)
    assert_never_cut(lambda shown, to: show(shown, to, shown.nodes[-1].node), explanation)


def test_a_batch_pod_shows_its_band_and_both_loads_of_a_node() -> None:
    """What is left with the pod, of what, for how many hours; and the load without and with batch work."""
    job = a_batch_pod("job-1")
    state = a_scoring_state({"node-a": 6.0}, pods={"node-a": [job]}, reclaimed=BandScoring(enabled=True))
    used = {job.uid: Resources(cpu=2.0, memory=GIB)}
    state.nodes.on_utilization(a_node_utilization("node-a", 6.0, pods=used, sequence=2), NOW)
    state.nodes.on_reclaimed(builders.a_reclaimed_node("node-a", batch=Resources(cpu=4.0, memory=8 * GIB)), NOW)

    output = " ".join(shown(explain(state, ExplainRequest(pod=a_batch_request("job-2")), NOW)).split())

    assert (
        "band batch, for 6 hours: left with the pod: cpu 2.00 of 10.00 cores, of 4.00 reclaimed with 1.00 requested "
        "and 0.00 reserved; memory 6.00 of 64.00 GiB, of 8.00 reclaimed with 1.00 requested and 0.00 reserved; "
        "evaluated 0.0 s ago"
    ) in output
    assert "load of high-priority pods cpu 40.0%, memory 4.7%, of all pods cpu 60.0%, memory 6.2%" in output
    assert "batch work: shop/job-1" in output
    assert "1.60 (1)" in output


def test_without_batch_work_nothing_of_it_is_shown() -> None:
    """Nor of bands."""
    output = shown(explain(a_scoring_state({"node-a": 6.0}), ExplainRequest(pod=a_pod()), NOW))

    assert "batch" not in output
    assert "band" not in output
