"""Which shard a node belongs to, and which replica holds a shard."""

import inspect
from collections import Counter

import msgspec
import pytest
from deployment.base import base_documents
from deployment.kustomize import named
from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.sharding import is_obsolete, lease_name, shard_name, shard_of
from equipoise.collector.settings import WHOLE_CLUSTER, CollectorSettings
from equipoise.collector.state.owned_shards import ACQUIRE_DELAY, KEEP_SECONDS, OwnedShards
from equipoise.contracts.messages.health import HEARTBEAT_LIFETIME
from equipoise.runtime.kubernetes.leader_election import JITTER, lead

SHARDS = st.integers(1, 16)
NODES = [f"node-{number}" for number in range(5_000)]


@given(st.text(), SHARDS)
def test_every_node_has_exactly_one_shard(name: str, shards: int) -> None:
    """Always the same one."""
    assert 0 <= shard_of(name, shards) < shards
    assert shard_of(name, shards) == shard_of.__wrapped__(name, shards)


@given(st.text(), SHARDS)
def test_one_more_shard_takes_nodes_and_moves_none_among_the_others(name: str, shards: int) -> None:
    """A node keeps its shard, or gets the new one."""
    assert shard_of(name, shards + 1) in (shard_of(name, shards), shards)


@pytest.mark.parametrize("shards", [2, 3, 5, 16])
def test_shards_are_about_equal_and_a_new_one_takes_its_share(shards: int) -> None:
    """Of 5,000 nodes, within a fifth of the share."""
    counts = Counter(shard_of(name, shards) for name in NODES)
    assert all(0.8 < count / (5_000 / shards) < 1.2 for count in counts.values())
    moved = sum(shard_of(name, shards) != shard_of(name, shards + 1) for name in NODES)
    assert 0.8 < moved / (5_000 / (shards + 1)) < 1.2


def test_the_shards_are_the_same_in_every_version() -> None:
    """Replicas of two versions run together during an upgrade."""
    assert [shard_of(f"node-{number}", 4) for number in range(8)] == PINNED


PINNED = [2, 0, 3, 0, 2, 3, 3, 3]


def test_shard_and_lease_names() -> None:
    """A single shard has no number; a family other than the default is part of both names."""
    assert (shard_name("all", 0, 1), shard_name("all", 2, 3)) == ("all", "all-2")
    assert lease_name("all", WHOLE_CLUSTER, 0, 1) == "equipoise-collector"
    assert lease_name("all", WHOLE_CLUSTER, 2, 3) == "equipoise-collector-2"
    assert lease_name("gpu", WHOLE_CLUSTER, 0, 1) == "equipoise-collector-gpu"
    assert lease_name("gpu", WHOLE_CLUSTER, 2, 3) == "equipoise-collector-gpu-2"


@pytest.mark.parametrize(
    ("name", "shards", "expected"),
    [("all", 3, True), ("all-3", 3, True), ("all-2", 3, False), ("all", 1, False), ("all-0", 1, True),
     ("gpu", 3, False), ("all-gpu", 3, False)],
)  # fmt: skip
def test_shards_of_another_number_of_shards_are_obsolete(name: str, shards: int, expected: bool) -> None:
    """Those of another family are not."""
    assert is_obsolete(name, "all", shards) == expected


def shards_held(held: int = 4, shards: int = 4, replicas: int = 1) -> OwnedShards:
    """The first `held` shards are held by replica "one"; the others are named by numbers."""
    owned = OwnedShards(family="all", shards=shards, identity="one")
    for shard in range(held):
        owned.acquire(shard, epoch=1, now=0.0)
    for replica in range(1, replicas):
        owned.on_heartbeat(str(replica), 0.0, ready=True)
    return owned


@pytest.mark.parametrize(
    ("held", "shards", "replicas", "seconds"),
    [(0, 2, 2, 0), (1, 2, 2, 5), (1, 4, 2, 0), (2, 4, 2, 5), (5, 6, 1, 0), (0, 2, 9, 0)],
)
def test_a_replica_with_its_share_waits_before_it_acquires_a_free_shard(
    held: int, shards: int, replicas: int, seconds: float
) -> None:
    """Only for some seconds."""
    owned = shards_held(held, shards, replicas)
    assert owned.acquire_delay(held, 0.0) == seconds


def test_the_acquire_delay_is_longer_than_a_retry_period_and_short_enough_to_take_over_in_time() -> None:
    """A lost holder's last renewal is read one period late, expires, is offered to others, and is acquired a period
    later: 30 s in all.
    """
    timing = {name: parameter.default for name, parameter in inspect.signature(lead).parameters.items()}
    period = timing["retry_period"] * (1 + JITTER)
    assert period < ACQUIRE_DELAY
    assert period + timing["lease_duration"] + ACQUIRE_DELAY + period <= 30


@given(SHARDS, st.integers(1, 20))
def test_fair_shares_cover_all_shards(shards: int, replicas: int) -> None:
    """With at most one too many each."""
    owned = shards_held(shards, shards, replicas)
    fair_share = sum(not owned.should_release(shard, 0.0) for shard in range(shards))
    assert replicas * fair_share >= shards > replicas * (fair_share - 1)


def test_a_replica_releases_its_surplus_when_others_join() -> None:
    """The highest shards, one after the other, down to its share."""
    here = shards_held()
    assert not any(here.should_release(shard, 0.0) for shard in range(4))
    here.on_heartbeat("two", 0.0, ready=True)
    assert [here.should_release(shard, 1.0) for shard in range(4)] == [False, False, True, True]
    here.release(3)
    here.release(2)
    assert not any(here.should_release(shard, 1.0) for shard in range(2))


def test_a_shard_that_no_other_replica_acquired_is_kept_for_a_while() -> None:
    """The other one may not be able to. Releasing it again and again would leave nodes unpublished."""
    here = shards_held(2, 2)
    here.on_heartbeat("two", 0.0, ready=True)
    assert here.should_release(1, 1.0)
    here.release(1)
    assert here.acquire_delay(1, 2.0) == ACQUIRE_DELAY
    here.acquire(1, epoch=2, now=7.0)
    for seconds in range(20, 300, 20):
        here.on_heartbeat("two", seconds, ready=True)
        assert not here.should_release(1, seconds)
    here.on_heartbeat("two", 7 + KEEP_SECONDS, ready=True)
    assert here.should_release(1, 7 + KEEP_SECONDS)


def test_a_kept_shard_is_released_for_a_new_replica() -> None:
    """Or for one that was away."""
    here = shards_held(2, 2)
    here.on_heartbeat("two", 0.0, ready=True)
    assert here.should_release(1, 1.0)
    here.release(1)
    assert here.acquire_delay(1, 2.0) == ACQUIRE_DELAY
    here.acquire(1, epoch=2, now=7.0)
    here.on_heartbeat("two", HEARTBEAT_LIFETIME + 2, ready=True)
    assert here.should_release(1, HEARTBEAT_LIFETIME + 3)


def test_a_shard_taken_from_a_dead_replica_is_kept() -> None:
    """Its last heartbeat is younger than the time until its Lease expires."""
    here = shards_held(2, 2)
    here.on_heartbeat("two", 0.0, ready=True)
    here.release(1)
    here.on_heartbeat("two", 100.0, ready=True)
    assert here.acquire_delay(1, 112.0) == ACQUIRE_DELAY
    here.acquire(1, epoch=2, now=117.0)
    assert not any(here.should_release(shard, now) for now in (117.0, 118.0, 129.0, 200.0) for shard in (0, 1))


def test_a_replica_that_is_not_ready_is_not_counted() -> None:
    """It gets its share when it is ready."""
    here = shards_held(2, 2)
    here.on_heartbeat("two", 0.0, ready=False)
    assert not here.should_release(1, 1.0)
    here.on_heartbeat("two", 10.0, ready=True)
    assert here.should_release(1, 11.0)


def test_a_replica_that_lost_the_api_server_is_still_counted() -> None:
    """After an outage each replica acquires its share, not the first one all of them."""
    here = shards_held(2, 2)
    here.on_heartbeat("two", 0.0, ready=True)
    for second in (10.0, 20.0, 30.0, 40.0):
        here.on_heartbeat("two", second, ready=False)
    assert here.replicas(41.0) == 2


def test_a_replica_without_heartbeats_is_not_counted() -> None:
    """Nothing is kept for it."""
    here = shards_held()
    here.on_heartbeat("two", 0.0, ready=True)
    assert not here.should_release(3, HEARTBEAT_LIFETIME + 1)
    assert here.acquire_delay(3, HEARTBEAT_LIFETIME + 1) == 5.0


@pytest.mark.parametrize("name", ["all", "zone-a", "blue2", "a"])
def test_valid_shard_names_are_accepted(name: str) -> None:
    """They are part of the name of a Lease."""
    assert msgspec.convert({"shard": name}, CollectorSettings).shard == name


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("zone-1", "shard 1 of a collector named 'zone'"),
        ("zone-12", "shard 12 of a collector named 'zone'"),
        ("zone-", "name"),
        ("z" * 64, "name"),
        ("1", "name"),
        ("Zone A", "name"),
        ("a.b", "name"),
        ("", "name"),
    ],
)
def test_ambiguous_and_invalid_shard_names_are_refused(name: str, complaint: str) -> None:
    """`zone` with two shards has the Leases and cycles of `zone-0` and `zone-1`."""
    with pytest.raises(msgspec.ValidationError, match=complaint):
        msgspec.convert({"shard": name}, CollectorSettings)


def test_the_role_names_a_lease_for_each_possible_shard() -> None:
    """k8s/base names them."""
    role = named(base_documents(), "Role", "equipoise-collector")
    leases = role["rules"][1]["resourceNames"]
    most = 16
    assert leases == [
        lease_name("all", WHOLE_CLUSTER, 0, 1),
        *(lease_name("all", WHOLE_CLUSTER, shard, most) for shard in range(most)),
    ]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"shards": most + 1}, CollectorSettings)
