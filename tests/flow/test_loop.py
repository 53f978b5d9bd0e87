"""The five services together: each acts on the messages of the others."""

from typing import Any

import msgspec
import pytest
from flow.loop import APPS, HOT, IDLE, INTERVAL, Loop, annotations_of, scores_of, settled

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes.annotations import LOAD, USAGE
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import NODE_PLACEMENT
from equipoise.runtime.kubernetes.client import PODS

FIRST = 10 * INTERVAL
"""Seconds within which the first pod must be evicted."""


async def test_a_hot_node_is_measured_annotated_cooled_and_avoided() -> None:
    """From a measurement to an eviction, whose outcome affects later scores and plans."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(settled(loop, Outcome.EVICTED)), limit=FIRST)
        outcome = settled(loop, Outcome.EVICTED)[0]
        app = outcome.pod.split("-")[0]
        annotations = annotations_of(loop)
        await loop.pass_time(4 * INTERVAL)  # longer than the lifetime of the intent: only the outcome is left
        other = next(name for name in APPS if name != app)
        replacement, unrelated = await loop.explanation(app), await loop.explanation(other)

    assert [outcome.pod] == loop.evicted()
    assert HOT == outcome.node
    assert "node is hot: cpu " in outcome.reason
    assert 0.8 < annotations[f"node/{HOT}"][LOAD]["windows"]["5m"]["mean"]["cpu"] < 0.9
    assert 0.9 == annotations["deployment/web"][USAGE]["windows"]["5m"]["mean"]["cpu"]
    assert not replacement.neutral
    assert 10 == scores_of(replacement)[outcome.target]
    assert 0 == scores_of(replacement)[HOT] < scores_of(unrelated)[HOT]
    # The limit of the cluster rejected the second intent. Until it allows an eviction again, nothing is proposed.
    assert [Outcome.REJECTED_LIMIT] == [each.outcome for each in loop.outcomes() if each.pod != outcome.pod]
    assert not [intent for intent in loop.intents() if intent.decided_at > outcome.settled_at]
    assert not any(loop.problems().values())


async def test_the_limits_apply_while_a_node_stays_hot() -> None:
    """Nine pods on three nodes: after a start, one eviction per ten minutes."""
    loop = Loop()
    async with loop.running():
        await loop.until(lambda: bool(loop.evicted()), limit=FIRST)
        loop.place("web", "web-new", HOT)
        await loop.pass_time(500)

        assert 1 == len(loop.evicted())
        assert "limits.evictionsPerCluster" in settled(loop, Outcome.REJECTED_LIMIT)[0].detail
        await loop.until(lambda: len(loop.evicted()) == 2, limit=1_200)
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
async def test_a_lost_message_is_replaced_by_the_next_one(pattern: str, count: int) -> None:
    """Two pods are evicted, each once, whichever messages are lost."""
    loop = Loop()
    loop.bus.lose(pattern, count)
    async with loop.running():
        await loop.until(lambda: len(loop.evicted()) == 2, limit=2_400)

    assert count == loop.bus.lost
    assert 2 == len(set(loop.evicted()))


async def test_a_dry_run_evicts_nothing() -> None:
    """Dry-run requests are sent to the API server, and no pod is evicted."""
    loop = Loop()
    before = loop.placements()
    async with loop.running(evict=False):
        await loop.until(lambda: bool(settled(loop, Outcome.DRY_RUN)), limit=FIRST)
        await loop.pass_time(4 * INTERVAL)

    assert [] == loop.evicted()
    assert loop.kube.evictions
    assert before == loop.placements()


async def test_without_metrics_nothing_is_proposed_and_scores_are_neutral() -> None:
    """When metrics return, scores and evictions resume."""
    loop = Loop()
    async with loop.running():
        await loop.pass_time(INTERVAL)
        before = await loop.explanation("web")
        loop.source.down = "connection refused"
        await loop.pass_time(2 * FIRST)
        without = await loop.explanation("web")
        problems = loop.problems()

        assert [] == loop.intents()
        assert [] == loop.kube.evictions
        loop.source.down = ""
        await loop.until(lambda: bool(loop.evicted()), limit=FIRST)

    assert not before.neutral
    assert set(IDLE) == {node for node, score in scores_of(before).items() if score == 10}
    assert without.neutral
    assert without.why
    assert any("connection refused" in problem for problem in problems["collector"])
    assert problems["descheduler"]
    assert problems["scorer"]


async def test_an_error_in_the_rules_of_a_pod_is_named_until_the_pod_is_gone() -> None:
    """The other pods of its node are evicted."""
    loop = Loop()
    loop.place("web", "bad", HOT)
    pod = next(each for each in loop.kube.stored(PODS) if each.metadata.name == "bad")
    no_text: Any = {"karpenter.sh/do-not-disrupt": [5]}
    metadata = msgspec.structs.replace(pod.metadata, annotations=no_text)
    loop.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))
    async with loop.running():
        await loop.until(lambda: loop.evicted() == ["api-1-0"], limit=600)
        (problem,) = loop.problems()["descheduler"]
        assert problem.startswith("rules of pods: 1 cannot be read: shop/bad (the rules cannot be applied to it")
        loop.kube.remove(PODS, "bad", "shop")
        await loop.until(lambda: not loop.problems()["descheduler"], limit=600)


@pytest.mark.parametrize("epoch", [2**53, 10_000_000_000_000])
@pytest.mark.parametrize("node", ["ghost", HOT])
async def test_a_forged_epoch_hides_no_messages_of_the_collector(node: str, epoch: int) -> None:
    """Of a node that exists or does not. Restarted collectors are as before, although the bus still has it."""
    loop = Loop()
    forged = msgspec.structs.replace(NODE_PLACEMENT, node=node, uid=f"uid-{node}", epoch=epoch, pods=[], gone=[])
    loop.bus.inject(subjects.node_placement(node), msgspec.json.encode(forged))
    async with loop.running():
        await loop.until(lambda: len(loop.evicted()) == 1, limit=10 * INTERVAL)
        assert any("ahead of this clock" in problem for problem in loop.bus.unreadable.problems) == (node == "ghost")
