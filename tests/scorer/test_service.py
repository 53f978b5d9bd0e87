"""The scorer on the bus."""

import msgspec
import pytest
from builders import (
    GIB,
    NOW,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_workload,
    a_workload_utilization,
    an_intent,
)
from scorer.conftest import Running, Start
from scorer.fleets import a_cycle, a_pod
from scorer.test_after_eviction import an_outcome
from scorer.test_extender import fill

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice, ScoresFollowed
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import Filtering, PrioritizeQuestion, Ranking, ScoreDecision
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.water_level import ResourceWeights, WaterLevel
from equipoise.scorer.decisions.score_integers import NEUTRAL
from equipoise.scorer.settings import AdviceSettings, ScorerSettings
from equipoise.scorer.state.arrays import Array, Demand, NodeLoads

NAMES = ["node-a", "node-b", "node-c"]


async def test_questions_on_the_bus_are_answered(start: Start) -> None:
    """`score.prioritize` and `score.filter`, with the same answers as over HTTP."""
    running = await start()
    await fill(running)
    question = PrioritizeQuestion(pod=a_pod(cpu=0.5), nodes=[*NAMES, "node-a"])

    ranking = await running.bus.request(subjects.SCORE_PRIORITIZE, question, Ranking, timeout=1)
    filtering = await running.bus.request(subjects.SCORE_FILTER, question, Filtering, timeout=1)

    assert ranking.scores == {"node-a": 10, "node-b": 5, "node-c": 1}
    assert not ranking.neutral
    assert filtering.nodes == ["node-a", "node-b"]


async def test_ready_once_the_last_values_were_heard(start: Start) -> None:
    """Readiness does not wait for data to be good: that is told beside it."""
    running = await start()

    assert "warm-up" not in running.health.report().waiting_for
    assert running.health.problems == ["no collector has completed a cycle yet"]

    await fill(running)
    await running.clock.advance(6)

    assert running.health.problems == []


async def test_a_restarted_scorer_gives_the_same_answers(start: Start) -> None:
    """Everything it needs are the last values on the bus, evictions of the last minutes among them."""
    first = await start()
    await fill(first)
    await first.bus.publish(subjects.workload_utilization(a_workload_utilization().workload), a_workload_utilization())
    late = a_placed_pod("late", placed_at=NOW - 30, running_since=NOW - 20)
    await first.bus.publish(subjects.node_placement("node-b"), a_placement("node-b", [late], sequence=2))
    await first.bus.publish(subjects.eviction_outcome("shop", "web-1"), an_outcome(node="node-a", target="node-b"))
    await first.bus.settled()
    pod = a_pod("asks", workload=a_workload_utilization().workload)
    before = first.scorer.prioritize(pod, NAMES).scores.tolist()
    await first.stop()

    second = await start(bus=first.bus, clock=first.clock)

    assert second.scorer.prioritize(pod, NAMES).scores.tolist() == before
    assert before[0] == 0
    assert before[1] == 10


async def test_a_replacement_that_asks_before_the_outcome_does_not_go_home(start: Start) -> None:
    """From the intent on the source gets 0 and the target 10; a refusal ends that."""
    running = await start()
    await fill(running)
    pod = a_pod("web-2", workload=a_workload(), cpu=0.5)
    before = running.scorer.prioritize(pod, NAMES).scores.tolist()
    await running.bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent(node="node-a", target="node-b"))
    await running.bus.settled()
    announced = running.scorer.prioritize(pod, NAMES).scores.tolist()
    refusal = an_outcome(node="node-a", target="node-b", outcome=Outcome.BLOCKED_PDB)
    await running.bus.publish(subjects.eviction_outcome("shop", "web-1"), refusal)
    await running.bus.settled()

    assert before[0] == 10
    assert announced[:2] == [0, 10]
    assert running.scorer.prioritize(pod, NAMES).scores.tolist() == before


async def test_neutral_is_a_switch(start: Start) -> None:
    """With it every node is equal, whatever is known, and no node is refused."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)

    answer = running.scorer.prioritize(a_pod(), NAMES)

    assert answer.scores.tolist() == [NEUTRAL] * 3
    assert running.scorer.filter(a_pod(cpu=9.0), NAMES).refused == {}
    assert running.metrics.get_sample_value("equipoise_score_neutral_total", {"reason": "setting"}) == 1


async def test_decisions_are_published(start: Start) -> None:
    """With the pod's name in the subject, neutral ones too."""
    running = await start()
    await fill(running)
    running.scorer.prioritize(a_pod("web-5"), NAMES)
    await running.clock.advance(0)

    said = running.bus.published(ScoreDecision, subjects.decision("scorer", "shop", "web-5"))

    assert [each.best[0].node for each in said] == ["node-a"]


async def test_only_so_many_decisions_are_published(start: Start) -> None:
    """Ten at once, ten a second after: a burst of pods does not flood the bus, and answers go on."""
    running = await start()
    await fill(running)
    for number in range(50):
        running.scorer.prioritize(a_pod(f"web-{number}"), NAMES)
    await running.clock.advance(1)
    for number in range(50):
        running.scorer.prioritize(a_pod(f"web-{number}"), NAMES)
    await running.clock.advance(0)

    assert len(running.bus.published(ScoreDecision, "equipoise.decision.scorer.>")) == 20


async def test_a_lost_bus_does_not_stop_answers(start: Start) -> None:
    """Without the bus the last picture holds until it is too old; then scores are neutral."""
    running = await start()
    await fill(running)
    running.bus.disconnect()

    assert not running.scorer.prioritize(a_pod(), NAMES).neutral
    await running.clock.advance(200)
    assert running.scorer.prioritize(a_pod(), NAMES).neutral
    assert running.task is not None
    assert not running.task.done()


async def test_outdated_messages_are_counted(start: Start) -> None:
    """They are dropped, not taken for news."""
    running = await start()
    await fill(running)
    await running.bus.publish(
        subjects.node_utilization("node-a"), a_node_utilization("node-a", 9.9, epoch=0, sequence=0)
    )
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(99, epoch=-1))
    await running.bus.settled()

    kinds = ("node_utilization", "utilization_cycle", "node_placement")
    name = "equipoise_score_outdated_messages_total"
    assert [running.metrics.get_sample_value(name, {"kind": kind}) for kind in kinds] == [1.0, 1.0, None]
    assert running.scorer.prioritize(a_pod(cpu=0.5), NAMES).scores.tolist() == [10, 5, 1]


async def test_scores_followed_are_measured(start: Start) -> None:
    """The share of pods placed on a best node of their answer, beside what chance would give."""
    running = await start()
    await fill(running)
    running.scorer.prioritize(a_pod("web-5"), NAMES)
    placed = a_placed_pod("web-5", uid="uid-web-5", placed_at=NOW, running_since=None)
    await running.bus.publish(subjects.node_placement("node-a"), a_placement("node-a", [placed], sequence=2))
    await running.bus.settled()

    assert running.metrics.get_sample_value("equipoise_scores_followed_ratio") == 1.0
    assert running.metrics.get_sample_value("equipoise_scores_followed_by_chance_ratio") == 1 / 3


async def test_a_policy_without_any_measured_window_is_a_problem(start: Start) -> None:
    """Every score would be neutral for ever: that is said."""
    policy = WaterLevel(window_weights={"7d": 1.0})
    running = await start(ScorerSettings(listen="127.0.0.1:0", policy=policy))

    assert any("7d" in problem for problem in running.health.problems)


def newly_placed(name: str, running: Running, **fields: object) -> PlacedPod:
    defaults = {"workload": a_workload(), "placed_at": running.clock.now(), "running_since": None}
    return a_placed_pod(name, **(defaults | fields))


async def place(running: Running, node: str, *pods: PlacedPod, sequence: int = 2) -> None:
    await running.bus.publish(subjects.node_placement(node), a_placement(node, list(pods), sequence=sequence))
    await running.bus.settled()


def advised(running: Running) -> dict[str, PlacementAdvice]:
    return {each.pod: each for each in running.bus.published(PlacementAdvice, "equipoise.advice.placement.>")}


async def test_a_statistic_that_nobody_measures_is_a_problem(start: Start) -> None:
    """Else a policy that hangs on it would be silently neutral; it is over when the first node has it."""
    running = await start(ScorerSettings(policy=RiskBalancing()))
    await fill(running)
    await running.clock.advance(6)
    before = running.health.problems
    measured = a_node_utilization("node-a", 2.0, sequence=9)
    windows = {
        name: msgspec.structs.replace(window, deviation=Resources(cpu=0.1, memory=GIB))
        for name, window in measured.windows.items()
    }
    await running.bus.publish(subjects.node_utilization("node-a"), msgspec.structs.replace(measured, windows=windows))
    await running.clock.advance(6)

    assert [text for text in before if text.startswith("the policy looks at deviation, which no node has")]
    assert running.health.problems == []


async def test_a_placed_pod_gets_advice(start: Start) -> None:
    """Also when nobody asks and every answer is neutral: rank, regret and the best node, under its name."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running))

    [told] = running.bus.published(PlacementAdvice, subjects.placement_advice("shop", "web-5", "uid-web-5"))
    assert (told.rank, told.node, told.policy) == (3, "node-c", "profile")
    assert told.best is not None
    assert told.best.node == "node-a"
    assert running.metrics.get_sample_value("equipoise_placement_advice_total", {"result": "told"}) == 1


async def test_what_was_there_at_the_beginning_gets_no_advice(start: Start) -> None:
    """A scorer that comes back does not know how things were; nor does it speak twice of the same pod."""
    first = await start()
    await fill(first)
    await place(first, "node-c", newly_placed("web-5", first))
    await first.stop()
    second = await start(bus=first.bus, clock=first.clock)
    await place(second, "node-c", newly_placed("web-5", first), newly_placed("web-6", first), sequence=3)
    await second.clock.advance(1)

    assert [each.pod for each in first.bus.published(PlacementAdvice, "equipoise.advice.placement.>")] == [
        "web-5",
        "web-6",
    ]


async def test_who_had_no_choice_gets_no_advice(start: Start) -> None:
    """A DaemonSet's pod, and one that came so long ago that loads were others."""
    running = await start()
    await fill(running)
    daemon = newly_placed("agent-1", running, workload=a_workload("agent", kind="DaemonSet"))
    late = newly_placed("late-1", running, placed_at=NOW - 1_000)
    await place(running, "node-c", daemon, late, newly_placed("web-5", running))
    await running.clock.advance(1)

    assert set(advised(running)) == {"web-5"}


async def test_advice_is_given_at_a_pace(start: Start) -> None:
    """One after the other, so that questions come in between; what comes faster is counted as skipped."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", advice=AdviceSettings(per_second=10)))
    await fill(running)
    await place(running, "node-c", *(newly_placed(f"web-{number}", running) for number in range(30)))

    assert len(advised(running)) == 1
    await running.clock.advance(0.15)
    assert len(advised(running)) == 2
    await running.clock.advance(10)
    assert len(advised(running)) == 10
    assert running.metrics.get_sample_value("equipoise_placement_advice_total", {"result": "skipped"}) == 20


async def test_advice_can_be_switched_off(start: Start) -> None:
    """0 a second: nothing is scored, nothing is counted as skipped."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", advice=AdviceSettings(per_second=0)))
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running))
    await running.clock.advance(1)

    assert advised(running) == {}
    assert running.metrics.get_sample_value("equipoise_placement_advice_total", {"result": "skipped"}) is None


async def test_a_lost_bus_does_not_end_advice(start: Start) -> None:
    """What cannot be said then is dropped and counted; the next is said."""
    running = await start()
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running), newly_placed("web-6", running))
    running.bus.disconnect()
    await running.clock.advance(1)
    await running.bus.reconnect()
    await place(running, "node-b", newly_placed("web-7", running))
    await running.clock.advance(1)

    assert set(advised(running)) == {"web-5", "web-7"}
    assert running.metrics.get_sample_value("equipoise_placement_advice_total", {"result": "dropped"}) == 1


async def test_the_fleet_is_reviewed(start: Start) -> None:
    """Every five minutes: how long each node was over its mark in this hour."""
    running = await start()
    running.scorer.on_asked(whole_nodes=False)
    for _ in range(4):
        now = running.clock.now()
        for node, cpu in {"node-a": 1.0, "node-b": 4.0, "node-c": 8.0}.items():
            await running.bus.publish(subjects.node_placement(node), a_placement(node))
            utilization = a_node_utilization(node, cpu, sampled_at=now, queried_at=now)
            await running.bus.publish(subjects.node_utilization(node), utilization)
        await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(3, queried_at=now))
        await running.clock.advance(100)

    [review] = running.bus.published(ClusterReview, f"equipoise.advice.cluster.{int(NOW // 3_600)}.*")
    assert review.over == {"node-c": review.seen}
    assert review.seen == review.until - review.since == 300
    assert review.spread.cpu == pytest.approx(0.7)
    assert review.scores == ScoresFollowed(requests=1)


async def test_a_shadow_policy_is_counted_and_told(start: Start) -> None:
    """How often it was asked, how often it disagreed, and what it would have answered."""
    first = WaterLevel(resource_weights=ResourceWeights(cpu=1.0, memory=0.0))
    shadow = WaterLevel(resource_weights=ResourceWeights(cpu=0.0, memory=1.0))
    running = await start(ScorerSettings(listen="127.0.0.1:0", policy=first, shadow=shadow))
    await fill(running)
    await running.bus.publish(subjects.node_utilization("node-c"), a_node_utilization("node-c", 8.0, GIB, sequence=2))
    await running.bus.publish(
        subjects.node_utilization("node-a"), a_node_utilization("node-a", 1.0, 60 * GIB, sequence=2)
    )
    await running.bus.settled()
    scores = running.scorer.prioritize(a_pod("web-5", cpu=0.5), NAMES).scores.tolist()
    await running.clock.advance(0)
    [said] = running.bus.published(ScoreDecision, subjects.decision("scorer", "shop", "web-5"))

    assert said.shadow is not None
    assert said.shadow.policy == "water_level"
    assert scores[0] == 10
    assert "node-a" not in said.shadow.best
    assert not said.shadow.agrees
    assert running.metrics.get_sample_value("equipoise_shadow_questions_total") == 1
    assert running.metrics.get_sample_value("equipoise_shadow_disagreements_total") == 1


async def test_a_shadow_policy_that_fails_is_a_problem(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is switched off and said once; answers go on."""
    policy = WaterLevel(window_weights={"5m": 1.0})
    running = await start(ScorerSettings(listen="127.0.0.1:0", shadow=policy))
    await fill(running)
    real = WaterLevel.score

    def score(self: WaterLevel, nodes: NodeLoads, demand: Demand) -> Array:
        if self == policy:
            raise OverflowError("too much")
        return real(self, nodes, demand)

    monkeypatch.setattr(WaterLevel, "score", score)
    scores = [running.scorer.prioritize(a_pod(cpu=0.5), NAMES).scores.tolist() for _ in range(3)]

    assert scores == [[10, 5, 1]] * 3
    assert running.health.problems == ["the shadow policy failed and is off: water_level: OverflowError: too much"]
    assert running.metrics.get_sample_value("equipoise_shadow_failures_total") == 1
    assert running.metrics.get_sample_value("equipoise_shadow_questions_total") == 0
