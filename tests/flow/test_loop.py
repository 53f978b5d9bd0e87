"""The loop as a whole: what one service says, the next one acts upon."""

import pytest
from flow.loop import APPS, HOT, IDLE, INTERVAL, Loop, annotations_of, scores_of, settled

from equipoise.contracts.kubernetes.annotations import LOAD, USAGE
from equipoise.contracts.messages.eviction import Outcome

FIRST = 10 * INTERVAL
"""Seconds within which the first pod must have left."""


async def test_a_hot_node_is_measured_annotated_relieved_and_avoided() -> None:
    """From Prometheus to the eviction and back: scorer and descheduler both heed the outcome."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), at_most=FIRST)
        gone = settled(loop, Outcome.EVICTED)[0]
        app = gone.pod.split("-")[0]
        annotations = annotations_of(loop)
        await loop.pass_time(4 * INTERVAL)  # longer than the intent would live: what still counts is the outcome
        other = next(name for name in APPS if name != app)
        replacement, stranger = await loop.explanation(app), await loop.explanation(other)

    assert [gone.pod] == loop.evicted()
    assert HOT == gone.node
    assert "node is overutilized, cpu usage(" in gone.reason
    assert 0.8 < annotations[f"node/{HOT}"][LOAD]["windows"]["5m"]["mean"]["cpu"] < 0.9
    assert 0.9 == annotations["deployment/web"][USAGE]["windows"]["5m"]["mean"]["cpu"]
    assert not replacement.neutral
    assert 10 == scores_of(replacement)[gone.target]
    assert 0 == scores_of(replacement)[HOT] < scores_of(stranger)[HOT]
    # The second intent was refused for want of room in the cluster's window: nothing is proposed before there is some.
    assert [Outcome.REJECTED_LIMIT] == [each.outcome for each in loop.outcomes() if each.pod != gone.pod]
    assert not [intent for intent in loop.intents() if intent.decided_at > gone.settled_at]
    assert not any(loop.problems().values())


async def test_the_limits_hold_the_loop_back() -> None:
    """Nine pods on three nodes: after a start one eviction in ten minutes, however hot the node stays."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(loop.evicted()), at_most=FIRST)
        loop.place("web", "web-back", HOT)
        await loop.pass_time(500)

        assert 1 == len(loop.evicted())
        assert "limits.evictionsPerCluster" in settled(loop, Outcome.REJECTED_LIMIT)[0].detail
        await loop.until(lambda: len(loop.evicted()) == 2, at_most=1_200)
    times = [each.at for each in loop.kube.evictions if each.status == 201]

    assert times[1] - times[0] >= 600


@pytest.mark.parametrize(
    ("pattern", "count"),
    [
        ("equipoise.utilization.node.node-hot", 8),
        ("equipoise.utilization.cycle.*", 8),
        ("equipoise.utilization.workload.>", 8),
        ("equipoise.placement.node.node-b", 1),
        ("equipoise.eviction.intent.*.*", 2),
        ("equipoise.eviction.outcome.*.*", 1),
    ],
)
async def test_a_lost_message_heals(pattern: str, count: int) -> None:
    """Whatever the bus loses, the next message brings the same truth: two pods leave, each by one intent."""
    loop = Loop()
    loop.bus.lose(pattern, count)
    async with loop.running():
        await loop.until(lambda: len(loop.evicted()) == 2, at_most=2_400)

    assert count == loop.bus.lost
    assert 2 == len(set(loop.evicted()))


async def test_a_dry_run_evicts_nothing() -> None:
    """The API server is asked in full, and every pod stays."""
    loop = Loop()
    before = loop.placements()
    async with loop.running(evict=False):
        await loop.until(lambda: bool(settled(loop, Outcome.DRY_RUN)), at_most=FIRST)
        await loop.pass_time(4 * INTERVAL)

    assert [] == loop.evicted()
    assert loop.kube.evictions
    assert before == loop.placements()


async def test_a_blind_loop_holds_still() -> None:
    """Without Prometheus nothing is proposed, nothing is evicted, and every score is neutral; with it, all goes on."""
    loop = Loop()
    async with loop.running():
        await loop.pass_time(INTERVAL)
        seeing = await loop.explanation("web")
        loop.source.down = "connection refused"
        await loop.pass_time(2 * FIRST)
        blind = await loop.explanation("web")
        said = loop.problems()

        assert [] == loop.intents()
        assert [] == loop.kube.evictions
        loop.source.down = ""
        await loop.until(lambda: bool(loop.evicted()), at_most=FIRST)

    assert not seeing.neutral
    assert set(IDLE) == {node for node, score in scores_of(seeing).items() if score == 10}
    assert blind.neutral
    assert blind.why
    assert any("connection refused" in problem for problem in said["collector"])
    assert said["descheduler"]
    assert said["scorer"]
