"""The scorer on the bus."""

from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_workload, a_workload_utilization, an_intent
from scorer.conftest import Start
from scorer.fleets import a_cycle, a_pod
from scorer.test_after_eviction import an_outcome
from scorer.test_extender import fill

from equipoise.contracts import subjects
from equipoise.contracts.messages import Filtering, Outcome, PrioritizeQuestion, Ranking, ScoreDecision
from equipoise.scorer.answer import NEUTRAL
from equipoise.scorer.policies.water_level import WaterLevel
from equipoise.scorer.settings import ScorerSettings

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
    assert running.health.problems == ["no collector has ended a round yet"]

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

    said = running.bus.said(ScoreDecision, subjects.decision("scorer", "shop", "web-5"))

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

    assert len(running.bus.said(ScoreDecision, "equipoise.decision.scorer.>")) == 20


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
