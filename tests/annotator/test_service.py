"""The annotator on an in-memory bus and API server, with a manual clock."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from annotator.worlds import ROUND, SETTINGS, World
from builders import (
    GIB,
    NOW,
    a_node_utilization,
    a_placement,
    a_reclaimed_node,
    a_window,
    a_workload,
    a_workload_utilization,
)
from kube_objects import a_lease

from equipoise.annotator.service import MAX_CONFLICTS
from equipoise.annotator.settings import AnnotatorSettings, ReclaimedWriteSettings
from equipoise.contracts.bus.subjects import (
    node_placement,
    node_utilization,
    reclaimed_node,
    utilization_cycle,
    workload_utilization,
)
from equipoise.contracts.kubernetes.annotations import (
    LOAD,
    RECLAIMED,
    USAGE,
    as_annotations,
    node_load,
    read_node_load,
    read_node_reclaimed,
    read_workload_usage,
)
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.contracts.load.latest import SILENCE
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.reclaimed import RECLAIMED_NODE
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes import fence
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, LEASES, NODES
from equipoise.runtime.kubernetes.fence import PROBE
from equipoise.runtime.kubernetes.paced_requests import RETRY_PERIOD
from equipoise.testbed.memory.faults import Call


async def test_measured_load_is_written_on_the_node_and_published(world: World) -> None:
    """Load, its time and the reason; the message holds exactly what was written."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3
    (published,) = world.bus.published(AnnotationWritten, "equipoise.annotation.node.node-a")
    assert published.object == "node/node-a"
    assert published.why == "not written before"
    assert published.annotations == world.kube.stored(NODES)[0].metadata.annotations
    load, _ = read_node_load(published.annotations)
    assert load is not None
    assert load.sampled_at == datetime.fromtimestamp(NOW, UTC)


async def test_values_published_before_the_start_are_written_too(world: World) -> None:
    """The bus keeps the last values."""
    world.add_node()
    await world.measured(cpu=3.0)
    await world.begin()
    assert world.load_on() == 0.3


async def test_usage_per_replica_is_written_on_the_workload(world: World) -> None:
    """On the Deployment itself, under its own key."""
    metadata = ObjectMeta(name="web", namespace="shop")
    world.kube.put(DEPLOYMENTS, WorkloadObject(metadata=metadata))
    await world.begin()
    await world.bus.publish(workload_utilization(a_workload()), a_workload_utilization(cpu=1.5))
    await world.clock.advance(0)
    annotations = world.kube.stored(DEPLOYMENTS)[0].metadata.annotations
    usage, why = read_workload_usage(annotations)
    assert usage is not None, why
    assert usage.windows["1h"].mean.cpu == 1.5
    assert set(annotations) == {USAGE}
    subject = "equipoise.annotation.workload.deployment_apps.shop.web"
    assert [published.object for published in world.bus.published(AnnotationWritten, subject)] == [
        "Deployment/shop/web"
    ]


async def test_a_workload_of_an_unknown_kind_is_ignored(world: World) -> None:
    """There is no resource to write."""
    await world.begin()
    unknown = a_workload(kind="Unknown", group="example.com")
    await world.bus.publish(workload_utilization(unknown), a_workload_utilization(unknown))
    await world.clock.advance(60)
    assert world.writes == 0


@pytest.mark.parametrize(
    "fields",
    [
        {"cpu": None, "memory": None},
        {"windows": {}},
        {"windows": {"5m": a_window(sampled_at=NOW - 181)}},
        {"windows": {"5m": a_window(sampled_at=NOW + 60)}},
    ],
    ids=["unknown", "no windows", "too old", "from the future"],
)
async def test_nothing_is_written_for_unknown_values(world: World, fields: dict[str, Any]) -> None:
    """No zero either."""
    world.add_node()
    await world.begin()
    await world.measured(**fields)
    assert world.writes == 0


async def test_nothing_is_written_while_the_clock_skew_is_too_large(world: World) -> None:
    """The age of no value is known then. An annotator that starts receives the skew before the values."""
    world.add_node()
    await world.round_ended(skew=100.0)
    await world.measured(cpu=3.0)
    await world.begin()
    await world.measured(cpu=5.0)
    assert world.writes == 0
    await world.round_ended(skew=0.2)
    await world.measured(cpu=7.0)
    assert world.load_on() == 0.7


async def test_the_skew_of_a_shard_that_no_longer_exists_expires(world: World) -> None:
    """It is the last message of a collector that was removed."""
    world.add_node()
    await world.begin()
    await world.round_ended(skew=-100.0, shard="former")
    await world.clock.advance(1_801)
    await world.round_ended(skew=0.0)
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3


async def test_small_changes_are_not_written_and_large_ones_at_most_once_a_minute(world: World) -> None:
    """The write threshold is five points."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    await world.clock.advance(30)
    await world.measured(cpu=9.0)
    assert world.load_on() == 0.3
    await world.clock.advance(30)
    await world.measured(cpu=3.4)
    assert (world.load_on(), world.writes) == (0.3, 1)
    await world.measured(cpu=9.0)
    assert (world.load_on(), world.writes) == (0.9, 2)


async def test_an_unchanged_node_is_written_every_half_hour(world: World) -> None:
    """Its time shows readers that it is still measured."""
    world.add_node()
    await world.begin()
    for _ in range(130):
        await world.measured(cpu=3.0)
        await world.clock.advance(60)
    assert world.writes in (5, 6)


async def test_an_older_message_is_ignored(world: World) -> None:
    """The bus may repeat and delay messages."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0, sequence=10)
    await world.clock.advance(90)
    await world.measured(cpu=9.0, sequence=9)
    assert world.load_on() == 0.3


async def test_a_lower_epoch_is_accepted_once_the_higher_one_is_silent(world: World) -> None:
    """After 180 seconds: a collector with a lower epoch has taken the node over."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0, epoch=2)
    await world.clock.advance(SILENCE)
    await world.measured(cpu=9.0, epoch=1)
    assert (world.load_on(), world.writes) == (0.3, 1)
    await world.clock.advance(1)
    await world.measured(cpu=9.0, epoch=1)
    assert (world.load_on(), world.writes) == (0.9, 2)


async def test_a_recreated_node_never_gets_the_load_of_its_predecessor(world: World) -> None:
    """The write has the UID that was measured as a precondition; the new node's values come with its own UID."""
    world.add_node(uid="new")
    await world.begin()
    await world.measured(cpu=9.0, uid="old")
    assert (world.load_on(), world.writes) == (None, 0)
    await world.measured(cpu=1.0, uid="new")
    await world.clock.advance(1)
    assert world.load_on() == 0.1
    assert world.health["annotator-1"].problems == []


async def test_a_recreated_node_is_written_at_once(world: World) -> None:
    """Neither the minimum interval nor the last value of its predecessor applies to it."""
    world.add_node(uid="old")
    await world.begin()
    await world.measured(cpu=1.0, uid="old")
    world.kube.remove(NODES, "node-a")
    world.add_node(uid="new")
    await world.clock.advance(1)
    await world.measured(cpu=1.0, uid="new")
    assert (world.load_on(), world.writes) == (0.1, 2)


async def test_a_deleted_object_is_no_problem(world: World) -> None:
    """The collector observes it a little later than the API server."""
    await world.begin()
    await world.measured("gone")
    world.add_node("node-b")
    await world.clock.advance(1)
    await world.measured("node-b", cpu=2.0)
    assert world.load_on("node-b") == 0.2
    assert world.health["annotator-1"].problems == []


@pytest.mark.parametrize("status", [0, 503])
@pytest.mark.parametrize("newer", [True, False])
async def test_the_newest_value_is_written_when_the_api_server_is_back(world: World, newer: bool, status: int) -> None:
    """The problem is reported until then."""
    world.add_node()
    await world.begin()
    world.kube.refuse("annotate", status=status)
    await world.measured(cpu=3.0)
    assert "does not accept annotations" in world.health["annotator-1"].problems[0]
    if newer:
        await world.measured(cpu=4.0)
    world.kube.clear_faults()
    await world.clock.advance(RETRY_PERIOD)
    assert world.load_on() == (0.4 if newer else 0.3)
    assert world.health["annotator-1"].problems == []


async def test_the_first_response_of_the_api_server_ends_the_problem(world: World) -> None:
    """Also when it is only read and there is nothing to write."""
    existing = node_load(a_node_utilization(cpu=3.0, sampled_at=NOW - 90))
    assert existing is not None
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=as_annotations(existing))))
    await world.begin()
    world.kube.refuse("get", status=0)
    await world.measured(cpu=3.0)
    assert "does not accept annotations" in world.health["annotator-1"].problems[0]
    world.kube.clear_faults()
    await world.clock.advance(RETRY_PERIOD)
    assert (world.health["annotator-1"].problems, world.writes) == ([], 0)


@pytest.mark.parametrize("existing", [{}, {USAGE: "{}"}, {LOAD: "{}"}], ids=["nothing", "another key", "invalid"])
async def test_a_newer_value_written_after_the_read_is_not_overwritten(world: World, existing: dict[str, str]) -> None:
    """A replica that was suspended between reading and writing finds the newer value and keeps it."""
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=existing)))
    await world.begin()
    newer, halted = node_load(a_node_utilization(cpu=5.0, sampled_at=NOW + 3)), asyncio.Event()
    assert newer is not None

    async def another_replica_writes(call: Call) -> None:
        if call.verb == "annotate" and not halted.is_set():
            halted.set()
            world.kube.put(
                NODES, Node(metadata=ObjectMeta(name="node-a", annotations=existing | as_annotations(newer)))
            )

    world.kube.on_call = another_replica_writes
    await world.measured(cpu=1.0)
    assert halted.is_set()
    assert world.load_on() == 0.5
    await world.measured(cpu=1.0, sampled_at=NOW + 2)
    assert world.load_on() == 0.5


@pytest.mark.parametrize("ago", [30, 90, 600])
async def test_a_new_replica_does_not_write_existing_values_again(world: World, ago: int) -> None:
    """They are read first. A change is written, but not within a minute of the existing sample."""
    world.add_node()
    await world.begin("annotator-1")
    await world.measured(cpu=3.0)
    await world.end("annotator-1")
    await world.clock.advance(ago)
    await world.begin("annotator-2")
    await world.measured(cpu=3.0)
    assert world.writes == 1
    await world.measured(cpu=9.0)
    await world.clock.advance(1)
    assert world.writes == (1 if ago == 30 else 2)
    await world.clock.advance(60)
    await world.measured(cpu=9.0)
    assert (world.load_on(), world.writes) == (0.9, 2)


async def test_retry_after_suspends_reads_and_writes(world: World) -> None:
    """For as long as the response requires, and no longer."""
    for name in ("node-a", "node-b"):
        world.add_node(name)
    await world.begin()
    world.kube.fail_next("annotate", status=429, retry_after=4 * RETRY_PERIOD)
    await world.measured("node-a")
    before = len(world.kube.calls)
    await world.measured("node-b")
    await world.clock.advance(4 * RETRY_PERIOD - 1)
    assert [call for call in world.kube.calls[before:] if call.resource == "nodes"] == []
    await world.clock.advance(2)
    assert (world.load_on("node-a"), world.load_on("node-b")) == (0.1, 0.1)


async def test_a_value_from_the_future_is_overwritten(world: World) -> None:
    """Any kubelet may write its own node's annotations: a forged time must not block the true load."""
    forged = node_load(a_node_utilization(cpu=9.0, sampled_at=NOW + 1e9))
    assert forged is not None
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=as_annotations(forged))))
    await world.begin()
    await world.measured(cpu=1.0)
    assert world.load_on() == 0.1


async def test_a_measurement_of_the_far_future_is_dropped(world: World) -> None:
    """It would remain the latest of its node until then: the collectors publish lower epochs."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=9.0, queried_at=1e11, epoch=1_900_000_000_000)
    await world.measured(cpu=1.0)
    assert world.load_on() == 0.1


async def test_a_cycle_of_the_far_future_is_dropped(world: World) -> None:
    """Nor would the skew of a clock end with it."""
    world.add_node()
    await world.begin()
    far = UtilizationCycle(
        shard="all", cycle=1, expected=1, fresh=1, queried_at=1e11, skew=100.0, epoch=1_900_000_000_000, sequence=1
    )
    await world.bus.publish(utilization_cycle("all"), far)
    await world.round_ended(skew=0.0)
    await world.measured(cpu=1.0)
    assert world.load_on() == 0.1


async def test_a_heartbeat_between_read_and_write_causes_one_retry(world: World) -> None:
    """The node is read again and written; no problem is reported."""
    world.add_node()
    await world.begin()
    tries = 0

    async def heartbeat(call: Call) -> None:
        nonlocal tries
        if call.verb == "annotate":
            tries += 1
            if tries == 1:
                world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", labels={"beat": "1"})))

    world.kube.on_call = heartbeat
    await world.measured(cpu=3.0)
    await world.clock.advance(0.1)
    assert (world.load_on(), tries) == (0.3, 2)
    assert world.health["annotator-1"].problems == []


async def test_the_annotator_does_not_read_what_it_wrote_itself(world: World) -> None:
    """Nor do heartbeats cause a conflict: the precondition of the second write is its own annotation."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    [node] = world.kube.stored(NODES)
    await world.clock.advance(90)
    beat = msgspec.structs.replace(node.metadata, labels={"beat": "1"})
    world.kube.put(NODES, msgspec.structs.replace(node, metadata=beat))
    await world.measured(cpu=9.0)
    assert world.load_on() == 0.9
    verbs = [call.verb for call in world.kube.calls if call.resource == "nodes"]
    assert verbs == ["get", "annotate", "annotate"]


async def test_a_newer_value_of_another_replica_is_kept(world: World) -> None:
    """The write fails because our own value is no longer there; the object is read again."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    await world.clock.advance(90)
    newer = node_load(a_node_utilization(cpu=5.0, sampled_at=NOW + 91))
    assert newer is not None
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=as_annotations(newer))))
    await world.measured(cpu=9.0)
    assert world.load_on() == 0.5
    assert world.health["annotator-1"].problems == []


async def test_an_object_with_permanent_conflicts_is_in_backoff_while_others_are_written(world: World) -> None:
    """After three tries for a minute, then for two; it is written when the conflicts end."""
    for name in ("node-a", "node-b"):
        world.add_node(name)
    await world.begin()
    world.kube.refuse("annotate", status=409, name="node-a")
    for tries in (1, 1, 2, 2):
        await world.measured("node-a")
        await world.measured("node-b")
        await world.clock.advance(SETTINGS.nodes.min_interval)
        assert (world.load_on("node-a"), world.load_on("node-b")) == (None, 0.1)
        assert world.writes_on("node-a") == tries * MAX_CONFLICTS
    world.kube.clear_faults()
    await world.clock.advance(1)
    await world.measured("node-a")
    assert world.load_on("node-a") == 0.1


async def test_a_write_resets_the_number_of_conflicts(world: World) -> None:
    """Two before and two after it are not three in a row."""
    world.add_node()
    await world.begin()
    for cpu in (1.0, 9.0):
        world.kube.fail_next("annotate", status=409, times=MAX_CONFLICTS - 1)
        await world.measured(cpu=cpu)
        await world.clock.advance(1)
        assert world.load_on() == cpu / 10
        await world.clock.advance(SETTINGS.nodes.min_interval)


async def test_a_policy_that_refuses_every_write_is_reported(world: World) -> None:
    """The API server responds to such a patch with a conflict."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    await world.clock.advance(SETTINGS.nodes.min_interval)
    world.kube.refuse("annotate", status=409)
    await world.measured(cpu=9.0)
    await world.clock.advance(1)
    assert "cannot be annotated: 409" in world.health["annotator-1"].problems[0]


async def test_a_removed_annotation_is_written_again_at_the_next_refresh(world: World) -> None:
    """The object's existing annotations count, not the last write."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a")))
    await world.clock.advance(SETTINGS.nodes.refresh_period)
    await world.measured(cpu=3.0)
    await world.clock.advance(0.1)
    assert world.load_on() == 0.3


async def test_writes_that_conflict_keep_the_rate_too(world: World) -> None:
    """Every try is a request to the API server."""
    for number in range(30):
        world.add_node(f"node-{number}")
    await world.begin()
    world.kube.refuse("annotate", status=409)
    for number in range(30):
        await world.measured(f"node-{number}")
    await world.clock.advance(1)
    assert 9 <= world.writes <= 11
    await world.clock.advance(9)
    assert world.writes == 30 * MAX_CONFLICTS


async def test_all_replicas_together_keep_the_rate_while_replicas_join_and_leave(world: World) -> None:
    """Ten writes in any second; every object is written."""
    times: list[float] = []

    async def note(call: Call) -> None:
        if call.verb == "annotate":
            times.append(world.clock.monotonic())

    world.kube.on_call = note
    for number in range(600):
        world.add_node(f"node-{number}")
        await world.bus.publish(
            node_utilization(f"node-{number}"), a_node_utilization(f"node-{number}", sampled_at=NOW, queried_at=NOW)
        )
    await world.begin("annotator-1")
    await world.clock.advance(5)
    await world.begin("annotator-2")
    await world.begin("annotator-3")
    await world.clock.advance(2.5 * ROUND)
    await world.end("annotator-2")
    await world.clock.advance(60)
    assert len(times) == 600
    for start in times:
        assert sum(start <= other < start + 1 for other in times) <= 11


async def test_a_forbidden_write_is_retried_with_backoff(world: World) -> None:
    """After a minute, two, four; other objects are written meanwhile."""
    world.add_node()
    world.add_node("node-b")
    await world.begin()
    world.kube.refuse("annotate", status=403, name="node-a")
    tried = []
    for minute in range(16):
        before = world.writes_on("node-a")
        await world.measured("node-a", cpu=3.0)
        await world.measured("node-b", cpu=minute % 2 * 5 + 1.0)
        await world.clock.advance(61)
        if world.writes_on("node-a") > before:
            tried.append(minute)
    assert tried == [0, 1, 3, 7, 15]
    assert world.writes_on("node-b") == 16


async def test_a_right_that_was_missing_briefly_delays_a_write_by_a_minute(world: World) -> None:
    """Roles and the fence are applied while the services run. The next refusal begins with a minute again."""
    world.add_node()
    await world.begin()
    for _ in range(2):
        world.kube.refuse("annotate", status=403)
        await world.measured(cpu=3.0)
        world.kube.clear_faults()
        await world.clock.advance(SETTINGS.nodes.min_interval)
        await world.measured(cpu=4.0)
        assert world.load_on() == 0.4
        await world.clock.advance(SETTINGS.nodes.min_interval)
        await world.measured(cpu=9.0)
        assert world.load_on() == 0.9
        await world.clock.advance(SETTINGS.nodes.min_interval)


async def test_an_invalid_message_is_skipped(world: World) -> None:
    """The next one is handled."""
    world.add_node()
    await world.begin()
    world.bus.inject(node_utilization("node-a"), b'{"node": 1}')
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3


async def test_writes_keep_the_rate_and_changes_come_first(world: World) -> None:
    """Ten a second at most; a changed node is written before those that are only due for a refresh."""
    for number in range(100):
        world.add_node(f"node-{number}")
    await world.begin()
    await world.measured("node-99", cpu=1.0)
    await world.clock.advance(90)
    before = world.writes
    for number in range(99):
        await world.measured(f"node-{number}", cpu=1.0)
    await world.measured("node-99", cpu=9.0)
    await world.clock.advance(1)
    assert world.load_on("node-99") == 0.9
    assert world.writes - before <= 11
    await world.clock.advance(9)
    assert world.writes == 101


async def test_replicas_share_the_objects(world: World) -> None:
    """Each object is written once, by one of them; both write."""
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    for number in range(40):
        world.add_node(f"node-{number}")
        await world.measured(f"node-{number}")
    await world.clock.advance(20)
    assert world.writes == 40
    assert len(world.bus.published(AnnotationWritten, "equipoise.annotation.node.*")) == 40
    holders = [lease.spec.holder_identity for lease in world.kube.stored(LEASES)]
    assert holders == ["annotator-1", "annotator-2"]


async def test_a_replica_that_joins_others_waits_until_they_have_seen_it(world: World) -> None:
    """Otherwise all together would exceed the rate. It is ready at once, because it holds its Lease: a rollout does not
    wait for it."""
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    assert world.health["annotator-2"].report().ready
    await world.end("annotator-1")
    for number in range(20):
        world.add_node(f"node-{number}")
        await world.measured(f"node-{number}")
    await world.clock.advance(ROUND / 2)
    assert world.writes == 0
    await world.clock.advance(ROUND)
    assert world.writes == 20


async def test_a_replica_without_a_lease_is_not_ready(world: World) -> None:
    world.kube.refuse("list", resource="leases", status=500)
    await world.begin("annotator-1")
    assert not world.health["annotator-1"].report().ready
    world.kube.clear_faults()
    await world.clock.advance(ROUND)
    assert world.health["annotator-1"].report().ready


@pytest.mark.parametrize("graceful", [True, False])
async def test_objects_of_a_lost_replica_are_taken_over(world: World, graceful: bool) -> None:
    """After one renewal if it released its Lease, else when its Lease expires; the Lease is used again."""
    for number in range(20):
        world.add_node(f"node-{number}")
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    if not graceful:
        world.kube.refuse("replace", resource="leases", status=0)
    await world.end("annotator-2")
    world.kube.clear_faults()
    await world.clock.advance(ROUND if graceful else SETTINGS.membership.lease_duration + ROUND)
    for number in range(20):
        await world.measured(f"node-{number}")
    await world.clock.advance(20)
    assert all(world.load_on(f"node-{number}") is not None for number in range(20))
    await world.begin("annotator-3")
    assert len(world.kube.stored(LEASES)) == 2


async def test_a_change_is_written_within_a_minute_after_its_writer_was_lost(world: World) -> None:
    """The new writer does not wait for another minimum interval."""
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    for number in range(20):
        world.add_node(f"node-{number}")
        await world.measured(f"node-{number}")
    await world.clock.advance(SETTINGS.nodes.min_interval)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.end("annotator-2")
    world.kube.clear_faults()
    for _ in range(4):
        for number in range(20):
            await world.measured(f"node-{number}", cpu=9.0)
        await world.clock.advance(15)
    assert {world.load_on(f"node-{number}") for number in range(20)} == {0.9}


async def test_a_replica_that_cannot_renew_its_lease_stops_writing(world: World) -> None:
    """When the Lease expires, the others have its objects."""
    world.add_node()
    await world.begin()
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.membership.lease_duration)
    await world.measured(cpu=3.0)
    assert world.writes == 0
    assert "the Lease among the annotators" in world.health["annotator-1"].problems[0]
    world.kube.clear_faults()
    await world.clock.advance(ROUND)
    assert world.load_on() == 0.3


async def test_a_lease_that_another_client_took_is_replaced(world: World) -> None:
    """Only one Lease is lost."""
    await world.begin()
    membership = world.kube.stored(LEASES)[0]
    stolen = msgspec.structs.replace(membership.spec, holder_identity="another")
    world.kube.put(LEASES, Lease(metadata=membership.metadata, spec=stolen))
    await world.clock.advance(2 * ROUND)
    assert {lease.spec.holder_identity for lease in world.kube.stored(LEASES)} == {"another", "annotator-1"}
    assert world.health["annotator-1"].problems == []


async def test_cranes_annotations_are_written_as_often_as_crane_needs_them_when_enabled(world: World) -> None:
    """With ours in one patch every three minutes; crane uses the fastest metrics for eight."""
    world.add_node()
    await world.begin(settings=AnnotatorSettings(crane=True))
    pods = [PlacedPod(uid=f"uid-{n}", namespace="shop", name=f"web-{n}", placed_at=NOW - 30) for n in range(5)]
    await world.bus.publish(node_placement("node-a"), a_placement(pods=pods))
    await world.measured(cpu=3.0)
    annotations = world.kube.stored(NODES)[0].metadata.annotations
    assert annotations.keys() == {LOAD, "cpu_usage_avg_5m", "mem_usage_avg_5m", "node_hot_value"}
    assert annotations["cpu_usage_avg_5m"] == "0.30000,2027-01-15T08:00:00Z"
    assert annotations["node_hot_value"] == "3,2027-01-15T08:00:00Z"
    for _ in range(4 * 4):
        await world.clock.advance(45)
        await world.measured(cpu=3.0)
    assert world.writes in (4, 5)
    published = world.bus.published(AnnotationWritten, "equipoise.annotation.node.*")
    assert all(message.annotations.keys() == annotations.keys() for message in published)


async def test_cranes_annotations_are_not_written_by_default(world: World) -> None:
    """Placement is not subscribed to either."""
    world.add_node()
    await world.begin()
    await world.bus.publish(node_placement("node-a"), a_placement())
    await world.measured()
    assert world.kube.stored(NODES)[0].metadata.annotations.keys() == {LOAD}


async def test_only_our_annotation_is_changed(world: World) -> None:
    """Other annotations and labels stay as they are."""
    metadata = ObjectMeta(name="node-a", annotations={"theirs": "1"}, labels={"pool": "blue"})
    world.kube.put(NODES, Node(metadata=metadata))
    await world.begin()
    await world.measured()
    after = world.kube.stored(NODES)[0].metadata
    assert set(after.annotations) == {"theirs", LOAD}
    assert after.labels == {"pool": "blue"}


def test_the_builders_make_valid_messages_of_the_collector() -> None:
    """They can be decoded."""
    message = a_node_utilization()
    assert msgspec.json.decode(msgspec.json.encode(message), type=NodeUtilization) == message


async def test_it_writes_nothing_until_its_admission_policy_is_in_effect(world: World) -> None:
    """Neither an annotation nor its Lease; then it writes."""
    world.kube.as_service_account = True
    world.add_node()
    await world.begin()
    await world.measured()
    await world.clock.advance(3 * fence.RETRY_PERIOD)
    assert {(call.verb, call.name) for call in world.kube.calls} == {("create", PROBE)}
    assert "equipoise-annotator-fence" in world.health["annotator-1"].report().problems[0]
    denied = "ValidatingAdmissionPolicy 'equipoise-annotator-fence' with binding 'x' denied request"
    world.kube.fail_next("create", status=422, message=denied, name=PROBE, times=None)
    await world.measured()
    await world.clock.advance(fence.RETRY_PERIOD + ROUND)
    assert world.writes == 1


async def test_the_younger_of_two_installations_annotates_nothing(world: World) -> None:
    """While the other one works; afterwards it writes at the next measurement."""
    world.add_node()
    world.kube.put(LEASES, a_lease("balance"))
    await world.begin()
    await world.measured(cpu=3.0)
    assert world.load_on() is None
    assert any("in namespace balance" in problem for problem in world.health["annotator-1"].problems)
    world.kube.remove(LEASES, "equipoise-descheduler", "balance")
    await world.clock.advance(10)
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3


RECLAIMED_TOO = AnnotatorSettings(reclaimed=ReclaimedWriteSettings(enabled=True))


async def evaluated(world: World, cpu: float, **fields: Any) -> None:
    """The reclaimer publishes that this many cores of node-a can be reclaimed for batch pods, of 8."""
    world.sequence += 1
    values = {"evaluated_at": world.clock.now(), "sequence": world.sequence, "terms": RECLAIMED_NODE.terms} | fields
    message = a_reclaimed_node("node-a", batch=Resources(cpu=cpu, memory=GIB), **values)
    await world.bus.publish(reclaimed_node("node-a"), message)
    await world.clock.advance(0)


def reclaimed_on_node(world: World) -> float | None:
    """Cores of the band batch in the annotation."""
    value, _ = read_node_reclaimed(world.kube.stored(NODES)[0].metadata.annotations)
    return None if value is None else value.bands["batch"].cpu


async def test_what_can_be_reclaimed_is_written_beside_the_load(world: World) -> None:
    """Each under its own key; a write of one keeps the other."""
    world.add_node()
    await world.begin(settings=RECLAIMED_TOO)
    await world.measured(cpu=3.0)
    await evaluated(world, 2.0)
    await world.clock.advance(60)
    await world.measured(cpu=6.0)

    assert 2.0 == reclaimed_on_node(world)
    assert 0.6 == world.load_on()
    assert {LOAD, RECLAIMED} == set(world.kube.stored(NODES)[0].metadata.annotations)
    published = world.bus.published(AnnotationWritten, "equipoise.annotation.node.node-a")
    assert ["node/node-a"] * 3 == [each.object for each in published]
    assert {RECLAIMED} == set(published[1].annotations)


async def test_nothing_of_bands_is_written_by_default(world: World) -> None:
    """Nor are the messages of a reclaimer received."""
    world.add_node()
    await world.begin()
    await evaluated(world, 2.0)

    assert 0 == world.writes


async def test_small_changes_of_bands_are_not_written_and_large_ones_at_most_once_a_minute(world: World) -> None:
    """Of 8 cores, five points are 0.4."""
    world.add_node()
    await world.begin(settings=RECLAIMED_TOO)
    await evaluated(world, 2.0)
    await world.clock.advance(30)
    await evaluated(world, 4.0)
    assert 2.0 == reclaimed_on_node(world)
    await world.clock.advance(30)
    await evaluated(world, 2.3)
    assert 2.0 == reclaimed_on_node(world)
    await evaluated(world, 4.0)
    assert 4.0 == reclaimed_on_node(world)


@pytest.mark.parametrize(
    "fields",
    [{"evaluated_at": NOW - 181}, {"evaluated_at": NOW + 3_600}, {"bands": {}}, {"terms": {}}, {"uid": "another"}],
    ids=["old", "of the far future", "without bands", "without capacity", "of another machine"],
)
async def test_unknown_and_outdated_amounts_of_bands_are_not_written(world: World, fields: dict[str, Any]) -> None:
    """No zero either."""
    world.add_node()
    await world.begin(settings=RECLAIMED_TOO)
    await evaluated(world, 2.0, **fields)

    assert 0 == world.writes


async def test_an_annotator_that_starts_continues_with_the_existing_amounts_of_bands(world: World) -> None:
    """They are read, not written again without a change."""
    world.add_node()
    await world.begin(settings=RECLAIMED_TOO)
    await evaluated(world, 2.0)
    await world.end("annotator-1")
    await world.begin("annotator-2", RECLAIMED_TOO)
    await world.clock.advance(70)
    await evaluated(world, 2.1)

    assert 1 == world.writes


@pytest.mark.parametrize("refused", [False, True], ids=["written", "refused"])
async def test_after_a_clock_was_ahead_load_is_written_as_before(world: World, *, refused: bool) -> None:
    """What it wrote at that time, and when it was to try again, would keep it from writing until then."""
    world.add_node()
    await world.begin()
    world.clock.step(31_536_000)
    if refused:
        world.kube.fail_next("annotate", status=422)
    await world.measured(cpu=3.0)
    world.clock.step(-31_536_000)
    await world.clock.advance(SETTINGS.node_threshold.min_interval)
    await world.measured(cpu=5.0)
    await world.clock.advance(RETRY_PERIOD)
    assert world.load_on() == 0.5
