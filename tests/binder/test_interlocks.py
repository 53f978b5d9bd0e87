"""What stops a binder although every limit has room: replacements that fail, preemptions, outages, a late pause."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger, an_entry
from binder.worlds import GENEROUS, OWN, World
from builders import NOW, a_placed_pod, a_placement, a_workload
from kube_objects import a_deployment, a_pod, owned_by

from equipoise.binder.decisions.limits import EvictionsPerCluster, FailingReplacements
from equipoise.binder.decisions.preemptions import with_preempted
from equipoise.binder.shell.ledger_store import pause, resume
from equipoise.binder.state.cluster_state import ClusterState, PreemptedPod
from equipoise.binder.state.outages import Outages
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.placement import GonePod
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, DEPLOYMENTS, PODS, Resource, scale_of

FAILING = [objects.Condition(type="ReplicaFailure", status="True", reason="FailedCreate")]


async def test_at_most_one_more_eviction_after_a_replacement_fails(world: World) -> None:
    """When admission refuses the replacement of the first pod, no workload loses a second one."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10, conditions=FAILING))
    await world.propose("db-1", "db-2")
    assert len(world.evicted) == 1
    assert [(outcome.outcome, outcome.limit) for outcome in world.outcomes[1:]] == [
        (Outcome.REJECTED_LIMIT, "failingReplacements")
    ] * 2
    assert "FailedCreate" in world.outcomes[-1].detail
    assert world.ledger.entries[0].failing_since is not None


async def test_a_failing_replacement_stops_longer_than_a_migration_lasts(world: World) -> None:
    """Nobody gives it up after ten minutes: it ends when the replica is there."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10, conditions=FAILING))
    await world.propose("db-1", id="first")
    await world.clock.advance(3_600)
    await world.say_fleet(2)
    await world.propose("db-1", id="second")
    world.kube.put(DEPLOYMENTS, a_deployment())
    await world.propose("db-1", id="third")
    assert [outcome.outcome for outcome in world.outcomes[1:]] == [
        Outcome.REJECTED_LIMIT,
        Outcome.REJECTED_LIMIT,
        Outcome.EVICTED,
    ]


async def test_a_pod_that_nobody_makes_again_is_failing(world: World) -> None:
    """A controller without a word for it: its pod is gone, and it has fewer than it should have, for a while."""
    await world.start(world.binder())
    await world.propose("web-1")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10))
    await world.propose("db-1")
    await world.clock.advance(11)
    await world.propose("db-2")
    assert [outcome.outcome for outcome in world.outcomes] == [
        Outcome.EVICTED,
        Outcome.EVICTED,
        Outcome.REJECTED_LIMIT,
    ]
    assert "9 of 10 pods" in world.outcomes[-1].detail


async def test_resume_says_that_a_failing_replacement_is_all_right(world: World) -> None:
    """What fails for good, by a quota say, must not stop the cluster for ever: a person decides."""
    entry = an_entry("web-1", settled_at=NOW - 4_000, failing_since=NOW - 3_900, failure="a quota")
    world.write_ledger(msgspec.json.encode(a_ledger(entry)).decode())
    world.kube.put(DEPLOYMENTS, a_deployment(conditions=FAILING))
    await world.start(world.binder())
    await world.propose("db-1", id="first")
    await resume(world.kube, OWN, world.clock)
    await world.propose("db-1", id="second", decided_at=world.clock.now() + 1)
    assert [outcome.outcome for outcome in world.outcomes] == [Outcome.REJECTED_LIMIT, Outcome.EVICTED]


async def test_a_workload_that_cannot_create_pods_loses_none(world: World) -> None:
    """Its replacement would be refused as well."""
    world.kube.put(DEPLOYMENTS, a_deployment(conditions=FAILING))
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert "cannot create" in world.outcomes[0].detail


def _preempted(name: str, at: float) -> GonePod:
    return GonePod(
        uid=f"uid-{name}",
        namespace="shop",
        name=name,
        workload=a_workload("batch"),
        running_since=NOW - 9_000,
        gone_at=at + 1,
        preempted_at=at,
    )


async def test_a_preemption_on_the_intended_target_stops_the_workload(world: World) -> None:
    """What kube-scheduler preempted there is in the ledger as if we had evicted it."""
    await world.start(world.binder())
    await world.propose("web-1")
    target, now = world.outcomes[0].target, world.clock.now()
    placement = a_placement(target, gone=[_preempted("batch-1", now + 30)], sequence=2)
    await world.bus.publish(subjects.node_placement(target), placement)
    await world.clock.advance(60)
    (_, victim) = world.ledger.entries
    assert (victim.pod, victim.workload, victim.preempted_for) == ("batch-1", a_workload("batch"), (a_workload("web"),))
    await world.propose("web-2", "db-1")
    stopped, other = sorted(world.outcomes[1:], key=lambda outcome: outcome.pod, reverse=True)
    assert (stopped.outcome, stopped.limit) == (Outcome.REJECTED_LIMIT, "preemptions")
    assert other.outcome == Outcome.EVICTED


@pytest.mark.parametrize(
    ("fields", "counted"),
    [
        ({}, True),
        ({"node": "node-c"}, False),
        ({"at": NOW - 10}, False),
        ({"at": NOW + 599}, True),
        ({"at": NOW + 601}, False),
        ({"workload": None}, True),
    ],
)
def test_which_preemptions_are_ours(fields: dict[str, Any], counted: bool) -> None:
    """On the intended target, after the move, and at most ten minutes after it; each once."""
    defaults = {
        "uid": "v",
        "namespace": "shop",
        "pod": "v",
        "workload": a_workload("batch"),
        "node": "node-b",
        "at": NOW,
    }
    ledger = a_ledger(an_entry("web-1", target="node-b"))
    victim = PreemptedPod(**(defaults | fields))
    told = with_preempted(ledger, [victim], NOW + 700, within=600, memory=3_600)
    assert len(told.entries) - 1 == counted
    assert with_preempted(told, [victim], NOW + 700, within=600, memory=3_600) == told
    assert with_preempted(ledger, [victim], NOW + 5_000, within=600, memory=3_600) == ledger


@pytest.mark.parametrize(("placed", "desired", "stays"), [(NOW - 10, 12, True), (NOW - 400, 12, False)])
async def test_a_workload_that_was_scaled_lately_stays(world: World, placed: float, desired: int, stays: bool) -> None:
    """The bus tells how many pods it had five minutes ago: two more now are an autoscaler's work."""
    pods = [a_placed_pod(f"web-{number}") for number in range(1, 11)]
    pods += [a_placed_pod(f"web-{number}", placed_at=placed, running_since=placed) for number in (11, 12)]
    await world.bus.publish(subjects.node_placement("node-c"), a_placement("node-c", pods, sequence=2))
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=desired))
    assert await world.outcome_of("web-1") == ("rejected_policy" if stays else "evicted")


@pytest.mark.parametrize("since", range(5, 400, 5))
def test_a_replaced_pod_is_no_scaling(since: int) -> None:
    """So long after an eviction: the old pod took 30 s to end, its replacement was there after one."""
    picture, evicted_at = ClusterState(), NOW - since
    pods = [a_placed_pod(f"web-{number}") for number in range(1, 10)]
    pods.append(a_placed_pod("new", placed_at=evicted_at + 1, running_since=evicted_at + 2))
    gone = GonePod(
        uid="old",
        namespace="shop",
        name="old",
        workload=a_workload(),
        running_since=NOW - 90_000,
        gone_at=evicted_at + 30,
    )
    picture.update_placement(a_placement("node-b", pods, gone=[gone]))
    least, most = picture.pods_before(a_workload(), NOW - 300)
    assert least <= picture.pods_of(a_workload()) <= most


HALVING = msgspec.structs.replace(
    GENEROUS,
    startup_grace_period=Duration(3_600),
    evictions_per_cluster=EvictionsPerCluster(max=2, window=Duration(600)),
)


def _in_use(world: World) -> None:
    """A ledger whose first hour is over."""
    ledger = a_ledger(created_at=NOW - 9_000, started_at=NOW - 9_000)
    world.write_ledger(msgspec.json.encode(ledger).decode())


@pytest.mark.parametrize("outage", ["the API server", "the ledger", "the bus", "nothing"])
async def test_limits_are_halved_after_an_outage(world: World, outage: str) -> None:
    """For the binder that had it and, through the ledger, for every other one."""
    _in_use(world)
    await world.start(world.binder(limits=HALVING))
    for sequence in range(2, 9):
        away = sequence < 7
        if outage == "the API server":
            world.kube.refuse(status=0) if away else world.kube.heal()
        if outage == "the ledger":
            world.kube.refuse("get", resource="configmaps") if away else world.kube.heal()
        await world.clock.advance(15)
        if outage != "the bus" or not away:
            await world.say_fleet(sequence)
    await world.propose("web-1")
    await world.propose("db-1")
    expected = [Outcome.EVICTED, Outcome.EVICTED if outage == "nothing" else Outcome.REJECTED_LIMIT]
    assert [outcome.outcome for outcome in world.outcomes] == expected
    if outage == "nothing":
        assert world.ledger.outage_ended_at is None
    else:
        assert world.ledger.outage_ended_at is not None
        assert "was unavailable" in world.ledger.outage


def test_a_short_absence_is_no_outage() -> None:
    """Up to the limit, on each side by itself."""
    outages = Outages(60, started_at=0)
    outages.request_failed(10)
    outages.request_failed(60)
    outages.ledger_read(70)
    outages.message_received(60)
    outages.message_received(119)
    assert outages.pending == ""
    outages.request_failed(100)
    outages.ledger_read(161)
    assert "61 s" in outages.pending
    outages.written(outages.pending)
    assert outages.pending == ""


class _Asleep:
    """A kube whose writes answer late."""

    def __init__(self, world: World, seconds: float) -> None:
        self._world = world
        self._seconds = seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self._world.kube, name)

    async def replace(self, resource: Resource[Any], value: Any) -> Any:
        answer = await self._world.kube.replace(resource, value)
        await self._world.clock.sleep(self._seconds)
        return answer


@pytest.mark.parametrize("meanwhile", ["pause", "new leader", "nothing"])
async def test_no_post_stands_on_an_old_decision(world: World, meanwhile: str) -> None:
    """A binder that was stopped after it had reserved looks once more; what it did not post does not count."""
    kube: Any = _Asleep(world, 20.0)
    await world.start(world.binder(kube=kube))
    await world.propose("web-1")
    await world.clock.advance(5)
    if meanwhile == "pause":
        await pause(world.kube, OWN, "maintenance")
    if meanwhile == "new leader":
        newer = msgspec.structs.replace(world.ledger.epoch, transitions=2) if world.ledger.epoch else None
        changed = msgspec.structs.replace(world.ledger, epoch=newer)
        world.write_ledger(msgspec.json.encode(changed).decode())
    await world.clock.advance(60)
    expected = {"pause": Outcome.PAUSED, "new leader": Outcome.REJECTED_STALE, "nothing": Outcome.EVICTED}[meanwhile]
    assert [outcome.outcome for outcome in world.outcomes] == [expected]
    assert len(world.evicted) == (meanwhile == "nothing")
    assert world.ledger.entries[0].counted == (meanwhile == "nothing")


ETCD = Resource(group="coreos.com", version="v1", plural="etcds", kind="Etcd", model=objects.CustomWorkload)


def _custom(world: World, *, ready: int | None = 10, scale: bool = True, **metadata: Any) -> None:
    """web-1 belongs to an Etcd of ten, a kind that nobody told us of."""
    world.kube.put(PODS, a_pod("web-1", metadata={"owner_references": owned_by("Etcd", "main", "coreos.com")}))
    meta = objects.ObjectMeta(name="main", namespace="shop", uid="uid-main", **metadata)
    world.kube.put(ETCD, objects.CustomWorkload(metadata=meta, status=objects.CustomStatus(ready_replicas=ready)))
    world.kube.put(
        scale_of(ETCD),
        objects.Scale(
            metadata=objects.ObjectMeta(name="main", namespace="shop"),
            spec=objects.ScaleSpec(replicas=10),
            status=objects.ScaleStatus(replicas=10),
        ),
    )
    if scale:
        world.kube.scalable["coreos.com", "Etcd"] = ETCD


async def test_a_kind_that_tells_its_scale_may_move(world: World) -> None:
    """Its replicas are those of the scale subresource, and its limits follow from them; the Event is on it too."""
    _custom(world)
    assert await world.outcome_of("web-1") == "evicted"
    workload = world.ledger.entries[0].workload
    assert workload is not None
    assert (workload.kind, workload.group, workload.name) == ("Etcd", "coreos.com", "main")
    assert [(event.regarding.kind, event.regarding.api_version) for event in world.kube.events] == [
        ("Pod", "v1"),
        ("Etcd", "coreos.com/v1"),
    ]


async def test_limits_of_a_custom_kind_follow_its_scale(world: World) -> None:
    """Two of ten may be missing, the third may not."""
    _custom(world, ready=8)
    assert await world.outcome_of("web-1") == "rejected_limit"
    assert world.outcomes[0].limit == "unavailablePerWorkload"


CUSTOM: dict[str, tuple[dict[str, Any], str]] = {
    "no scale subresource": ({"scale": False}, "no scale subresource"),
    "readiness not told": ({"ready": None}, "status.readyReplicas"),
    "opted out": ({"annotations": {"equipoise.dev/evict": "false"}}, "equipoise.dev/evict"),
    "being deleted": ({"deletion_timestamp": datetime.fromtimestamp(NOW, UTC)}, "being deleted"),
}


@pytest.mark.parametrize("name", CUSTOM)
async def test_other_custom_kinds_stay(world: World, name: str) -> None:
    """What a kind does not tell protects its pods, and so does everything that protects others."""
    fields, expected = CUSTOM[name]
    _custom(world, **fields)
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert expected in world.outcomes[0].detail


async def test_a_custom_kind_needs_a_right(world: World) -> None:
    """Without `get` on it and on its scale its pods stay, and the outcome says what to grant."""
    _custom(world)
    world.kube.refuse("get", resource="etcds")
    assert await world.outcome_of("web-1") == "rejected_policy"
    assert "grant `get`" in world.outcomes[0].detail


async def test_only_the_controller_of_several_owners_counts(world: World) -> None:
    """Another owner has no say; its kind need not be known."""
    owners = [objects.OwnerReference(kind="Config", name="c", uid="c"), *owned_by("ReplicaSet", "web-rs")]
    world.kube.put(PODS, a_pod("web-1", metadata={"owner_references": owners}))
    assert await world.outcome_of("web-1") == "evicted"


async def test_a_limit_of_nought_for_failing_replacements_stops_everything(world: World) -> None:
    """As every limit of 0."""
    limits = msgspec.structs.replace(GENEROUS, failing_replacements=FailingReplacements(max=0))
    assert await world.outcome_of("web-1", limits=limits) == "rejected_limit"


async def test_the_ledger_is_readable(world: World) -> None:
    """A person sees in the ConfigMap what happened to which pod, in lines of text."""
    await world.outcome_of("web-1")
    (config_map,) = world.kube.stored(CONFIG_MAPS)
    assert "evicted  shop/web-1  node-a -> node-b" in config_map.data["summary"]
    assert "carried out since 2027-01-15 08:00:00 UTC: 1 evictions, 0 dry runs" in config_map.data["summary"]
    assert len([line for line in config_map.data["ledger"].splitlines() if '"shop"' in line]) == 1
