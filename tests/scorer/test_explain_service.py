"""`score.explain` on the bus."""

import msgspec
from builders import NOW, a_placed_pod, a_placement
from scorer.conftest import Start
from scorer.fleets import a_pod
from scorer.test_extender import fill

from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.explanation import ExplainRequest, Explanation
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.score import PrioritizeQuestion, Ranking
from equipoise.runtime.bus.codec import MAX_PAYLOAD
from equipoise.scorer.settings import ScorerSettings


async def test_why_is_answered_on_the_bus(start: Start) -> None:
    """Beside `score.prioritize`, and with its integers."""
    running = await start()
    await fill(running)
    pod = a_pod(cpu=0.5)
    ranking = await running.bus.request(
        subjects.SCORE_PRIORITIZE, PrioritizeQuestion(pod=pod, nodes=["node-a", "node-b", "node-c"]), Ranking, timeout=1
    )
    told = await running.bus.request(subjects.SCORE_EXPLAIN, ExplainRequest(pod=pod), Explanation, timeout=1)

    assert {each.node: each.extender_score for each in told.nodes} == ranking.scores
    assert (told.policy, told.explained_at) == ("profile", NOW)


async def test_a_pod_that_was_heard_of_is_explained_by_its_name(start: Start) -> None:
    """And one that was not is a problem in the answer, not an error of the service."""
    running = await start()
    await fill(running)
    await running.bus.publish(subjects.node_placement("node-a"), a_placement("node-a", [a_placed_pod()], sequence=2))
    await running.bus.settled()

    async def ask(name: str) -> Explanation:
        question = ExplainRequest(namespace="shop", name=name)
        return await running.bus.request(subjects.SCORE_EXPLAIN, question, Explanation, timeout=1)

    assert (await ask("web-1")).current_node == "node-a"
    assert "has not heard that pod shop/web-2 has a node" in (await ask("web-2")).problem


async def test_scores_that_are_switched_off_are_explained_as_such(start: Start) -> None:
    """Every node is told the same, whatever its score."""
    running = await start(ScorerSettings(listen="127.0.0.1:0", neutral=True))
    await fill(running)
    told = await running.bus.request(subjects.SCORE_EXPLAIN, ExplainRequest(node="node-a"), Explanation, timeout=1)

    assert (told.neutral, told.why) == (True, "scores are set to neutral (scorer.neutral)")


async def test_an_explanation_of_a_busy_fleet_fits_into_a_message(start: Start) -> None:
    """Of many nodes and many pods a bounded number is told."""
    running = await start()
    await fill(running, {f"node-{number}": 2.0 + number / 100 for number in range(200)})
    for number in range(200):
        pods = [
            a_placed_pod(
                f"{'w' * 50}-{number}-{each}", placed_at=NOW - 50, running_since=NOW - 40, requests=Resources(cpu=0.01)
            )
            for each in range(100)
        ]
        await running.bus.publish(
            subjects.node_placement(f"node-{number}"), a_placement(f"node-{number}", pods, sequence=2)
        )
    await running.bus.settled()
    told = await running.bus.request(
        subjects.SCORE_EXPLAIN, ExplainRequest(node="node-7", pod=a_pod(cpu=0.1)), Explanation, timeout=5
    )

    assert told.considered == 200
    assert len(msgspec.json.encode(told)) < MAX_PAYLOAD / 5
