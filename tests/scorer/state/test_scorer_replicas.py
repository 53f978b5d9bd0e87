"""Which replica publishes the hints of a namespace."""

import msgspec
from builders import NOW

from equipoise.contracts.messages.health import HEARTBEAT, HEARTBEAT_LIFETIME
from equipoise.scorer.state.scorer_replicas import ScorerReplicas

NAMESPACES = [f"team-{number}" for number in range(60)]


def replicas(*identities: str, now: float = NOW) -> list[ScorerReplicas]:
    """Replicas that received the heartbeats of all."""
    found = [ScorerReplicas(identity) for identity in identities]
    for replica in found:
        for identity in identities:
            replica.on_heartbeat(msgspec.structs.replace(HEARTBEAT, service="scorer", id=identity), now)
    return found


def test_each_namespace_has_one_publisher() -> None:
    """Of several replicas, each publishes some."""
    several = replicas("a", "b", "c")
    owners = [[replica.owns(namespace, NOW) for replica in several] for namespace in NAMESPACES]

    assert all(sum(row) == 1 for row in owners)
    assert all(any(row[number] for row in owners) for number in range(3))


def test_a_replica_without_heartbeats_is_replaced() -> None:
    """After three missing ones."""
    one, _ = replicas("a", "b")
    one.on_heartbeat(msgspec.structs.replace(HEARTBEAT, service="scorer", id="a"), NOW + HEARTBEAT_LIFETIME)

    assert all(one.owns(namespace, NOW + HEARTBEAT_LIFETIME + 1) for namespace in NAMESPACES)


def test_a_replica_that_is_not_ready_is_replaced_at_once() -> None:
    """It does not publish."""
    one, _ = replicas("a", "b")

    one.on_heartbeat(msgspec.structs.replace(HEARTBEAT, service="scorer", id="b", ready=False), NOW)

    assert all(one.owns(namespace, NOW) for namespace in NAMESPACES)
