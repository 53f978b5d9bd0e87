"""`equipoise report`: figures, page, output and exit codes."""

import json
from collections.abc import AsyncIterator
from functools import partial
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest
from builders import a_node_utilization
from bus_worlds import NatsWorld
from cli.narrow import UNFOLDED, assert_never_cut, printed
from cli.programs import run
from cli.reclaimed_nodes import a_reclaimed_node

from equipoise.cli.report import sentences
from equipoise.cli.report.figures import (
    AvoidableLoad,
    HintGroup,
    NodeAboveThreshold,
    PlacementReport,
    RegretSum,
    ReportTotals,
    without_overlap,
)
from equipoise.cli.report.page import page
from equipoise.cli.report.run import show
from equipoise.cli.report.waiting import read_waiting
from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.advice import AdvisedNode, ClusterReview, PlacementAdvice
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import connect
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.process.clock import SystemClock

HOUR = 500_000 * 3_600.0
HIGH = Resources(cpu=0.65, memory=0.8)


def a_node(node: str, score: float, cpu: float = 0.3, share: float = 0.1, memory: float = 0.2) -> AdvisedNode:
    """`cpu` and `memory`: load with the pod; `share`: load of the pod."""
    return AdvisedNode(
        node=node,
        score=score,
        load=Resources(cpu=cpu - share, memory=memory - share / 10),
        with_pod=Resources(cpu=cpu, memory=memory),
    )


def an_advice(number: int = 1, regret: float = 40.0, workload: str = "web", **fields: object) -> PlacementAdvice:
    """A pod on a hot node (85 % with it), whose best node would be at 40 %."""
    defaults = {
        "pod_uid": f"uid-{number}",
        "namespace": "shop",
        "pod": f"{workload}-{number}",
        "workload": Workload(kind="Deployment", group="apps", namespace="shop", name=workload),
        "node": "hot",
        "policy": "water_level",
        "considered": 5,
        "chosen": a_node("hot", 90.0 - regret, cpu=0.85),
        "best": a_node("cool", 90.0, cpu=0.4),
        "rank": 3 if regret else 1,
        "regret": regret,
        "high": HIGH,
        "placed_at": HOUR + number,
        "advised_at": HOUR + number,
    }
    return PlacementAdvice(**(defaults | fields))  # type: ignore[arg-type]


def a_review(since: float, until: float, seen: float | None = None, **fields: object) -> ClusterReview:
    defaults = {"seen": until - since if seen is None else seen, "nodes": 5.0, "high": HIGH}
    return ClusterReview(since=since, until=until, **(defaults | fields))  # type: ignore[arg-type]


def reported(*messages: PlacementAdvice | ClusterReview) -> PlacementReport:
    totals = ReportTotals()
    for each in messages:
        if isinstance(each, PlacementAdvice):
            totals.add_advice(each)
        else:
            totals.add_review(each)
    return totals.report(HOUR, HOUR + 7 * 86_400)


def test_placements_that_would_have_been_elsewhere_are_counted() -> None:
    """They have a better node, by at least 5 points, and the response would not have been neutral."""
    unknown = msgspec.structs.replace(an_advice(5), rank=None, regret=None, chosen=None, best=None)
    report = reported(
        an_advice(1, regret=0.0),
        an_advice(2, regret=4.9),
        an_advice(3, neutral=True),
        an_advice(4, regret=5.0),
        unknown,
    )

    assert (report.placements, report.rated, report.elsewhere) == (5, 4, 1)
    assert report.regret_histogram == [3, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    assert report.policies == ["water_level"]


def test_regret_quantiles_cover_all_rated_placements() -> None:
    """Also those without regret; unknown without any placement."""
    report = reported(*(an_advice(number, regret=float(number)) for number in range(11)))

    assert (report.regret_median, report.regret_p90) == (5.0, 9.0)
    assert reported().regret_median is None


def test_workloads_and_nodes_are_ordered_by_regret() -> None:
    """The first ten by the sum of their regret; a bare pod counts by itself."""
    many = [an_advice(number, 20.0 + number, f"app-{number}", node=f"node-{number}") for number in range(12)]
    alone = msgspec.structs.replace(an_advice(20, 90.0, node="node-1"), workload=None)
    report = reported(*many, alone, an_advice(21, 0.0, "app-11"))

    assert len(report.workloads) == len(report.nodes) == 10
    assert report.workloads[:2] == [
        RegretSum(name="shop/web-20 (no workload)", placements=1, elsewhere=1, regret=90.0),
        RegretSum(name="Deployment/shop/app-11", placements=2, elsewhere=1, regret=31.0),
    ]
    assert report.nodes[0] == RegretSum(name="node-1", placements=2, elsewhere=2, regret=111.0)


PREFERRED, NEITHER, AVOIDED = (PlacedHint(preferred=2, avoided=1, weight=weight) for weight in (50, 0, -30))


def test_placements_are_counted_by_their_hint() -> None:
    """With the regret of each group, and how many would have followed their hint by chance: 2 of 5 nodes."""
    hints = (PREFERRED, PREFERRED, PREFERRED, NEITHER, AVOIDED, PlacedHint(), None)
    nothing = {"rank": None, "regret": None, "chosen": None, "best": None, "considered": 0}
    unrated = msgspec.structs.replace(an_advice(7, hint=AVOIDED), **nothing)
    report = reported(*(an_advice(number, 2.0 * number, hint=hint) for number, hint in enumerate(hints)), unrated)

    assert report.hints == [
        HintGroup(node="preferred", placements=3, rated=3, elsewhere=0, regret_median=2.0),
        HintGroup(node="neither", placements=1, rated=1, elsewhere=1, regret_median=6.0),
        HintGroup(node="avoided", placements=2, rated=1, elsewhere=1, regret_median=8.0),
        HintGroup(node="none", placements=1, rated=1, elsewhere=1, regret_median=10.0),
        HintGroup(node="unknown", placements=1, rated=1, elsewhere=1, regret_median=12.0),
    ]
    assert report.hint_chance == 0.4
    assert sentences.hints(report) == (
        "Placement hints: 6 of 7 pods were created with one; 3 of them (50%, by chance 40%) were placed on a preferred "
        "node, 2 on an avoided one. Of 1 more it is unknown."
    )


def test_unknown_hints_are_not_shown_as_none() -> None:
    """The advice of earlier releases does not have them. Without hints, nothing is compared."""
    unknown, without = reported(an_advice()), reported(an_advice(hint=PlacedHint()))

    assert sentences.hints(unknown) == "Placement hints: unknown whether pods were created with one."
    assert sentences.hints(without) == "Placement hints: 0 of 1 pod was created with one."
    assert [table.title for table in sentences.tables(without)] == [table.title for table in sentences.tables(unknown)]


def test_hints_are_on_the_terminal_and_on_the_page() -> None:
    """The sentence, the table and the note; without hints only the sentence."""
    hinted, without = (reported(an_advice(hint=hint)) for hint in (PREFERRED, PlacedHint()))
    for text in (printed(partial(show, hinted), UNFOLDED), page(hinted)):
        assert "1 of 1 pod was created with one; 1 of them (100%, by chance 40%) were placed on a preferred" in text
        assert "Pods by placement hint" in text
        assert "What placement hints won is not known" in text
    for text in (printed(partial(show, without), UNFOLDED), page(without)):
        assert "0 of 1 pod was created with one" in text
        assert "Pods by placement hint" not in text
        assert "What placement hints won" not in text


def test_time_above_the_thresholds_is_summed_over_hours() -> None:
    """As a share of the observed time, not of the period of the report."""
    report = reported(
        a_review(HOUR, HOUR + 3_600, over={"a": 3_600.0, "b": 60.0}, spread=Resources(cpu=0.6), skipped=2),
        a_review(HOUR + 3_600, HOUR + 5_400, over={"a": 900.0}, spread=Resources(cpu=0.3), skipped=1),
    )

    assert report.observed == 5_400
    assert report.above_threshold == [
        NodeAboveThreshold(node="a", seconds=4_500.0, share=0.8333),
        NodeAboveThreshold(node="b", seconds=60.0, share=0.0111),
    ]
    assert report.spread == Resources(cpu=0.5)
    assert report.skipped == 3


@pytest.mark.parametrize(("required", "hot"), [(False, {"busy", "hurt", "waits"}), (True, {"hurt", "waits"})])
def test_a_node_is_hot_by_load_and_pressure_as_for_the_descheduler(required: bool, hot: set[str]) -> None:
    """With `requirePressure`, the time in which a node is only busy does not count."""
    totals = ReportTotals()
    totals.add_review(
        a_review(
            HOUR, HOUR + 3_600,
            over={"busy": 600.0, "hurt": 600.0}, over_without_pressure={"busy": 600.0, "hurt": 60.0},
            under_with_pressure={"waits": 300.0},
        )
    )  # fmt: skip
    report = totals.report(HOUR, HOUR + 3_600, require_pressure=required)

    assert {each.node for each in report.above_threshold} == hot
    assert {each.seconds for each in report.above_threshold if each.node == "hurt"} == {540.0 if required else 600.0}


def test_reviews_of_several_scorers_count_once() -> None:
    """Of overlapping parts the one that observed most counts; a restarted scorer adds its part."""
    whole = a_review(HOUR, HOUR + 3_600)
    other = a_review(HOUR, HOUR + 3_600, seen=3_000)
    late = a_review(HOUR + 1_800, HOUR + 3_600)
    before, after = a_review(HOUR + 3_600, HOUR + 4_000), a_review(HOUR + 4_100, HOUR + 7_200)

    assert without_overlap([late, other, whole]) == [whole]
    assert without_overlap([before, after]) == [after, before]
    assert reported(late, other, whole, before, after).observed == 3_600 + 400 + 3_100


def test_a_growing_review_counts_once() -> None:
    """The latest one contains the earlier ones."""
    assert reported(a_review(HOUR, HOUR + 300), a_review(HOUR, HOUR + 600)).observed == 600


def test_the_avoidable_load_is_the_excess_above_the_threshold() -> None:
    """The smaller of the pod's load and the excess of its node; the better node stays below its thresholds."""
    whole = an_advice(chosen=a_node("hot", 10.0, cpu=0.85, share=0.1))
    part = an_advice(chosen=a_node("warm", 10.0, cpu=0.68, share=0.1), best=a_node("calm", 90.0, cpu=0.5))

    assert reported(whole, part).avoidable == AvoidableLoad(placements=2, cpu=13.0, memory=0.0)


@pytest.mark.parametrize(
    "fields",
    [
        {"chosen": a_node("hot", 10.0, cpu=0.65)},
        {"best": a_node("cool", 90.0, cpu=0.66)},
        {"best": a_node("cool", 90.0, memory=0.9)},
        {"best": AdvisedNode(node="cool", score=90.0, load=Resources(cpu=0.1), with_pod=Resources(cpu=0.2))},
        {"regret": 4.0},
        {"neutral": True},
        {"high": Resources()},
    ],
)
def test_no_load_is_avoidable_without_an_excess_and_a_better_node(fields: dict[str, object]) -> None:
    """The better node must stay below its thresholds, and the placement must count as elsewhere."""
    assert reported(an_advice(**fields)).avoidable == AvoidableLoad(placements=0, cpu=0.0, memory=0.0)


def test_the_same_excess_is_not_avoidable_twice() -> None:
    """Without two of three pods their node is below its threshold; after an hour counting starts again."""
    burst = [an_advice(number) for number in range(3)]
    hot = [an_advice(number, chosen=a_node("hot", 10.0, cpu=0.8)) for number in range(3)]

    assert reported(*burst).avoidable == AvoidableLoad(placements=2, cpu=20.0, memory=0.0)
    assert reported(*hot).avoidable == AvoidableLoad(placements=2, cpu=15.0, memory=0.0)
    assert reported(hot[0], hot[1], an_advice(5, advised_at=HOUR + 4_000)).avoidable.placements == 3


def test_a_better_node_is_not_filled_twice() -> None:
    """Earlier placements count on it."""
    narrow = [an_advice(number, node="x", chosen=a_node(f"hot-{number}", 10.0, cpu=0.9)) for number in range(3)]
    close = [an_advice(n, chosen=each.chosen, best=a_node("cool", 90.0, cpu=0.5)) for n, each in enumerate(narrow)]

    assert reported(*close).avoidable.placements == 2


class Reader(HTMLParser):
    """The tags and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag != "meta":
            self.open.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_needs_no_other_file() -> None:
    """No script and no link; names are escaped."""
    text = page(reported(an_advice(node="<script>"), an_advice(2), a_review(HOUR, HOUR + 3_600, over={"<b>": 60.0})))
    reader = Reader()
    reader.feed(text)

    assert reader.open == []
    assert reader.links == []
    assert {"table", "svg"} <= set(reader.tags)
    assert "script" not in reader.tags
    assert "b" in reader.tags
    assert "&lt;b&gt;" in text


def test_a_page_without_placements_is_valid() -> None:
    """It has no tables."""
    reader = Reader()
    reader.feed(page(reported(a_review(HOUR, HOUR + 300))))

    assert reader.open == []
    assert "table" not in reader.tags


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[NatsWorld]:
    """A server with our users."""
    (tmp_path / "password").write_text("secret")
    world = NatsWorld(tmp_path / "nats", permission_file(dict.fromkeys(USERS, "secret")))
    await world.start()
    await setup_streams(as_user(world, "setup", tmp_path), intent_max_age=60)
    yield world
    await world.stop()


def as_user(world: NatsWorld, user: str, folder: Path) -> Nats:
    return Nats(url=world.settings.url, user=user, password_file=str(folder / "password"))


async def test_the_user_tap_may_read_the_report(world: NatsWorld, tmp_path: Path) -> None:
    """As text, as JSON and as a page; exit code 0."""
    async with connect(as_user(world, "scorer", tmp_path), "scorer") as bus:
        for number in range(3):
            advice = an_advice(number)
            await bus.publish(subjects.placement_advice("shop", advice.pod, advice.pod_uid), advice)
        await bus.publish(subjects.cluster_review(500_000, int(HOUR)), a_review(HOUR, HOUR + 3_600, over={"hot": 60.0}))
    options = ("--nats", world.settings.url, "--user", "tap", "--password-file", tmp_path / "password")
    code, text = await run("report", *options, "--html", tmp_path / "report.html")
    _, encoded = await run("report", "--since", "12h", *options, "-o", "json")
    report = json.loads(encoded)

    assert code == 0, text
    assert "3 pods placed, 3 of them rated; 3 (100%) would have been placed elsewhere" in text
    assert "Deployment/shop/web" in text
    assert (report["placements"], report["elsewhere"], report["observed"]) == (3, 3, 3_600)
    assert report["above_threshold"] == [{"node": "hot", "seconds": 60.0, "share": 0.0167}]
    assert "Deployment/shop/web" in (tmp_path / "report.html").read_text()
    assert "idle" not in report
    assert "Idle capacity" not in text

    async with connect(as_user(world, "reclaimer", tmp_path), "reclaimer") as bus:
        message = a_reclaimed_node("hot", evaluated_at=SystemClock().now())
        await bus.publish(subjects.reclaimed_node("hot"), message)
    _, text = await run("report", "--since", "7d", *options)
    assert "Idle capacity: unknown of 1 node: its usage is known for 0 of 24 hours." in text


async def test_the_report_of_the_past_has_the_advice_about_pressure_of_the_report_of_now(
    world: NatsWorld, tmp_path: Path
) -> None:
    """By the thresholds of the descheduler that runs. Nothing is stated about nodes whose messages are old."""
    now = SystemClock().now()
    calm = NodePressure(sampled_at=now, waiting=Pressure(cpu=0.02))
    async with connect(as_user(world, "collector", tmp_path), "collector") as bus:
        for name, cpu, sampled_at in (("busy", 9.0, now), ("idle", 1.0, now), ("silent", 9.0, now - 900)):
            message = a_node_utilization(name, cpu=cpu, pressure=calm, sampled_at=sampled_at)
            await bus.publish(subjects.node_utilization(name), message)
    async with connect(as_user(world, "descheduler", tmp_path), "descheduler") as bus:
        settings = {"thresholds": {"pressure": {"cpu": 30}}, "descheduler": {}, "load": {}}
        running = EffectiveConfiguration(
            service="descheduler", id="descheduler-1", version="1", hash="", settings=settings, started_at=now, at=now
        )
        await bus.publish(subjects.configuration("descheduler", "descheduler-1"), running)

    server, clock = as_user(world, "tap", tmp_path), SystemClock()
    waiting = await read_waiting(server, clock)
    assert waiting is not None
    assert (waiting.thresholds.cpu, waiting.configured, waiting.required) == (30, True, False)
    assert (waiting.only_busy, waiting.hurt) == (["busy"], {})
    text = sentences.waiting(msgspec.structs.replace(reported(), waiting=waiting))
    assert "1 node is only busy: above the load threshold, and pods do not wait: busy." in text
    assert "With descheduler.requirePressure: true and thresholds.pressure: {cpu: 30}, a node keeps its pods" in text
    assert sentences.waiting(reported()) == ""


async def test_without_advice_the_exit_code_is_1(world: NatsWorld, tmp_path: Path) -> None:
    """The error states what to check; an invalid period is exit code 2."""
    options = ("--nats", world.settings.url, "--user", "tap", "--password-file", tmp_path / "password")
    code, text = await run("report", "--since", "7d", *options)
    invalid, error = await run("report", "--since", "a week")

    assert code == 1
    assert "scorer.advice.perSecond" in text
    assert invalid == 2
    assert "'a week' is not a duration" in error
    assert "Traceback" not in text + error


def test_no_terminal_is_too_narrow_for_a_report() -> None:
    """The rows have bars."""
    report = reported(
        *(an_advice(number, hint=PREFERRED) for number in range(8)), a_review(HOUR, HOUR + 3_600, over={"hot": 900.0})
    )
    assert_never_cut(show, report)
