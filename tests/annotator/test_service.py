"""The annotator with bus, API server and clock of memory."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from annotator.worlds import ROUND, SETTINGS, World
from builders import NOW, a_node_utilization, a_placement, a_window, a_workload, a_workload_utilization

from equipoise.annotator.service import ATTEMPTS, RETRY_PERIOD
from equipoise.annotator.settings import AnnotatorSettings
from equipoise.contracts.bus.subjects import node_placement, node_utilization, workload_utilization
from equipoise.contracts.kubernetes.annotations import (
    LOAD,
    USAGE,
    as_annotations,
    node_load,
    read_node_load,
    read_workload_usage,
)
from equipoise.contracts.kubernetes.objects import Lease, Node, ObjectMeta, WorkloadObject
from equipoise.contracts.messages.annotation import AnnotationWritten
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, LEASES, NODES
from equipoise.testbed.memory.faults import Call


async def test_measured_load_stands_on_the_node_and_is_said(world: World) -> None:
    """Load, its time and the reason; the message tells exactly what was written."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3
    (said,) = world.bus.published(AnnotationWritten, "equipoise.annotation.node.node-a")
    assert said.object == "node/node-a"
    assert said.why == "not written before"
    assert said.annotations == world.kube.stored(NODES)[0].metadata.annotations
    load, _ = read_node_load(said.annotations)
    assert load is not None
    assert load.sampled_at == datetime.fromtimestamp(NOW, UTC)


async def test_values_that_were_there_before_are_written_too(world: World) -> None:
    """An annotator that starts finds the last values on the bus."""
    world.add_node()
    await world.measured(cpu=3.0)
    await world.begin()
    assert world.load_on() == 0.3


async def test_a_workload_gets_its_usage_per_replica(world: World) -> None:
    """On the Deployment itself, under the other key."""
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
    assert [said.object for said in world.bus.published(AnnotationWritten, subject)] == ["Deployment/shop/web"]


async def test_a_workload_of_unknown_kind_is_left_alone(world: World) -> None:
    """We would not know where to write."""
    await world.begin()
    strange = a_workload(kind="Frobnicator", group="example.com")
    await world.bus.publish(workload_utilization(strange), a_workload_utilization(strange))
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
    """And never a zero."""
    world.add_node()
    await world.begin()
    await world.measured(**fields)
    assert world.writes == 0


async def test_nothing_is_written_while_the_clocks_are_too_far_apart(world: World) -> None:
    """The age of no value is known then; an annotator that starts hears of it before the values."""
    world.add_node()
    await world.round_ended(skew=100.0)
    await world.measured(cpu=3.0)
    await world.begin()
    await world.measured(cpu=5.0)
    assert world.writes == 0
    await world.round_ended(skew=0.2)
    await world.measured(cpu=7.0)
    assert world.load_on() == 0.7


async def test_a_shard_that_is_no_more_does_not_forbid_writes_for_ever(world: World) -> None:
    """The last word of a collector that was taken away."""
    world.add_node()
    await world.begin()
    await world.round_ended(skew=-100.0, shard="former")
    await world.clock.advance(1_801)
    await world.round_ended(skew=0.0)
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3


async def test_small_changes_wait_and_large_ones_wait_a_minute(world: World) -> None:
    """Five points are the band; between two writes of one node a minute passes."""
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
    """So that its time tells a reader that somebody still measures."""
    world.add_node()
    await world.begin()
    for _ in range(130):
        await world.measured(cpu=3.0)
        await world.clock.advance(60)
    assert world.writes in (5, 6)


async def test_an_older_message_changes_nothing(world: World) -> None:
    """The bus may repeat and delay."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0, sequence=10)
    await world.clock.advance(90)
    await world.measured(cpu=9.0, sequence=9)
    assert world.load_on() == 0.3


async def test_a_recreated_node_never_carries_its_predecessors_load(world: World) -> None:
    """The write names the UID that was measured; the new node's own values come under its own."""
    world.add_node(uid="new")
    await world.begin()
    await world.measured(cpu=9.0, uid="old")
    assert (world.load_on(), world.writes) == (None, 0)
    await world.measured(cpu=1.0, uid="new")
    await world.clock.advance(1)
    assert world.load_on() == 0.1
    assert world.health["annotator-1"].problems == []


async def test_a_recreated_node_is_new(world: World) -> None:
    """Neither the minute nor the last value of its predecessor counts for it."""
    world.add_node(uid="old")
    await world.begin()
    await world.measured(cpu=1.0, uid="old")
    world.kube.remove(NODES, "node-a")
    world.add_node(uid="new")
    await world.clock.advance(1)
    await world.measured(cpu=1.0, uid="new")
    assert (world.load_on(), world.writes) == (0.1, 2)


async def test_an_object_that_is_gone_is_no_trouble(world: World) -> None:
    """The collector learns of it a little later than the API server."""
    await world.begin()
    await world.measured("gone")
    world.add_node("node-b")
    await world.clock.advance(1)
    await world.measured("node-b", cpu=2.0)
    assert world.load_on("node-b") == 0.2
    assert world.health["annotator-1"].problems == []


@pytest.mark.parametrize("status", [0, 503])
@pytest.mark.parametrize("newer", [True, False])
async def test_an_api_server_that_is_away_gets_the_newest_value_later(world: World, newer: bool, status: int) -> None:
    """Nothing is lost, the trouble is told, and it is over when it is over."""
    world.add_node()
    await world.begin()
    world.kube.refuse("annotate", status=status)
    await world.measured(cpu=3.0)
    assert "does not take annotations" in world.health["annotator-1"].problems[0]
    if newer:
        await world.measured(cpu=4.0)
    world.kube.heal()
    await world.clock.advance(RETRY_PERIOD)
    assert world.load_on() == (0.4 if newer else 0.3)
    assert world.health["annotator-1"].problems == []


async def test_that_an_api_server_was_away_is_over_with_the_first_answer(world: World) -> None:
    """Also when it is read only, and nothing is to be written."""
    stands = node_load(a_node_utilization(cpu=3.0, sampled_at=NOW - 90))
    assert stands is not None
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=as_annotations(stands))))
    await world.begin()
    world.kube.refuse("get", status=0)
    await world.measured(cpu=3.0)
    assert "does not take annotations" in world.health["annotator-1"].problems[0]
    world.kube.heal()
    await world.clock.advance(RETRY_PERIOD)
    assert (world.health["annotator-1"].problems, world.writes) == ([], 0)


@pytest.mark.parametrize("stood", [{}, {USAGE: "{}"}, {LOAD: "{}"}], ids=["nothing", "another key", "nonsense"])
async def test_a_value_read_before_somebody_wrote_a_newer_one_is_not_written(
    world: World, stood: dict[str, str]
) -> None:
    """A replica that was halted between reading and writing finds the newer value and leaves it."""
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=stood)))
    await world.begin()
    newer, halted = node_load(a_node_utilization(cpu=5.0, sampled_at=NOW + 3)), asyncio.Event()
    assert newer is not None

    async def somebody_else_writes(call: Call) -> None:
        if call.verb == "annotate" and not halted.is_set():
            halted.set()
            world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=stood | as_annotations(newer))))

    world.kube.on_call = somebody_else_writes
    await world.measured(cpu=1.0)
    assert halted.is_set()
    assert world.load_on() == 0.5
    await world.measured(cpu=1.0, sampled_at=NOW + 2)
    assert world.load_on() == 0.5


@pytest.mark.parametrize("ago", [30, 90, 600])
async def test_what_stands_on_an_object_is_not_written_again_because_a_replica_is_new(world: World, ago: int) -> None:
    """It is read first; a change is written as ever, but not within a minute of the sample that stands there."""
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


async def test_an_api_server_that_asks_to_be_left_alone_is(world: World) -> None:
    """For as long as it says, reads and writes; nothing is put off for longer."""
    for name in ("node-a", "node-b"):
        world.add_node(name)
    await world.begin()
    world.kube.fail_next("annotate", status=429, retry_after=4 * RETRY_PERIOD)
    await world.measured("node-a")
    asked = len(world.kube.calls)
    await world.measured("node-b")
    await world.clock.advance(4 * RETRY_PERIOD - 1)
    assert [call for call in world.kube.calls[asked:] if call.resource == "nodes"] == []
    await world.clock.advance(2)
    assert (world.load_on("node-a"), world.load_on("node-b")) == (0.1, 0.1)


async def test_a_value_from_the_future_is_overwritten(world: World) -> None:
    """Any kubelet may write its own node's annotations: a forged time must not keep the true load out for ever."""
    forged = node_load(a_node_utilization(cpu=9.0, sampled_at=NOW + 1e9))
    assert forged is not None
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a", annotations=as_annotations(forged))))
    await world.begin()
    await world.measured(cpu=1.0)
    assert world.load_on() == 0.1


async def test_a_heartbeat_between_reading_and_writing_costs_one_more_try(world: World) -> None:
    """It is read again and written; nobody is told of it."""
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


async def test_what_the_annotator_wrote_itself_it_does_not_read_again(world: World) -> None:
    """Nor do heartbeats between two writes cost anything: its own annotation is what the second one goes by."""
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


async def test_a_newer_value_of_another_replica_is_found_by_who_wrote_the_last_one(world: World) -> None:
    """It goes by what it wrote itself; that is no longer there, so it looks, and leaves the newer value."""
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


async def test_an_object_that_is_written_to_all_the_time_waits_while_others_are_written(world: World) -> None:
    """After three tries for a minute, then for two; its value is written once there is peace."""
    for name in ("node-a", "node-b"):
        world.add_node(name)
    await world.begin()
    world.kube.refuse("annotate", status=409, name="node-a")
    for tries in (1, 1, 2, 2):
        await world.measured("node-a")
        await world.measured("node-b")
        await world.clock.advance(SETTINGS.nodes.least_interval)
        assert (world.load_on("node-a"), world.load_on("node-b")) == (None, 0.1)
        assert world.writes_on("node-a") == tries * ATTEMPTS
    world.kube.heal()
    await world.clock.advance(1)
    await world.measured("node-a")
    assert world.load_on("node-a") == 0.1


async def test_conflicts_count_until_it_is_written(world: World) -> None:
    """Two now and two later are no three in a row."""
    world.add_node()
    await world.begin()
    for cpu in (1.0, 9.0):
        world.kube.fail_next("annotate", status=409, times=ATTEMPTS - 1)
        await world.measured(cpu=cpu)
        await world.clock.advance(1)
        assert world.load_on() == cpu / 10
        await world.clock.advance(SETTINGS.nodes.least_interval)


async def test_a_policy_that_refuses_what_stands_anew_is_told(world: World) -> None:
    """The server answers such a patch like one that came too late."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    await world.clock.advance(SETTINGS.nodes.least_interval)
    world.kube.refuse("annotate", status=409)
    await world.measured(cpu=9.0)
    await world.clock.advance(1)
    assert "cannot be annotated: 409" in world.health["annotator-1"].problems[0]


async def test_an_annotation_that_somebody_removed_comes_back_at_its_turn(world: World) -> None:
    """What is on the object counts, not what we remember to have written."""
    world.add_node()
    await world.begin()
    await world.measured(cpu=3.0)
    world.kube.put(NODES, Node(metadata=ObjectMeta(name="node-a")))
    await world.clock.advance(SETTINGS.nodes.period)
    await world.measured(cpu=3.0)
    await world.clock.advance(0.1)
    assert world.load_on() == 0.3


async def test_conflicts_keep_the_rate_too(world: World) -> None:
    """Every try is a request to the API server, whatever becomes of it."""
    for number in range(30):
        world.add_node(f"node-{number}")
    await world.begin()
    world.kube.refuse("annotate", status=409)
    for number in range(30):
        await world.measured(f"node-{number}")
    await world.clock.advance(1)
    assert 9 <= world.writes <= 11
    await world.clock.advance(9)
    assert world.writes == 30 * ATTEMPTS


async def test_replicas_together_keep_the_rate_while_they_come_and_go(world: World) -> None:
    """Ten writes in any second, however many share them; who joins or leaves loses none of the objects."""
    moments: list[float] = []

    async def note(call: Call) -> None:
        if call.verb == "annotate":
            moments.append(world.clock.monotonic())

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
    assert len(moments) == 600
    for moment in moments:
        assert sum(moment <= other < moment + 1 for other in moments) <= 11


async def test_a_missing_right_is_told_and_not_tried_for_ever(world: World) -> None:
    """A forbidden write, then a rest of one minute, of two, of four; other objects go on."""
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


async def test_a_right_that_was_missing_for_a_moment_silences_nothing_for_long(world: World) -> None:
    """Roles and the fence are applied anew while the services run; the next refusal begins with a minute again."""
    world.add_node()
    await world.begin()
    for _ in range(2):
        world.kube.refuse("annotate", status=403)
        await world.measured(cpu=3.0)
        world.kube.heal()
        await world.clock.advance(SETTINGS.nodes.least_interval)
        await world.measured(cpu=4.0)
        assert world.load_on() == 0.4
        await world.clock.advance(SETTINGS.nodes.least_interval)
        await world.measured(cpu=9.0)
        assert world.load_on() == 0.9
        await world.clock.advance(SETTINGS.nodes.least_interval)


async def test_an_unreadable_message_is_passed_over(world: World) -> None:
    """The next one is heard."""
    world.add_node()
    await world.begin()
    world.bus.inject(node_utilization("node-a"), b'{"node": 1}')
    await world.measured(cpu=3.0)
    assert world.load_on() == 0.3


async def test_writes_keep_the_rate_and_changes_go_first(world: World) -> None:
    """Ten a second at most; a node that changed overtakes those that are only due."""
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


async def test_replicas_divide_the_objects(world: World) -> None:
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


async def test_who_joins_others_waits_until_they_have_seen_it(world: World) -> None:
    """Else all together would write more than they may."""
    world.add_node()
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    assert not world.health["annotator-2"].report().ready
    await world.clock.advance(ROUND)
    assert world.health["annotator-2"].report().ready


@pytest.mark.parametrize("gently", [True, False])
async def test_what_a_replica_leaves_is_taken_over(world: World, gently: bool) -> None:
    """After one round if it could give its seat back, else when its Lease has run out; its seat is used again."""
    for number in range(20):
        world.add_node(f"node-{number}")
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    if not gently:
        world.kube.refuse("replace", resource="leases", status=0)
    await world.end("annotator-2")
    world.kube.heal()
    await world.clock.advance(ROUND if gently else SETTINGS.seat.lease_duration + ROUND)
    for number in range(20):
        await world.measured(f"node-{number}")
    await world.clock.advance(20)
    assert all(world.load_on(f"node-{number}") is not None for number in range(20))
    await world.begin("annotator-3")
    assert len(world.kube.stored(LEASES)) == 2


async def test_what_changes_when_its_writer_is_lost_is_written_within_a_minute(world: World) -> None:
    """Whoever takes it over does not wait once more for what is no longer near."""
    await world.begin("annotator-1")
    await world.begin("annotator-2")
    await world.clock.advance(2 * ROUND)
    for number in range(20):
        world.add_node(f"node-{number}")
        await world.measured(f"node-{number}")
    await world.clock.advance(SETTINGS.nodes.least_interval)
    world.kube.refuse("replace", resource="leases", status=0)
    await world.end("annotator-2")
    world.kube.heal()
    for _ in range(4):
        for number in range(20):
            await world.measured(f"node-{number}", cpu=9.0)
        await world.clock.advance(15)
    assert {world.load_on(f"node-{number}") for number in range(20)} == {0.9}


async def test_a_replica_that_cannot_renew_its_seat_stops_writing(world: World) -> None:
    """By the time its Lease has run out the others have its objects."""
    world.add_node()
    await world.begin()
    world.kube.refuse("replace", resource="leases", status=0)
    await world.clock.advance(SETTINGS.seat.lease_duration)
    await world.measured(cpu=3.0)
    assert world.writes == 0
    assert "seat" in world.health["annotator-1"].problems[0]
    world.kube.heal()
    await world.clock.advance(ROUND)
    assert world.load_on() == 0.3


async def test_a_seat_that_somebody_else_took_is_replaced(world: World) -> None:
    """A foreign hand on our Lease costs one seat, no more."""
    await world.begin()
    seat = world.kube.stored(LEASES)[0]
    stolen = msgspec.structs.replace(seat.spec, holder_identity="another")
    world.kube.put(LEASES, Lease(metadata=seat.metadata, spec=stolen))
    await world.clock.advance(2 * ROUND)
    assert {lease.spec.holder_identity for lease in world.kube.stored(LEASES)} == {"another", "annotator-1"}
    assert world.health["annotator-1"].problems == []


async def test_crane_s_annotations_are_written_when_asked_for_as_often_as_crane_needs_them(world: World) -> None:
    """With ours in one patch every three minutes; its readers believe the fast ones for eight."""
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
    said = world.bus.published(AnnotationWritten, "equipoise.annotation.node.*")
    assert all(message.annotations.keys() == annotations.keys() for message in said)


async def test_crane_s_annotations_are_not_written_unasked(world: World) -> None:
    """Nor is placement listened to."""
    world.add_node()
    await world.begin()
    await world.bus.publish(node_placement("node-a"), a_placement())
    await world.measured()
    assert world.kube.stored(NODES)[0].metadata.annotations.keys() == {LOAD}


async def test_only_the_one_annotation_is_touched(world: World) -> None:
    """What others wrote stays as it is."""
    metadata = ObjectMeta(name="node-a", annotations={"theirs": "1"}, labels={"pool": "blue"})
    world.kube.put(NODES, Node(metadata=metadata))
    await world.begin()
    await world.measured()
    after = world.kube.stored(NODES)[0].metadata
    assert set(after.annotations) == {"theirs", LOAD}
    assert after.labels == {"pool": "blue"}


def test_messages_are_the_ones_of_the_collector() -> None:
    """The builders stand for what the bus really carries."""
    message = a_node_utilization()
    assert msgspec.json.decode(msgspec.json.encode(message), type=NodeUtilization) == message
