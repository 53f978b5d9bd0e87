"""Placement hints on the bus."""

import msgspec
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, an_intent
from scorer.clusters import a_cycle
from scorer.running import CORES, Running, Start, settings_for

from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.hashing import owner
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.messages.health import HEARTBEAT
from equipoise.contracts.messages.placement import PlacementHints
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.settings import ScorerSettings

SUBJECT = subjects.placement_hint("shop")
INTERVAL = 15.0


def hinting(**fields: object) -> ScorerSettings:
    hints = HintSettings(interval=Duration(INTERVAL))
    return msgspec.structs.replace(settings_for(), hints=hints, **fields)


async def publish_cluster(running: Running, at: float = NOW) -> None:
    """Three nodes, with a pod of shop/web on the first one."""
    sequence = round(at - NOW) + 1
    for node, cpu in CORES.items():
        pods = [a_placed_pod()] if node == "node-a" else []
        placement = a_placement(node, pods, labels={HOSTNAME: node}, sequence=sequence)
        await running.bus.publish(subjects.node_placement(node), placement)
        usage = a_node_utilization(node, cpu, sampled_at=at, queried_at=at, sequence=sequence)
        await running.bus.publish(subjects.node_utilization(node), usage)
    await running.bus.publish(subjects.utilization_cycle("0"), a_cycle(len(CORES), queried_at=at, sequence=sequence))
    await running.bus.settled()


def published(running: Running) -> list[PlacementHints]:
    return running.bus.published(PlacementHints, SUBJECT)


async def test_hints_are_published_after_the_interval(start: Start) -> None:
    """With the best node first."""
    running = await start(hinting(), hints=True)
    await publish_cluster(running)

    await running.clock.advance(INTERVAL)

    [message] = published(running)
    assert message.computed_at == NOW + INTERVAL
    assert message.hints["Deployment.web"].prefer[0].hostnames[0] == "node-a"
    assert running.metrics.get_sample_value("equipoise_scorer_hinted_workloads") == 1
    labels = {"result": "published"}
    assert running.metrics.get_sample_value("equipoise_scorer_hint_messages_total", labels) == 1


async def test_without_the_setting_nothing_is_published(start: Start) -> None:
    """It is off by default."""
    running = await start(settings_for())
    await publish_cluster(running)

    await running.clock.advance(10 * INTERVAL)

    assert [] == published(running)


async def test_outdated_data_empty_the_hints(start: Start) -> None:
    """So that no pod follows a hint that nobody computes any more; kube-scheduler decides alone."""
    running = await start(hinting(), hints=True)
    await publish_cluster(running)
    await running.clock.advance(INTERVAL)

    await running.clock.advance(600)

    assert {} == published(running)[-1].hints


async def test_with_neutral_scores_no_hints_are_computed(start: Start) -> None:
    """`scorer.neutral` removes Equipoise from scheduling, however it takes part in it."""
    running = await start(hinting(neutral=True), hints=True)
    await publish_cluster(running)

    await running.clock.advance(INTERVAL)

    assert [] == published(running)
    assert running.metrics.get_sample_value("equipoise_scorer_hint_update_duration_seconds_count") == 0


async def test_an_intent_changes_the_hint_at_once(start: Start) -> None:
    """The replacement is created before the next regular update."""
    running = await start(hinting(), hints=True)
    await publish_cluster(running)
    await running.clock.advance(INTERVAL)

    intent = an_intent(node="node-a", target="node-b", expires_at=NOW + 100)
    await running.bus.publish(subjects.eviction_intent("shop", "web-1"), intent)
    await running.bus.settled()
    await running.clock.advance(0)

    hint = published(running)[-1].hints["Deployment.web"]
    assert hint.prefer[0].hostnames == ("node-b",)
    assert hint.avoid is not None
    assert hint.avoid.hostnames[0] == "node-a"


async def test_a_hint_for_a_replacement_must_be_written_at_once(start: Start) -> None:
    """And when the replacement is placed, so must the next one, without the target: other pods may follow."""
    running = await start(hinting(), hints=True)
    await publish_cluster(running)
    await running.clock.advance(INTERVAL)
    assert not published(running)[-1].replacing

    intent = an_intent(node="node-a", target="node-b", decided_at=NOW + INTERVAL, expires_at=NOW + 100)
    await running.bus.publish(subjects.eviction_intent("shop", "web-1"), intent)
    await running.bus.settled()
    await running.clock.advance(0)
    assert published(running)[-1].replacing

    new = a_placed_pod("web-2", placed_at=NOW + INTERVAL + 1)
    placement = a_placement("node-b", [new], labels={HOSTNAME: "node-b"}, sequence=9)
    await running.bus.publish(subjects.node_placement("node-b"), placement)
    await running.bus.settled()
    await running.clock.advance(0)

    message = published(running)[-1]
    assert message.replacing
    assert 100 not in {term.weight for term in message.hints["Deployment.web"].prefer}


async def test_each_namespace_is_published_by_one_replica(start: Start) -> None:
    """Another replica, of which this one receives heartbeats, publishes its own namespaces."""
    running = await start(hinting(), hints=True)
    await publish_cluster(running)
    for number in range(20):
        heartbeat = msgspec.structs.replace(HEARTBEAT, service="scorer", id=f"replica-{number}")
        await running.bus.publish(subjects.health("scorer", heartbeat.id), heartbeat)
    await running.bus.settled()

    await running.clock.advance(INTERVAL)

    assert owner("shop", {"scorer", *(f"replica-{number}" for number in range(20))}) != "scorer"
    assert [] == published(running)
