"""The scorer on the bus."""

import asyncio
from typing import Any

import msgspec
import pytest
from builders import (
    GIB,
    NOW,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_reclaimed_node,
    a_workload,
    a_workload_utilization,
    an_intent,
    nodes_being_emptied,
)
from scorer.clusters import a_batch_request, a_cycle, a_pod, an_outcome
from scorer.running import Running, Start, fill

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.server_tls import ServerTls
from equipoise.contracts.messages.advice import ClusterReview, PlacementAdvice, ScoresFollowed
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import PlacedHint, PlacedPod
from equipoise.contracts.messages.score import ExplainRequest, Explanation, ScoreDecision
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array
from equipoise.runtime.bus.codec import MAX_PAYLOAD
from equipoise.runtime.configuration import ConfigurationError
from equipoise.scorer.decisions.arrays import CandidateNodes, Demand
from equipoise.scorer.decisions.neutral_scores import NEUTRAL
from equipoise.scorer.decisions.policies.risk_balancing import RiskBalancing
from equipoise.scorer.decisions.policies.water_level import ResourceWeights, WaterLevel
from equipoise.scorer.decisions.scoring_settings import BandScoring
from equipoise.scorer.settings import AdviceSettings, ExtenderSettings, ScorerSettings

NAMES = ["node-a", "node-b", "node-c"]


def score(running: Running, pod: str = "new-1", **fields: object) -> list[int]:
    """Of the three nodes."""
    scores: list[int] = running.scorer.prioritize(a_pod(pod, **fields), NAMES).scores.tolist()  # type: ignore[arg-type]
    return scores


# messages


async def test_the_scorer_is_ready_when_the_last_values_are_received(start: Start) -> None:
    """Data problems do not delay it; they are reported."""
    running = await start()

    assert "warm-up" not in running.health.report().waiting_for
    assert len(running.health.problems) == 1

    await fill(running)
    await running.clock.advance(6)

    assert running.health.problems == []


async def test_a_restarted_scorer_returns_the_same_scores(start: Start) -> None:
    """Its state is the last values on the bus, including the evictions of the last minutes."""
    first = await start()
    await fill(first)
    await first.bus.publish(subjects.workload_utilization(a_workload_utilization().workload), a_workload_utilization())
    late = a_placed_pod("late", placed_at=NOW - 30, running_since=NOW - 20)
    await first.bus.publish(subjects.node_placement("node-b"), a_placement("node-b", [late], sequence=2))
    await first.bus.publish(subjects.eviction_outcome("shop", "web-1"), an_outcome(node="node-a", target="node-b"))
    await first.bus.settled()
    before = score(first, workload=a_workload_utilization().workload)
    await first.stop()

    second = await start(bus=first.bus, clock=first.clock)

    assert score(second, workload=a_workload_utilization().workload) == before
    assert before[:2] == [0, 10]


async def test_a_replacement_avoids_the_evicted_node_from_the_intent_on(start: Start) -> None:
    """Another outcome than evicted ends that."""
    running = await start()
    await fill(running)
    before = score(running, "web-2", workload=a_workload(), cpu=0.5)
    await running.bus.publish(subjects.eviction_intent("shop", "web-1"), an_intent(node="node-a", target="node-b"))
    await running.bus.settled()
    intended = score(running, "web-2", workload=a_workload(), cpu=0.5)
    refusal = an_outcome(node="node-a", target="node-b", outcome=Outcome.BLOCKED_PDB)
    await running.bus.publish(subjects.eviction_outcome("shop", "web-1"), refusal)
    await running.bus.settled()

    assert before[0] == 10
    assert intended[:2] == [0, 10]
    assert score(running, "web-2", workload=a_workload(), cpu=0.5) == before


async def test_a_node_that_is_being_emptied_scores_0_until_the_message_expires(start: Start) -> None:
    """Whatever its load is, and for pods of all workloads."""
    running = await start()
    await fill(running)
    before = score(running, "new-1")
    best = NAMES[before.index(max(before))]
    await running.bus.publish(subjects.NODES_EMPTYING, nodes_being_emptied(best, validity=60))
    await running.clock.advance(0)

    assert score(running, "new-2")[NAMES.index(best)] == 0
    assert max(score(running, "new-2")) > 0
    await running.clock.advance(61)
    assert score(running, "new-3") == before


async def test_outdated_messages_are_dropped_and_counted(start: Start) -> None:
    """Repeated and late ones."""
    running = await start()
    await fill(running)
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(3, epoch=1))
    outdated = a_node_utilization("node-a", 9.9, epoch=0, sequence=0)
    await running.bus.publish(subjects.node_utilization("node-a"), outdated)
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(99))
    await running.bus.settled()

    assert running.bus.errors.total("outdated") == 2
    assert score(running, cpu=0.5) == [10, 5, 1]


async def test_the_load_of_the_cluster_is_exported(start: Start) -> None:
    """As of the last ten seconds."""
    running = await start()
    await fill(running)
    await running.clock.advance(11)

    name = "equipoise_scorer_cluster_load_ratio"
    values = [running.metrics.get_sample_value(name, {"resource": "cpu", "statistic": each}) for each in ("min", "max")]
    assert values == [0.2, 0.9]


async def test_messages_of_the_far_future_are_dropped_and_counted(start: Start) -> None:
    """A single one could make all scores neutral until then: the collectors publish lower epochs, and other shards."""
    running = await start()
    await fill(running)
    far: dict[str, Any] = {"queried_at": 1e11, "epoch": 1_900_000_000_000}
    await running.bus.publish(subjects.node_utilization("node-a"), a_node_utilization("node-a", 9.9, **far))
    await running.bus.publish(subjects.utilization_cycle("ghost"), a_cycle(10**6, shard="ghost", **far))
    await running.bus.settled()

    assert running.bus.errors.total("outdated") == 2
    assert score(running, cpu=0.5) == [10, 5, 1]


async def test_scores_continue_without_the_bus_while_data_is_fresh(start: Start) -> None:
    """Then they are neutral."""
    running = await start()
    await fill(running)
    running.bus.disconnect()

    assert not running.scorer.prioritize(a_pod(), NAMES).neutral
    await running.clock.advance(200)
    assert running.scorer.prioritize(a_pod(), NAMES).neutral
    assert running.task is not None
    assert not running.task.done()


async def test_a_policy_without_any_measured_window_is_a_problem(start: Start) -> None:
    """Every score would be neutral."""
    policy = WaterLevel(window_weights={"7d": 1.0})
    running = await start(ScorerSettings(listen="127.0.0.1:0", policy=policy))

    assert any("7d" in problem for problem in running.health.problems)


async def test_a_statistic_that_is_not_measured_is_a_problem(start: Start) -> None:
    """A policy that needs it would be neutral; the problem ends when a node has it."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", policy=RiskBalancing()))
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

    assert [text for text in before if text.startswith("the policy uses deviation, which no node has")]
    assert running.health.problems == []


# scores


async def test_the_setting_neutral_makes_all_scores_equal(start: Start) -> None:
    """And refuses no node."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)

    assert score(running) == [NEUTRAL] * 3
    assert running.scorer.filter(a_pod(cpu=9.0), NAMES).refused == {}
    assert running.metrics.get_sample_value("equipoise_scorer_neutral_total", {"reason": "setting"}) == 1


async def test_decisions_are_published_under_the_name_of_the_pod(start: Start) -> None:
    """Neutral ones too."""
    running = await start()
    await fill(running)
    score(running, "web-5")
    await running.clock.advance(0)

    decisions = running.bus.published(ScoreDecision, subjects.decision("scorer", "shop", "web-5"))

    assert [each.best[0].node for each in decisions] == ["node-a"]


async def test_the_rate_of_published_decisions_is_limited(start: Start) -> None:
    """Ten at once, and ten a second later; scores are not limited."""
    running = await start()
    await fill(running)
    for number in range(50):
        score(running, f"web-{number}")
    await running.clock.advance(1)
    for number in range(50):
        score(running, f"web-{number}")
    await running.clock.advance(0)

    assert len(running.bus.published(ScoreDecision, "equipoise.decision.scorer.>")) == 20


async def test_followed_scores_are_measured(start: Start) -> None:
    """The share of pods placed on a best node of their response, and the share by chance."""
    running = await start()
    await fill(running)
    score(running, "web-5")
    placed = a_placed_pod("web-5", uid="uid-web-5", placed_at=NOW, running_since=None)
    await running.bus.publish(subjects.node_placement("node-a"), a_placement("node-a", [placed], sequence=2))
    await running.bus.settled()

    assert running.metrics.get_sample_value("equipoise_scores_followed_ratio") == 1.0
    assert running.metrics.get_sample_value("equipoise_scores_followed_by_chance_ratio") == 1 / 3


async def test_the_results_of_a_shadow_policy_are_counted_and_published(start: Start) -> None:
    """The number of requests and of disagreements, and its best nodes."""
    first = WaterLevel(resource_weights=ResourceWeights(cpu=1.0, memory=0.0))
    shadow = WaterLevel(resource_weights=ResourceWeights(cpu=0.0, memory=1.0))
    running = await start(ScorerSettings(listen="127.0.0.1:0", policy=first, shadow=shadow))
    await fill(running)
    await running.bus.publish(subjects.node_utilization("node-c"), a_node_utilization("node-c", 8.0, GIB, sequence=2))
    full_memory = a_node_utilization("node-a", 1.0, 60 * GIB, sequence=2)
    await running.bus.publish(subjects.node_utilization("node-a"), full_memory)
    await running.bus.settled()
    scores = score(running, "web-5", cpu=0.5)
    await running.clock.advance(0)
    [decision] = running.bus.published(ScoreDecision, subjects.decision("scorer", "shop", "web-5"))

    assert decision.shadow is not None
    assert decision.shadow.policy == "water_level"
    assert scores[0] == 10
    assert "node-a" not in decision.shadow.best
    assert not decision.shadow.agrees
    assert running.metrics.get_sample_value("equipoise_scorer_shadow_requests_total") == 1
    assert running.metrics.get_sample_value("equipoise_scorer_shadow_disagreements_total") == 1


async def test_a_failed_shadow_policy_is_a_problem(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is switched off and reported once; scores do not change."""
    policy = WaterLevel(window_weights={"5m": 1.0})
    running = await start(ScorerSettings(listen="127.0.0.1:0", shadow=policy))
    await fill(running)
    real = WaterLevel.score

    def failing(self: WaterLevel, nodes: CandidateNodes, demand: Demand) -> Array:
        if self == policy:
            raise OverflowError("too much")
        return real(self, nodes, demand)

    monkeypatch.setattr(WaterLevel, "score", failing)

    assert [score(running, cpu=0.5) for _ in range(3)] == [[10, 5, 1]] * 3
    assert running.health.problems == ["the shadow policy failed and is off: water_level: OverflowError: too much"]
    assert running.metrics.get_sample_value("equipoise_scorer_shadow_failures_total") == 1
    assert running.metrics.get_sample_value("equipoise_scorer_shadow_requests_total") == 0


# explanations


async def explain(running: Running, request: ExplainRequest) -> Explanation:
    return await running.bus.request(subjects.SCORE_EXPLAIN, request, Explanation, timeout=5)


async def test_explanations_have_the_scores_of_the_extender(start: Start) -> None:
    """As of now."""
    running = await start()
    await fill(running)
    pod = a_pod(cpu=0.5)
    scores = running.scorer.prioritize(pod, NAMES).scores.tolist()
    explanation = await explain(running, ExplainRequest(pod=pod))

    assert {each.node: each.extender_score for each in explanation.nodes} == dict(zip(NAMES, scores, strict=True))
    assert (explanation.policy, explanation.explained_at) == ("profile", NOW)


async def test_a_placed_pod_is_explained_by_its_name(start: Start) -> None:
    """An unknown pod is a problem in the explanation, not an error of the service."""
    running = await start()
    await fill(running)
    await running.bus.publish(subjects.node_placement("node-a"), a_placement("node-a", [a_placed_pod()], sequence=2))
    await running.bus.settled()
    known = await explain(running, ExplainRequest(namespace="shop", name="web-1"))
    unknown = await explain(running, ExplainRequest(namespace="shop", name="web-2"))

    assert known.current_node == "node-a"
    assert "has not received a placement of pod shop/web-2" in unknown.problem


async def test_the_setting_neutral_is_explained(start: Start) -> None:
    """Every node has the same score, whatever its points are."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)
    explanation = await explain(running, ExplainRequest(node="node-a"))

    assert (explanation.neutral, explanation.why) == (True, "scores are set to neutral (scorer.neutral)")


async def test_an_explanation_of_a_large_cluster_fits_into_one_message(start: Start) -> None:
    """The numbers of nodes and of pods in it are limited."""
    running = await start()
    await fill(running, {f"node-{number}": 2.0 + number / 100 for number in range(200)})
    for number in range(200):
        pods = [
            a_placed_pod(
                f"{'w' * 50}-{number}-{each}", placed_at=NOW - 50, running_since=NOW - 40, requests=Resources(cpu=0.01)
            )
            for each in range(100)
        ]
        name = f"node-{number}"
        await running.bus.publish(subjects.node_placement(name), a_placement(name, pods, sequence=2))
    await running.bus.settled()
    explanation = await explain(running, ExplainRequest(node="node-7", pod=a_pod(cpu=0.1)))

    assert explanation.considered == 200
    assert len(msgspec.json.encode(explanation)) < MAX_PAYLOAD / 5


# advice


def newly_placed(name: str, running: Running, **fields: object) -> PlacedPod:
    defaults = {"workload": a_workload(), "placed_at": running.clock.now(), "running_since": None}
    return a_placed_pod(name, **(defaults | fields))


async def place(running: Running, node: str, *pods: PlacedPod, sequence: int = 2) -> None:
    await running.bus.publish(subjects.node_placement(node), a_placement(node, list(pods), sequence=sequence))
    await running.bus.settled()


def advised(running: Running) -> list[str]:
    """Names of the pods with published advice."""
    return [each.pod for each in running.bus.published(PlacementAdvice, "equipoise.advice.placement.>")]


async def test_a_placed_pod_gets_advice(start: Start) -> None:
    """Also without a request, and with neutral scores: rank, regret and the best node, under the pod's name."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running))

    [advice] = running.bus.published(PlacementAdvice, subjects.placement_advice("shop", "web-5", "uid-web-5"))
    assert (advice.rank, advice.node, advice.policy) == (3, "node-c", "profile")
    assert advice.best is not None
    assert advice.best.node == "node-a"
    assert running.metrics.get_sample_value("equipoise_scorer_placement_advice_total", {"result": "published"}) == 1


async def test_placed_pods_are_counted_by_their_hint(start: Start) -> None:
    """Also without advice. Those that had no choice are not counted; the advice has the hint."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", advice=AdviceSettings(per_second=0)))
    await fill(running)
    hints = {"web-5": PlacedHint(preferred=2, avoided=1, weight=50), "web-6": PlacedHint(), "web-7": None}
    daemon = newly_placed("agent-1", running, workload=a_workload("agent", kind="DaemonSet"))
    await place(running, "node-c", daemon, *(newly_placed(name, running, hint=hint) for name, hint in hints.items()))
    counted = {
        hint: running.metrics.get_sample_value("equipoise_scorer_placed_pods_total", {"hint": hint})
        for hint in ("preferred", "none", "unknown", "neither", "avoided")
    }

    assert counted == {"preferred": 1, "none": 1, "unknown": 1, "neither": 0, "avoided": 0}


async def test_pods_placed_before_the_start_get_no_advice(start: Start) -> None:
    """A restarted scorer does not know the loads of that time, and gives no advice twice."""
    first = await start()
    await fill(first)
    await place(first, "node-c", newly_placed("web-5", first))
    await first.stop()
    second = await start(bus=first.bus, clock=first.clock)
    await place(second, "node-c", newly_placed("web-5", first), newly_placed("web-6", first), sequence=3)
    await second.clock.advance(1)

    assert advised(first) == ["web-5", "web-6"]


async def test_pods_without_a_choice_get_no_advice(start: Start) -> None:
    """A DaemonSet pod, and one that was placed under other loads."""
    running = await start()
    await fill(running)
    daemon = newly_placed("agent-1", running, workload=a_workload("agent", kind="DaemonSet"))
    late = newly_placed("late-1", running, placed_at=NOW - 1_000)
    await place(running, "node-c", daemon, late, newly_placed("web-5", running))
    await running.clock.advance(1)

    assert advised(running) == ["web-5"]


async def test_the_rate_of_advice_is_limited(start: Start) -> None:
    """One at a time, so that requests are served in between; placements above the rate are counted as skipped."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", advice=AdviceSettings(per_second=10)))
    await fill(running)
    await place(running, "node-c", *(newly_placed(f"web-{number}", running) for number in range(30)))

    assert len(advised(running)) == 1
    await running.clock.advance(0.15)
    assert len(advised(running)) == 2
    await running.clock.advance(10)
    assert len(advised(running)) == 10
    assert running.metrics.get_sample_value("equipoise_scorer_placement_advice_total", {"result": "skipped"}) == 20


async def test_a_rate_of_0_disables_advice(start: Start) -> None:
    """Nothing is scored, nothing is counted as skipped."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", advice=AdviceSettings(per_second=0)))
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running))
    await running.clock.advance(1)

    assert advised(running) == []
    assert running.metrics.get_sample_value("equipoise_scorer_placement_advice_total", {"result": "skipped"}) is None


async def test_advice_that_cannot_be_published_is_dropped_and_counted(start: Start) -> None:
    """Later advice is published."""
    running = await start()
    await fill(running)
    await place(running, "node-c", newly_placed("web-5", running), newly_placed("web-6", running))
    running.bus.disconnect()
    await running.clock.advance(1)
    await running.bus.reconnect()
    await place(running, "node-b", newly_placed("web-7", running))
    await running.clock.advance(1)

    assert advised(running) == ["web-5", "web-7"]
    assert running.metrics.get_sample_value("equipoise_scorer_placement_advice_total", {"result": "dropped"}) == 1


async def test_reviews_of_the_cluster_are_published_every_five_minutes(start: Start) -> None:
    """With the time that each node was above a threshold in this hour."""
    running = await start()
    running.scorer.on_request(node_objects=False)
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


# clients


SERVER_ONLY = ServerTls(certificate_file="/nowhere", key_file="/nowhere")
MUTUAL = msgspec.structs.replace(SERVER_ONLY, client_ca_file="/nowhere")


@pytest.mark.parametrize("tls", [None, SERVER_ONLY], ids=["plain HTTP", "no client CA"])
@pytest.mark.parametrize("listen", ["0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "scorer.example.com:0"])
async def test_a_scorer_that_any_machine_reaches_needs_a_client_ca(
    start: Start, listen: str, tls: ServerTls | None
) -> None:
    """It does not start, and the error names every solution."""
    running = await start(ScorerSettings(listen=listen, extender=ExtenderSettings(tls=tls)))

    assert running.task is not None
    error = running.task.exception()
    assert isinstance(error, ConfigurationError)
    for text in ("scorer.listen", "clientCaFile", "equipoise certificates", "loopback", "allowUnauthenticated: true"):
        assert text in str(error)
    running.task = asyncio.create_task(asyncio.sleep(0))


async def test_any_client_is_accepted_only_by_explicit_choice(start: Start) -> None:
    """`allowUnauthenticated: true`; /readyz states it as long as the scorer runs. On the loopback it has no effect."""
    allow = ExtenderSettings(allow_unauthenticated=True)
    open_scorer = await start(ScorerSettings(listen="0.0.0.0:0", extender=allow))
    local = await start(ScorerSettings(listen="127.0.0.1:0", extender=allow))

    assert open_scorer.port
    assert any("answers anyone" in text for text in open_scorer.health.problems)
    assert not any("answers anyone" in text for text in local.health.problems)


@pytest.mark.parametrize(
    ("listen", "tls", "expected"),
    [
        ("0.0.0.0:8888", None, True),
        ("0.0.0.0:8888", SERVER_ONLY, True),
        ("0.0.0.0:8888", MUTUAL, False),
        ("127.0.0.2:8888", None, False),
        ("[::1]:8888", None, False),
        ("localhost:8888", None, False),
        ("[::]:8888", None, True),
        ("10.0.0.1:8888", None, True),
    ],
)
def test_only_a_client_ca_or_a_loopback_address_excludes_other_clients(
    listen: str, tls: ServerTls | None, expected: bool
) -> None:
    """A certificate of the scorer alone verifies no client."""
    assert ScorerSettings(listen=listen, extender=ExtenderSettings(tls=tls)).serves_any_client is expected


async def test_the_amounts_of_bands_are_received_only_where_they_are_enabled(start: Start) -> None:
    """Without co-location, a batch pod is scored by the policy, as any other."""
    found = []
    for enabled in (False, True):
        running = await start(ScorerSettings(listen="127.0.0.1:0", reclaimed=BandScoring(enabled=enabled)))
        await fill(running)
        offered = a_reclaimed_node("node-c", batch=Resources(cpu=4.0, memory=32 * GIB))
        await running.bus.publish(subjects.reclaimed_node("node-c"), offered)
        await running.bus.settled()
        scores = running.scorer.prioritize(a_batch_request(), ["node-a", "node-b", "node-c"]).scores
        found.append(scores.tolist().index(10))

    assert found == [0, 2]
