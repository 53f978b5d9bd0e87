"""The service in one process: from measurements to messages and to the status of a node."""

from collections.abc import AsyncIterator

import pytest
from builders import GIB, a_node_utilization, a_placement
from reclaimer.worlds import INTERVAL, NAMES, NODE, World, a_batch_pod

from equipoise.contracts.bus.subjects import node_placement, node_utilization
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.latest import supersedes
from equipoise.contracts.messages.placement import NodeColocation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.reclaimer.decisions.strategy import ReclaimStrategy
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import NODES

BATCH_CPU, BATCH_MEMORY = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    world = World()
    async with world.bus:
        yield world
        await world.end()


async def test_it_does_not_run_unless_it_is_enabled(world: World) -> None:
    await world.begin()
    with pytest.raises(ConfigurationError, match=r"reclaimer\.enabled is false"):
        await world.begin(enabled=False)


async def test_in_observation_it_publishes_what_it_would_offer_and_writes_nothing(world: World) -> None:
    """Of 10 cores, 6.5 may be used; 2 are, and 0.5 are the margin of the forecast."""
    await world.begin()
    await world.rounds(8)
    batch = world.received[-1].bands["batch"]
    assert batch.reclaimed.cpu == pytest.approx(4.0)
    assert batch.offered.cpu == pytest.approx(4.0)
    assert not world.received[-1].written
    assert world.writes == 0
    assert not world.status


async def test_enforcement_writes_the_offer_to_the_status(world: World) -> None:
    """It grows by a tenth of the node at each evaluation."""
    await world.begin(mode="enforce")
    offered = []
    for _ in range(6):
        await world.rounds(1)
        offered.append(world.status.get(BATCH_CPU))
    assert offered[-1] == 4_000
    assert [1_000, 2_000, 3_000, 4_000] == list(dict.fromkeys(amount for amount in offered if amount is not None))
    assert world.status.keys() == set(NAMES)
    await world.rounds(1)
    assert world.received[-1].written
    assert {message.mode for message in world.received} == {"enforce"}


async def test_amounts_are_known_as_written_when_they_were(world: World) -> None:
    """Not one evaluation later, when they have grown again; not either while the write fails."""
    await world.begin(mode="enforce")
    await world.rounds(3)
    cpu = world.received[-1].bands["batch"].offered.cpu
    assert cpu is not None
    assert (world.received[-1].written, world.status[BATCH_CPU]) == (True, round(cpu * 1_000))
    assert [False, True] == [message.written for message in world.received[-2:]]
    assert world.received[-2].sequence == world.received[-1].sequence

    world.kube.fail_next("update_status", status=500, times=None)
    await world.rounds(1)
    assert not world.received[-1].written


async def test_without_a_change_nothing_is_written(world: World) -> None:
    await world.begin(mode="enforce")
    await world.rounds(12)
    writes = world.writes
    await world.rounds(10)
    assert world.writes == writes


async def test_a_surge_shrinks_the_offer_at_once_but_never_below_what_pods_request(world: World) -> None:
    pod = a_batch_pod(cpu=2.5)
    await world.begin(mode="enforce")
    await world.rounds(10, pod)
    assert world.status[BATCH_CPU] == 4_000
    await world.rounds(2, pod, cpu=9.0)
    assert world.status[BATCH_CPU] == 2_500


async def test_without_samples_the_offer_falls_step_by_step_to_what_pods_request(world: World) -> None:
    """It stays for 5 minutes, and is reduced until 15 minutes have passed. The names remain."""
    pod = a_batch_pod(cpu=1.0, memory=2 * GIB)
    await world.begin(mode="enforce")
    await world.rounds(10, pod)
    await world.clock.advance(120)
    await world.placed(pod)
    assert world.status[BATCH_CPU] == 4_000
    offered = []
    for _ in range(20):
        await world.clock.advance(INTERVAL)
        await world.placed(pod)
        offered.append(world.status[BATCH_CPU])
    assert sorted(offered, reverse=True) == offered
    assert len(set(offered)) > 5
    assert (world.status[BATCH_CPU], world.status[BATCH_MEMORY]) == (1_000, 2 * GIB)
    assert "s old" in world.received[-1].degraded
    assert world.received[-1].bands["batch"].reclaimed == Resources()


async def test_a_node_that_was_never_measured_offers_nothing(world: World) -> None:
    """Unknown is neither idle nor 0 that is written."""
    await world.begin(mode="enforce")
    for _ in range(20):
        await world.placed()
        await world.clock.advance(INTERVAL)
    assert not world.status
    assert "has not been measured" in world.received[-1].degraded


async def test_amounts_that_are_unknown_of_every_node_have_no_metric(world: World) -> None:
    await world.begin()
    await world.placed()
    await world.clock.advance(INTERVAL)
    labels = {"band": "batch", "resource": "cpu"}
    amount = "equipoise_reclaimer_amounts"
    assert world.metrics.get_sample_value(amount, labels | {"kind": "reclaimed"}) is None
    assert world.metrics.get_sample_value(amount, labels | {"kind": "requested"}) == 0


async def test_a_message_that_cannot_be_published_is_counted(world: World) -> None:
    await world.begin()
    await world.rounds(1)
    world.bus.disconnect()
    await world.clock.advance(INTERVAL)
    assert world.metrics.get_sample_value("equipoise_reclaimer_messages_dropped_total") == 1


async def test_amounts_that_a_kubelet_has_set_to_zero_are_written_again(world: World) -> None:
    """It does so when it restarts; it would reject the running pods that request them."""
    pod = a_batch_pod(cpu=1.0)
    await world.begin(mode="enforce")
    await world.rounds(10, pod)
    uid = world.kube.stored(NODES)[0].metadata.uid
    writes = world.writes + 1
    await world.kube.set_node_amounts(NODE, dict.fromkeys(NAMES, 0), uid=uid)
    await world.rounds(1, pod)
    assert world.status[BATCH_CPU] == 4_000
    assert world.writes == writes + 1
    assert not world.received[-1].degraded


async def another_program_writes(world: World, cpu: int) -> None:
    uid = world.kube.stored(NODES)[0].metadata.uid
    await world.kube.set_node_amounts(NODE, {BATCH_CPU: cpu}, uid=uid)
    await world.rounds(1)


async def test_a_node_that_another_program_writes_is_not_written_until_nobody_else_did_for_an_hour(
    world: World,
) -> None:
    contested = "equipoise_reclaimer_contested_nodes"
    await world.begin(mode="enforce")
    await world.rounds(10)
    for _ in range(3):
        assert world.metrics.get_sample_value(contested) == 0
        await another_program_writes(world, 7_000)
    writes = world.writes
    await another_program_writes(world, 7_100)
    await world.rounds(50)
    assert world.status[BATCH_CPU] == 7_100
    assert world.writes == writes + 1  # that of the other program
    latest = world.received[-1]
    assert "another program" in latest.degraded
    assert not latest.written
    assert latest.bands["batch"].offered.cpu == pytest.approx(7.1)
    assert latest.bands["batch"].reclaimed.cpu == pytest.approx(4.0)
    assert world.metrics.get_sample_value(contested) == 1
    await world.rounds(12)
    assert world.status[BATCH_CPU] == 4_000
    assert world.received[-1].degraded == ""
    assert world.metrics.get_sample_value(contested) == 0


async def test_a_node_that_shrinks_offers_less_at_once(world: World) -> None:
    """From 10 to 4 cores, of which 2.6 may be used, 2 are, and 0.2 are the margin."""
    await world.begin(mode="enforce")
    await world.rounds(10)
    smaller = Resources(cpu=4.0, memory=64 * GIB)
    for _ in range(2):
        await world.placed(capacity=smaller, allocatable=smaller)
        await world.measured()
        await world.clock.advance(INTERVAL)
    assert world.status[BATCH_CPU] == pytest.approx(400, abs=1)


async def test_a_capacity_with_other_amounts_is_corrected(world: World) -> None:
    """A kubelet copies it to the allocatable amounts."""
    await world.begin(mode="enforce")
    await world.rounds(15)
    writes = world.writes
    await world.rounds(1)
    assert world.writes == writes
    amounts = {"batch": Resources(cpu=4.0, memory=world.status[BATCH_MEMORY])}
    await world.placed(colocation=NodeColocation(amounts=amounts, capacity_amounts={}))
    await world.measured()
    await world.clock.advance(INTERVAL)
    assert world.writes == writes + 1


async def test_a_failed_write_is_repeated_and_reported(world: World) -> None:
    await world.begin(mode="enforce")
    world.kube.fail_next("update_status")
    await world.rounds(1)
    assert not world.status
    assert NODE in str(world.health.problems)
    await world.rounds(2)
    assert world.status[BATCH_CPU] > 0
    assert not world.health.problems


@pytest.mark.parametrize("status", [403, 500])
async def test_a_node_that_cannot_be_written_is_reported_while_others_are(world: World, status: int) -> None:
    """Until it was written. A webhook that is down causes 500 for its nodes only."""
    others = [f"node-b{number}" for number in range(30)]
    first = world.kube.stored(NODES)[0]
    for name in others:
        world.kube.put(NODES, Node(metadata=ObjectMeta(name=name, uid=f"uid-{name}"), status=first.status))
        world.kube.fail_next("update_status", status=status, name=name, times=None)
    await world.begin(mode="enforce")
    for sequence in range(1, 4):
        now = world.clock.now()
        usage = Resources(cpu=2.0, memory=8 * GIB)
        for name in others:
            message = a_node_utilization(name, 2.0, system=usage, sampled_at=now, queried_at=now, sequence=sequence)
            await world.bus.publish(node_placement(name), a_placement(name, [], sequence=sequence))
            await world.bus.publish(node_utilization(name), message)
        await world.rounds(1)
    assert world.status[BATCH_CPU] == 3_000
    assert "and 29 others cannot be written" in str(world.health.problems)
    world.kube.clear_faults()
    await world.rounds(2)
    assert not world.health.problems


async def test_another_reclaimer_continues_with_the_usage_of_the_last_day(world: World) -> None:
    """A surge before its start still counts."""
    await world.begin()
    await world.rounds(1, cpu=6.0)
    await world.rounds(9, cpu=2.0)
    before = world.received[-1].bands["batch"].reclaimed.cpu
    await world.end()
    await world.begin()
    await world.rounds(2, cpu=2.0)
    assert world.received[-1].bands["batch"].reclaimed.cpu == before == pytest.approx(0.5)


async def test_a_strategy_that_is_disabled_removes_the_names_when_no_pod_requests_them(world: World) -> None:
    pod = a_batch_pod(cpu=1.0)
    await world.begin(mode="enforce")
    await world.rounds(10, pod)
    await world.end()
    await world.begin(mode="enforce", strategy=ReclaimStrategy(enabled=False))
    await world.rounds(2, pod)
    assert world.status[BATCH_CPU] == 1_000
    await world.rounds(3)
    assert not world.status


async def test_a_removed_node_is_not_published_any_more(world: World) -> None:
    await world.begin()
    await world.rounds(2)
    await world.placed(removed=True)
    count = len(world.received)
    await world.clock.advance(3 * INTERVAL)
    assert len(world.received) == count


async def test_a_measurement_of_the_far_future_is_dropped(world: World) -> None:
    await world.begin()
    later = world.clock.now() + 10_000
    await world.placed()
    await world.measured(9.0, sampled_at=later, queried_at=later)
    await world.rounds(8)
    assert world.received[-1].bands["batch"].reclaimed.cpu == pytest.approx(4.0)


async def test_after_a_clock_was_ahead_messages_are_still_newer_and_amounts_are_written(world: World) -> None:
    """Subscribers drop those of a lower epoch: they would keep the amounts of that time, perhaps for years."""
    world.clock.step(31_536_000)
    await world.begin(mode="enforce")
    await world.rounds(3)
    earlier = world.received[-1]
    await world.end()
    world.clock.step(-31_536_000)
    await world.begin(mode="enforce")
    await world.rounds(3)
    assert supersedes(world.received[-1], earlier)
    assert world.received[-1].evaluated_at <= world.clock.now()


async def test_a_write_of_the_time_in_which_this_clock_was_ahead_delays_no_other(world: World) -> None:
    """A small change is written at the next refresh, and not a year later."""
    await world.begin(mode="enforce")
    world.clock.step(31_536_000)
    await world.rounds(6)
    world.clock.step(-31_536_000)
    before = world.writes
    await world.rounds(3, cpu=2.05)
    assert world.writes > before
