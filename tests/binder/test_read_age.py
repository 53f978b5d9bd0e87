"""No eviction is requested on a read that is older than two seconds, whatever the binder waited for since."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.stepping import SteppingBus, SteppingKube, Steps
from binder.worlds import GENEROUS, OWN, SlowWrites, World
from kube_objects import a_deployment, a_pod

from equipoise.binder.decisions.limits import EvictionRate, Limits, Maintenance
from equipoise.binder.decisions.limits.maintenance import WeeklyTimes
from equipoise.binder.decisions.result import Finish
from equipoise.binder.shell.ledger_writer import MAX_READ_AGE, LedgerWriter
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome
from equipoise.runtime.bus import Delivery, Redeliver
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, DEPLOYMENTS, LEASES, NAMESPACES, PODS
from equipoise.testbed.memory.faults import Call

OPT_OUT = {"annotations": {"equipoise.dev/evict": "false"}}

STEPS = 80
"""More points than the longest path has."""


def _namespace_opts_out(world: World) -> None:
    world.kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name="shop", **OPT_OUT)))


def _pause(world: World) -> None:
    _change_ledger(world, paused=True, pause_reason="maintenance")


def _change_ledger(world: World, **fields: Any) -> None:
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    world.write_ledger(msgspec.json.encode(msgspec.structs.replace(world.ledger, **fields)).decode())
    assert config_map != world.kube.stored(CONFIG_MAPS)[0]


CHANGES: dict[str, Callable[[World], object]] = {
    "pod opted out": lambda world: world.kube.put(PODS, a_pod("web-1", metadata=OPT_OUT)),
    "namespace opted out": _namespace_opts_out,
    "8 of 10 replicas failed": lambda world: world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=2)),
    "scaled to 1": lambda world: world.kube.put(DEPLOYMENTS, a_deployment(replicas=1)),
    "another descheduler": World.elect_another_leader,
    "Lease deleted": lambda world: world.kube.remove(LEASES, "equipoise-descheduler", OWN),
}
"""What must prevent the eviction of web-1."""

MORE_CHANGES = CHANGES | {
    "paused": _pause,
    "budget": lambda world: world.block("none"),
    "workload opted out": lambda world: world.kube.put(
        DEPLOYMENTS,
        msgspec.structs.replace(a_deployment(), metadata=msgspec.structs.replace(a_deployment().metadata, **OPT_OUT)),
    ),
    "ledger removed": lambda world: world.kube.remove(CONFIG_MAPS, "equipoise-ledger", OWN),
    "nothing": lambda world: None,
}


class _SlowRequests:
    """Every request takes some time; the cluster changes when one of them is sent."""

    def __init__(self, world: World, seconds: float, change_at: int, change: Callable[[World], object]) -> None:
        self._world = world
        self._seconds = seconds
        self._change_at = change_at
        self._change = change
        self.requests = 0
        self.changed_at = 0.0
        self.posts: list[float] = []
        """When evictions were sent."""

    async def __call__(self, call: Call) -> None:
        self.requests += 1
        if call.verb == "evict":
            self.posts.append(self._world.clock.now())
        if self.requests == self._change_at:
            self._change(self._world)
            self.changed_at = self._world.clock.now()
        await self._world.clock.sleep(self._seconds)


def _assert_not_posted(world: World) -> None:
    """One outcome for web-1, no POST, and nothing counts."""
    assert [eviction for eviction in world.kube.evictions if eviction.name == "web-1"] == []
    (outcome,) = (outcome for outcome in world.outcomes if outcome.pod == "web-1")
    assert outcome.outcome not in (Outcome.EVICTED, Outcome.DRY_RUN)
    assert outcome.detail
    assert not any(entry.counted for entry in world.ledger.entries if entry.pod == "web-1")


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_during_a_slow_write_of_the_ledger_prevents_the_eviction(world: World, change: str) -> None:
    """The reservation takes 15 s; the change happens after 5 s, when everything has been read."""
    kube: Any = SlowWrites(world, 15.0)
    await world.start(world.binder(kube=kube))
    await world.propose("web-1")
    await world.clock.advance(5)
    CHANGES[change](world)
    await world.clock.advance(60)
    _assert_not_posted(world)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_while_waiting_for_the_rate_prevents_the_eviction(world: World, change: str) -> None:
    """The eviction of another workload's pod comes first; web-1 waits for six seconds."""
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(6)))
    await world.start(world.binder(limits=limits))
    await world.propose("db-1", "web-1")
    await world.clock.advance(2)
    CHANGES[change](world)
    await world.clock.advance(10)
    assert [eviction.name for eviction in world.evicted] == ["db-1"]
    _assert_not_posted(world)


async def test_an_intent_that_waited_for_the_rate_is_evicted(world: World) -> None:
    """Its own reservation does not count against it, and it does not wait a second time."""
    limits = msgspec.structs.replace(GENEROUS, rate=EvictionRate(max=1, window=Duration(6)))
    await world.start(world.binder(limits=limits))
    await world.propose("db-1", "web-1")
    await world.clock.advance(7)
    assert [eviction.name for eviction in world.evicted] == ["db-1", "web-1"]


async def test_a_maintenance_time_that_ends_during_a_slow_write_prevents_the_eviction(world: World) -> None:
    """Limits may change by time alone: evictions are allowed until 22:14, and it is 22:13:51 when one is reserved."""
    only = (WeeklyTimes(begin="22:00", end="22:14"),)
    kube: Any = SlowWrites(world, 15.0)
    limits = msgspec.structs.replace(GENEROUS, maintenance=Maintenance(only=only))
    await world.start(world.binder(kube=kube, limits=limits))
    await world.clock.advance(30)
    await world.publish_cluster(2)
    await world.propose("web-1")
    await world.clock.advance(60)
    _assert_not_posted(world)
    assert "limits.maintenance" in world.outcomes[0].detail


async def test_no_eviction_is_requested_on_a_read_of_another_decision_that_is_older_than_two_seconds(
    world: World,
) -> None:
    """The workload of a pending eviction was read for an intent before, and the reservation takes a second and a
    half."""
    read_at, posted_after = [0.0], list[float]()

    async def watch(call: Call) -> None:
        if (call.verb, call.resource, call.name) == ("get", "deployments", "db"):
            read_at[0] = world.clock.monotonic()
        elif call.verb == "evict" and call.name == "web-2":
            posted_after.append(world.clock.monotonic() - read_at[0])

    kube: Any = SlowWrites(world, 0.0)
    await world.start(world.binder(kube=kube))
    await world.propose("db-1", "web-1")
    world.kube.on_call = watch
    read_at[0] = world.clock.monotonic()
    await world.clock.advance(0.9)
    kube.seconds = 1.5
    await world.propose("web-2")
    await world.clock.advance(10)
    assert [seconds <= MAX_READ_AGE for seconds in posted_after] == [True]


async def _stopped(world: World, stop_at: int) -> Steps:
    """A binder that stops before or after this request of its first intent, if it gets there."""
    steps = Steps(stop_at)
    kube: Any = SteppingKube(world.kube, steps)
    bus: Any = SteppingBus(world.bus, steps)
    await world.start(world.binder(kube=kube, bus=bus, limits=Limits(startup_grace_period=Duration(0))))
    steps.armed = True
    await world.propose("web-1")
    return steps


@pytest.mark.parametrize("hold", [0.0, MAX_READ_AGE + 0.5])
@pytest.mark.parametrize("change", MORE_CHANGES)
async def test_a_change_at_any_point_prevents_the_eviction_or_is_newer_than_two_seconds(
    change: str, hold: float
) -> None:
    """The binder is stopped at each of its requests in turn, the cluster changes, and it continues after `hold`."""
    points = accepted = 0
    for stop_at in range(1, STEPS):
        world = World()
        await world.populate()
        steps = await _stopped(world, stop_at)
        if not steps.stopped_at:
            await world.stop()
            break
        points += 1
        evicted_before = bool(world.evicted)
        MORE_CHANGES[change](world)
        changed_at = world.clock.now()
        await world.clock.advance(hold)
        steps.go.set()
        await world.clock.advance(5)
        if not world.outcomes:
            await world.clock.advance(40)
            await world.publish_cluster(2)
            await world.clock.advance(150)
        if world.evicted and not evicted_before:
            accepted += 1
            (eviction,) = world.evicted
            # Stopped within the request itself, it was sent when the cluster changed.
            posted_at = changed_at if steps.stopped_at == "before evict" else eviction.at
            recent = changed_at > posted_at - MAX_READ_AGE
            assert recent or change == "nothing", steps.stopped_at
        elif not evicted_before:
            assert change != "nothing", steps.stopped_at
            assert change == "ledger removed" or not any(entry.counted for entry in world.ledger.entries)
        assert len(world.outcomes) == 1, steps.stopped_at
        assert world.bus.errors.total("worker") == 0, steps.stopped_at
        await world.stop()
    else:
        pytest.fail("the path has more points than the test tries")
    assert points >= 20
    assert accepted >= 1 or change == "budget", "the change was never too late"


@pytest.mark.parametrize("seconds", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("change", CHANGES)
async def test_a_change_during_slow_requests_prevents_the_eviction(change: str, seconds: float) -> None:
    """Every request takes this long; the change happens before each of them in turn."""
    evictions = 0
    for change_at in range(1, STEPS):
        world = World()
        await world.populate()
        await world.start(world.binder())
        slow = _SlowRequests(world, seconds, change_at, CHANGES[change])
        world.kube.on_call = slow
        await world.propose("web-1")
        await world.clock.advance(30)
        await world.stop()
        if slow.requests < change_at:
            break
        assert all(slow.changed_at > posted_at - MAX_READ_AGE for posted_at in slow.posts), change_at
        evictions += len(slow.posts)
    else:
        pytest.fail("the path has more requests than the test tries")
    assert (evictions > 0) == (seconds < 0.6), "reads that are too slow delay the eviction"


async def test_a_sample_that_becomes_too_old_during_slow_requests_prevents_the_eviction() -> None:
    """Whichever request of the path lasts until then."""
    evictions = refusals = 0
    for tenths in range(1, 60):
        world = World()
        await world.populate()
        await world.start(world.binder())
        world.kube.on_call = slow = _SlowRequests(world, 0.3, 0, CHANGES["pod opted out"])
        max_age = LoadSettings().freshness.eviction
        (intent,) = await world.propose("web-1", sampled_at=world.clock.now() + tenths / 10 - max_age)
        await world.clock.advance(30)
        await world.stop()
        assert all(posted_at <= intent.sampled_at + max_age for posted_at in slow.posts), tenths
        evictions += len(slow.posts)
        refusals += [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_STALE]
    assert evictions > 0
    assert evictions + refusals == 59


async def test_an_api_server_that_reads_too_slowly_delays_the_eviction(world: World) -> None:
    """The reservation is returned, so that it does not count while the intent waits for its next delivery."""

    async def slow(call: Call) -> None:
        await world.clock.sleep(0.7)

    await world.start(world.binder())
    world.kube.on_call = slow
    await world.propose("web-1")
    await world.clock.advance(30)
    assert world.kube.evictions == []
    assert world.outcomes == []
    assert world.ledger.entries == ()
    world.kube.on_call = None
    await world.clock.advance(20)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]


async def test_a_reservation_of_another_binder_is_not_posted_when_replicas_have_failed_since(world: World) -> None:
    """The binder that takes it over decides about the limits with its own reads."""
    (intent,) = await _reserved_by_another(world)
    world.kube.put(DEPLOYMENTS, a_deployment(ready_replicas=2))
    await world.start(world.binder())
    await world.clock.advance(1)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_LIMIT]
    assert world.kube.evictions == []
    assert world.ledger.entries[0].counted, "the other binder may have sent a POST"
    assert intent.id == world.ledger.entries[0].intent_id


async def _reserved_by_another(world: World) -> list[EvictionIntent]:
    entry = an_entry("web-1", settled_at=None, outcome=None, intent_id="web-1-1")
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    return await world.propose("web-1", id="web-1-1")


async def test_a_reservation_that_is_returned_meanwhile_is_not_taken_over(world: World) -> None:
    """The other binder's POST was refused: without its reservation the eviction would not count."""
    (intent,) = await _reserved_by_another(world)
    binder = world.binder()
    await binder.attach()

    async def released(call: Call) -> None:
        if call.verb == "replace" and not taken:
            taken.append(call)
            writer = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False)
            await writer.release(intent)

    taken: list[Call] = []
    world.kube.on_call = released
    subject = subjects.eviction_intent("shop", "web-1")
    result = await binder.on_eviction_intent(Delivery(subject=subject, message=intent))
    assert isinstance(result, Redeliver)
    assert world.kube.evictions == []
    assert await LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False).take_over(intent) is None


async def test_a_reservation_that_is_settled_meanwhile_is_not_taken_over(world: World) -> None:
    """The outcome of the other binder is published again."""
    (intent,) = await _reserved_by_another(world)
    binder = world.binder()
    await binder.attach()

    async def settled(call: Call) -> None:
        if call.verb == "replace" and not taken:
            taken.append(call)
            writer = LedgerWriter(world.kube, world.clock, GENEROUS, OWN, dry_run=False)
            await writer.settle(intent, Finish(outcome=Outcome.BLOCKED_PDB, reservation="returned"))

    taken: list[Call] = []
    world.kube.on_call = settled
    subject = subjects.eviction_intent("shop", "web-1")
    assert await binder.on_eviction_intent(Delivery(subject=subject, message=intent)) is None
    await world.bus.settled()
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.BLOCKED_PDB]
    assert world.kube.evictions == []


async def test_a_pod_that_leaves_while_its_reservation_is_taken_over_was_evicted(world: World) -> None:
    """By the POST of the binder that reserved."""
    await _reserved_by_another(world)

    async def leaves(call: Call) -> None:
        if call.verb == "get" and call.resource == "leases":
            world.kube.remove(PODS, "web-1", "shop")

    world.kube.on_call = leaves
    await world.start(world.binder())
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
    assert world.kube.evictions == []
    assert world.ledger.entries[0].counted


class _SuspendedAfterRead:
    """The process is suspended when the response to a read of the ledger has arrived, while another binder evicts."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world = world
        self._seconds = seconds
        self.reads_until_then = 0
        """0: the process is not suspended."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.kube, name)

    async def get(self, resource: Any, *args: Any) -> Any:
        response = await self._world.kube.get(resource, *args)
        if resource is CONFIG_MAPS and self.reads_until_then:
            self.reads_until_then -= 1
            if not self.reads_until_then:
                self._world.write_ledger(msgspec.json.encode(a_ledger(an_entry())).decode())
                self._world.kube.remove(PODS, "web-1", "shop")
                await self._world.clock.sleep(self._seconds)
        return response


@pytest.mark.parametrize("reads", [1, 2])
async def test_a_binder_that_was_suspended_does_not_contradict_the_one_that_evicted(world: World, reads: int) -> None:
    """A refusal is based on a recent read of the ledger, too."""
    kube: Any = _SuspendedAfterRead(world, 30.0)
    await world.start(world.binder(kube=kube))
    kube.reads_until_then = reads
    (intent,) = await world.propose("web-1", expires_at=world.clock.now() + 20)
    await world.clock.advance(60)
    assert kube.reads_until_then == 0
    assert intent.id == an_entry().intent_id
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.EVICTED]
