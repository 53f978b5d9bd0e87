"""What every `Kube` does, held to the same tests in memory and on a real API server."""

import asyncio
import re
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kube_worlds import NAMESPACE, MemoryWorld, RealWorld, World

from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Event, Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import (
    ExplainedCondition,
    Object,
    ObjectMeta,
    ObjectReference,
    ResourceRequirements,
)
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.pod import Container, Pod
from equipoise.contracts.kubernetes.objects.storage import PersistentVolume, PersistentVolumeClaim, PersistentVolumeSpec
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.contracts.unreadable.known_amounts import with_known_amounts
from equipoise.runtime.configuration.sections import Kubernetes
from equipoise.runtime.kubernetes.client import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    VOLUMES,
    WORKLOAD_RESOURCES,
    Change,
    Conflict,
    EvictionResult,
    Forbidden,
    KubeError,
    NotFound,
    Resource,
    UnreadableObject,
    metadata_of,
    scale_of,
)
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.reflector import Reflector
from equipoise.runtime.process.clock import SystemClock
from equipoise.scheduling.model.amounts import requested


def config_map(name: str, **data: str) -> ConfigMap:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data)


async def evict(world: World, pod: Pod, *, uid: str = "", dry_run: bool = False) -> EvictionResult:
    metadata = pod.metadata
    return await world.kube.evict(metadata.namespace, metadata.name, uid=uid or metadata.uid, dry_run=dry_run)


async def leaves(world: World, pod: Pod) -> bool:
    """The pod ends, or is gone, within some seconds."""
    async with asyncio.timeout(60):
        while True:
            try:
                now = await world.kube.get(PODS, pod.metadata.name, pod.metadata.namespace)
            except NotFound:
                return True
            if now.metadata.deletion_timestamp is not None:
                return True
            await asyncio.sleep(0.05)


async def test_the_server_has_a_version(world: World) -> None:
    """Even without rights."""
    assert re.match(r"v1\.\d+\.\d+", await world.kube.server_version())


async def test_what_is_not_there_is_not_found(world: World) -> None:
    """The error names verb, resource and object, so that a log line is enough to act on."""
    with pytest.raises(NotFound) as error:
        await world.kube.get(CONFIG_MAPS, "nobody", NAMESPACE)

    assert 404 == error.value.status
    assert "NotFound" == error.value.reason
    assert "nobody" in str(error.value)


async def test_a_dry_run_creates_nothing(world: World) -> None:
    """It is checked as the creation would be: a name that exists conflicts."""
    await world.kube.create(CONFIG_MAPS, config_map("tried", a="1"), dry_run=True)
    await world.kube.create(CONFIG_MAPS, config_map("tried", a="2"))
    with pytest.raises(Conflict):
        await world.kube.create(CONFIG_MAPS, config_map("tried", a="3"), dry_run=True)


async def test_created_once(world: World) -> None:
    """A second creation is a conflict; the first has a uid, a version and a time."""
    created = await world.kube.create(CONFIG_MAPS, config_map("once", a="1"))

    assert {"a": "1"} == created.data
    assert all((created.metadata.uid, created.metadata.resource_version, created.metadata.creation_timestamp))
    with pytest.raises(Conflict):
        await world.kube.create(CONFIG_MAPS, config_map("once", a="2"))


async def test_replaced_only_by_who_saw_the_last_version(world: World) -> None:
    """Compare-and-swap: of two who read the same version one loses."""
    read = await world.kube.create(CONFIG_MAPS, config_map("ledger", a="1"))

    written = await world.kube.replace(CONFIG_MAPS, msgspec.structs.replace(read, data={"a": "2"}))

    with pytest.raises(Conflict):
        await world.kube.replace(CONFIG_MAPS, msgspec.structs.replace(read, data={"a": "3"}))
    assert written == await world.kube.get(CONFIG_MAPS, "ledger", NAMESPACE)
    assert {"a": "2"} == written.data


async def test_never_replaced_blindly(world: World) -> None:
    """Without a version a write would win over everybody: it is refused."""
    await world.kube.create(CONFIG_MAPS, config_map("seen", a="1"))

    with pytest.raises(KubeError):
        await world.kube.replace(CONFIG_MAPS, config_map("seen", a="2"))

    assert {"a": "1"} == (await world.kube.get(CONFIG_MAPS, "seen", NAMESPACE)).data


async def test_listed_by_namespace_and_labels(world: World) -> None:
    """A label selector chooses, and another namespace has nothing."""
    for name, tier in (("x", "front"), ("y", "back")):
        metadata = ObjectMeta(name=f"listed-{name}", namespace=NAMESPACE, labels={"tier": tier, "of": "list"})
        await world.kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata))

    async def names(namespace: str, selector: str) -> list[str]:
        return [value.metadata.name for value in await world.kube.list(CONFIG_MAPS, namespace, selector)]

    assert ["listed-x", "listed-y"] == await names(NAMESPACE, "of=list")
    assert ["listed-y"] == await names("", "of=list,tier!=front")
    assert [] == await names("default", "of=list")


async def test_read_page_by_page(world: World) -> None:
    """Every object once, whatever its namespace; of one whose metadata alone is wanted, that."""
    for name in ("x", "y"):
        metadata = ObjectMeta(name=f"paged-{name}", namespace=NAMESPACE, annotations={"of": name})
        await world.kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata))

    found = [value async for page in world.kube.pages(metadata_of(CONFIG_MAPS)) for value in page]

    reported = {value.metadata.name: value.metadata.annotations.get("of") for value in found}
    assert {"paged-x": "x", "paged-y": "y"}.items() <= reported.items()
    assert len(found) == len({(value.metadata.namespace, value.metadata.name) for value in found})


async def test_times_of_any_fraction_are_taken(world: World) -> None:
    """A MicroTime that falls on a whole second is written with its six digits."""
    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    lease = Lease(
        metadata=ObjectMeta(name="whole-seconds", namespace=NAMESPACE),
        spec=LeaseSpec(holder_identity="a", lease_duration_seconds=15, acquire_time=moment, renew_time=moment),
    )

    created = await world.kube.create(LEASES, lease)
    later = msgspec.structs.replace(created.spec, renew_time=moment.replace(microsecond=120))
    written = await world.kube.replace(LEASES, msgspec.structs.replace(created, spec=later))

    assert moment == created.spec.renew_time == written.spec.acquire_time
    assert moment.replace(microsecond=120) == written.spec.renew_time


async def test_an_event_is_written(world: World) -> None:
    """As the events API wants it."""
    event = Event(
        metadata=ObjectMeta(name="web-1.evicted", namespace=NAMESPACE),
        event_time=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        reason="Evicted",
        action="Evict",
        note="node is overutilized",
        regarding=ObjectReference(api_version="v1", kind="Pod", namespace=NAMESPACE, name="web-1"),
        reporting_controller="equipoise.dev/binder",
        reporting_instance="binder-1",
    )

    await world.kube.create(EVENTS, event)

    assert "node is overutilized" == (await world.kube.get(EVENTS, "web-1.evicted", NAMESPACE)).note


async def test_annotations_of_others_stay(world: World) -> None:
    """Exactly the given keys change; None removes one."""
    metadata = ObjectMeta(name="noted", namespace=NAMESPACE, annotations={"theirs": "1", "ours": "1"})
    await world.kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata, data={"a": "1"}))

    await world.kube.annotate(CONFIG_MAPS, "noted", {"ours": None, "new": "x"}, namespace=NAMESPACE)

    noted = await world.kube.get(CONFIG_MAPS, "noted", NAMESPACE)
    assert {"theirs": "1", "new": "x"} == noted.metadata.annotations
    assert {"a": "1"} == noted.data


async def test_annotates_only_the_object_it_means(world: World) -> None:
    """With a uid, another object of the same name is left alone."""
    made = await world.kube.create(CONFIG_MAPS, config_map("meant"))

    await world.kube.annotate(CONFIG_MAPS, "meant", {"a": "1"}, namespace=NAMESPACE, uid=made.metadata.uid)
    with pytest.raises(Conflict):
        await world.kube.annotate(CONFIG_MAPS, "meant", {"a": "2"}, namespace=NAMESPACE, uid="another")
    with pytest.raises(NotFound):
        await world.kube.annotate(CONFIG_MAPS, "nobody", {"a": "2"}, namespace=NAMESPACE)

    assert {"a": "1"} == (await world.kube.get(CONFIG_MAPS, "meant", NAMESPACE)).metadata.annotations


async def test_annotates_only_what_it_has_read(world: World) -> None:
    """With a version, an object that somebody wrote to since is left alone."""
    made = await world.kube.create(CONFIG_MAPS, config_map("read"))
    version = made.metadata.resource_version

    await world.kube.annotate(CONFIG_MAPS, "read", {"a": "1"}, namespace=NAMESPACE, version=version)
    with pytest.raises(Conflict):
        await world.kube.annotate(CONFIG_MAPS, "read", {"a": "2"}, namespace=NAMESPACE, version=version)

    assert {"a": "1"} == (await world.kube.get(CONFIG_MAPS, "read", NAMESPACE)).metadata.annotations


async def test_relabels_only_what_it_has_read(world: World) -> None:
    """Other labels and annotations stay. Neither another object of the name nor a changed one is patched."""
    metadata = ObjectMeta(name="relabeled", namespace=NAMESPACE, labels={"theirs": "1", "ours": "1"})
    made = (await world.kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata))).metadata
    target: dict[str, Any] = {"namespace": NAMESPACE, "uid": made.uid, "version": made.resource_version, "within": 60.0}

    for wrong in ({"uid": "another"}, {"version": "1"}):
        with pytest.raises(Conflict):
            await world.kube.relabel(CONFIG_MAPS, "relabeled", {"ours": None}, {}, **(target | wrong))
    await world.kube.relabel(CONFIG_MAPS, "relabeled", {"ours": None}, {"was": "1"}, **target)
    with pytest.raises(Conflict):
        await world.kube.relabel(CONFIG_MAPS, "relabeled", {"ours": "2"}, {}, **target)

    after = (await world.kube.get(CONFIG_MAPS, "relabeled", NAMESPACE)).metadata
    assert (after.labels, after.annotations) == ({"theirs": "1"}, {"was": "1"})


async def test_annotates_only_while_an_annotation_has_the_expected_value(world: World) -> None:
    """Also after other writes. A missing annotation has no value; another object is not changed."""
    key, target = "equipoise.dev/a", {"resource": CONFIG_MAPS, "name": "published", "namespace": NAMESPACE}
    metadata = ObjectMeta(name="published", namespace=NAMESPACE, annotations={key: "1", "gone": "soon"})
    made = await world.kube.create(CONFIG_MAPS, ConfigMap(metadata=metadata))
    await world.kube.annotate(annotations={"theirs": "1"}, **target)

    changes = {key: "2", "new": "x", "gone": None}
    await world.kube.annotate(annotations=changes, expected={key: "1"}, uid=made.metadata.uid, **target)
    for uid, standing in (("", {key: "1"}), ("", {key: "2", "absent": ""}), ("another", {key: "2"})):
        with pytest.raises(Conflict):
            await world.kube.annotate(annotations={key: "3"}, expected=standing, uid=uid, **target)
    with pytest.raises(NotFound):
        await world.kube.annotate(CONFIG_MAPS, "nobody", {key: "3"}, expected={key: "2"}, namespace=NAMESPACE)

    after = await world.kube.get(**target)
    assert {key: "2", "new": "x", "theirs": "1"} == after.metadata.annotations


@pytest.mark.parametrize("resource", [NODES, PODS, DEPLOYMENTS], ids=lambda resource: resource.kind)
async def test_annotates_real_nodes_pods_and_workloads(real: RealWorld, resource: Resource[Any]) -> None:
    """Only our keys change, and never those of another object of the same name."""
    await real.run_pod("annotated")
    before = (await real.kube.list(resource))[0]
    target = {"name": before.metadata.name, "namespace": before.metadata.namespace}

    await real.kube.annotate(resource, annotations={"equipoise.dev/x": "1"}, uid=before.metadata.uid, **target)
    with pytest.raises(Conflict):
        await real.kube.annotate(resource, annotations={"equipoise.dev/x": "2"}, uid="another", **target)

    after = await real.kube.get(resource, **target)
    assert {**before.metadata.annotations, "equipoise.dev/x": "1"} == after.metadata.annotations


async def test_one_taint_of_a_node_is_written_while_the_node_is_as_it_was_read(world: World) -> None:
    """Other taints stay as they are. The value of a taint with the same key and effect is replaced."""
    if isinstance(world, MemoryWorld):
        world.kube.put(NODES, Node(metadata=ObjectMeta(name="tainted", uid="uid-tainted")))
    name = (await world.kube.list(NODES))[0].metadata.name
    ours, newer = (Taint(key="example.com/ours", value=value, effect="PreferNoSchedule") for value in ("1", "2"))
    theirs = Taint(key="example.com/ours", effect="NoSchedule")

    async def taints(*changes: tuple[Taint, bool]) -> list[Taint]:
        for taint, present in changes:
            await world.kube.set_taint(await world.kube.get(NODES, name), taint, present=present)
        return [each for each in (await world.kube.get(NODES, name)).spec.taints if each.key == ours.key]

    assert await taints((ours, True)) == [ours]
    before = await world.kube.get(NODES, name)
    assert await taints((theirs, True), (newer, True)) == [newer, theirs]
    now = await world.kube.get(NODES, name)
    another = msgspec.structs.replace(now, metadata=msgspec.structs.replace(now.metadata, uid="another"))
    for changed in (before, another):
        with pytest.raises(Conflict):
            await world.kube.set_taint(changed, newer, present=False)
    missing = Node(metadata=ObjectMeta(name="nobody", uid="uid", resource_version="1"))
    with pytest.raises(NotFound):
        await world.kube.set_taint(missing, ours, present=True)
    unreadable = msgspec.structs.replace(now, metadata=ObjectMeta(name=name, unreadable="spec.taints"))
    with pytest.raises(UnreadableObject):
        await world.kube.set_taint(unreadable, ours, present=True)

    assert await taints((newer, False), (newer, False)) == [theirs]
    assert await taints((theirs, False)) == []


async def test_amounts_of_a_node_change_its_capacity_and_what_is_allocatable(world: World) -> None:
    """And nothing else of its status; None removes one. Another node of the same name is not changed."""
    if isinstance(world, MemoryWorld):
        amounts = {"cpu": "8", "memory": "32Gi"}
        status = NodeStatus(capacity=amounts, allocatable=amounts)
        world.kube.put(NODES, Node(metadata=ObjectMeta(name="offering"), status=status))
    before = (await world.kube.list(NODES))[0]
    name, uid = before.metadata.name, before.metadata.uid
    cpu, memory = "kubernetes.io/batch-cpu", "kubernetes.io/batch-memory"

    await world.kube.set_node_amounts(name, {cpu: 1_500, memory: 3 * 2**30}, uid=uid)
    offering = await world.kube.get(NODES, name)
    for amounts in (offering.status.capacity, offering.status.allocatable):
        assert {cpu: 1_500, memory: 3 * 2**30} == {key: parse_quantity(amounts[key]) for key in (cpu, memory)}

    with pytest.raises(Conflict):
        await world.kube.set_node_amounts(name, {cpu: 9}, uid="another")
    with pytest.raises(NotFound):
        await world.kube.set_node_amounts("nobody", {cpu: 9}, uid=uid)

    await world.kube.set_node_amounts(name, {cpu: None, memory: None}, uid=uid)
    after = await world.kube.get(NODES, name)
    assert before.status.capacity == after.status.capacity
    assert before.status.allocatable == after.status.allocatable


async def test_a_watch_lists_the_objects_and_then_reports_changes(world: World) -> None:
    """First everything, then a synced bookmark, then each change in order; from a version only what came after."""
    ours = f"metadata.namespace={NAMESPACE},metadata.name=watched"
    await world.kube.create(CONFIG_MAPS, config_map("watched", a="1"))
    received: list[Change[ConfigMap]] = []
    listed = asyncio.Event()

    async def watch() -> None:
        async with aclosing(world.kube.watch(CONFIG_MAPS, field_selector=ours)) as changes:
            async for change in changes:
                if change.synced:
                    listed.set()
                if change.object is not None or change.synced:
                    received.append(change)
                if change.kind == "deleted":
                    return

    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(watch())
        await listed.wait()
        await world.kube.create(CONFIG_MAPS, config_map("not-watched"))
        await world.kube.annotate(CONFIG_MAPS, "watched", {"n": "1"}, namespace=NAMESPACE)
        await delete(world, CONFIG_MAPS, "watched")

    assert ["added", "bookmark", "modified", "deleted"] == [change.kind for change in received]
    assert [{}, {"n": "1"}] == [received[i].object.metadata.annotations for i in (0, 2)]  # type: ignore[union-attr]

    changes = world.kube.watch(CONFIG_MAPS, since=received[2].resource_version, namespace=NAMESPACE)
    async with asyncio.timeout(60), aclosing(changes):
        assert received[3] == await anext(changes)


async def delete(world: World, resource: Resource[ConfigMap], name: str) -> None:
    if isinstance(world, MemoryWorld):
        world.kube.remove(resource, name, NAMESPACE)
    if isinstance(world, RealWorld):
        await world.cluster.request("DELETE", resource.path(NAMESPACE, name))


async def test_a_pod_is_bound_once(world: World) -> None:
    """And never another pod of the same name."""
    pod = await world.pending_pod("bound")
    uid = pod.metadata.uid

    with pytest.raises(Conflict):
        await world.kube.bind(NAMESPACE, "bound", "node-b", uid="another")
    assert "" == (await world.kube.get(PODS, "bound", NAMESPACE)).spec.node_name
    await world.kube.bind(NAMESPACE, "bound", "node-a", uid=uid)
    with pytest.raises(Conflict, match="already assigned"):
        await world.kube.bind(NAMESPACE, "bound", "node-b", uid=uid)
    with pytest.raises(NotFound):
        await world.kube.bind(NAMESPACE, "nobody", "node-a", uid=uid)

    after = await world.kube.get(PODS, "bound", NAMESPACE)
    assert "node-a" == after.spec.node_name
    assert ["True"] == [each.status for each in after.status.conditions if each.type == "PodScheduled"]


async def test_the_status_of_a_pod_that_waits(world: World) -> None:
    """One condition and the nominated node change, each alone; other conditions remain."""
    pod = await world.pending_pod("waits")
    uid, moment = pod.metadata.uid, datetime.fromtimestamp(1_700_000_000.5, UTC)
    first = ExplainedCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message="no", last_transition_time=moment
    )
    other = ExplainedCondition(type="example.com/other", status="True", last_transition_time=moment)

    for condition in (other, first, msgspec.structs.replace(first, reason="SchedulerError")):
        await world.kube.set_pod_status(NAMESPACE, "waits", uid=uid, condition=condition)
    await world.kube.set_pod_status(NAMESPACE, "waits", uid=uid, nominated_node="node-a")
    with pytest.raises(Conflict):
        await world.kube.set_pod_status(NAMESPACE, "waits", uid="another", nominated_node="node-b")
    with pytest.raises(NotFound):
        await world.kube.set_pod_status(NAMESPACE, "nobody", uid=uid, nominated_node="node-b")

    nominated = (await world.kube.get(PODS, "waits", NAMESPACE)).status
    assert {("PodScheduled", "False", "SchedulerError"), ("example.com/other", "True", "")} == {
        (each.type, each.status, each.reason) for each in nominated.conditions
    }
    assert "node-a" == nominated.nominated_node_name
    await world.kube.set_pod_status(NAMESPACE, "waits", uid=uid, nominated_node="")
    assert "" == (await world.kube.get(PODS, "waits", NAMESPACE)).status.nominated_node_name


async def test_a_volume_is_reserved_for_a_claim(world: World) -> None:
    """As long as nobody has changed it; then the claim is bound to it by its controller."""
    spec = PersistentVolumeSpec(capacity={"storage": "1Gi"}, access_modes=["ReadWriteOnce"])
    name, key = "reserved", {"namespace": NAMESPACE, "name": "reserving"}
    if isinstance(world, MemoryWorld):
        world.kube.put(VOLUMES, PersistentVolume(metadata=ObjectMeta(name=name), spec=spec))
        world.kube.put(CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(**key)))
    if isinstance(world, RealWorld):
        modes = {"accessModes": ["ReadWriteOnce"], "storageClassName": "none"}
        size = {"storage": "1Gi"}
        await world.cluster.apply(
            [
                {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                 "spec": {**modes, "capacity": size, "hostPath": {"path": "/x"}}},
                {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": key,
                 "spec": {**modes, "resources": {"requests": size}, "volumeMode": "Block"}},
            ]
        )  # fmt: skip
    claim = await world.kube.get(CLAIMS, **key)
    volume = await world.kube.get(VOLUMES, name)

    await world.kube.annotate(VOLUMES, name, {"example.com/changed": "1"})
    with pytest.raises(Conflict):
        await world.kube.reserve_volume(volume, claim)
    await world.kube.reserve_volume(await world.kube.get(VOLUMES, name), claim)

    reference = (await world.kube.get(VOLUMES, name)).spec.claim_ref
    assert reference is not None
    assert (NAMESPACE, "reserving", claim.metadata.uid) == (reference.namespace, reference.name, reference.uid)


async def test_deletes_the_pod_that_is_meant(world: World) -> None:
    pod = await world.run_pod("deleted")
    name = pod.metadata.name

    with pytest.raises(Conflict):
        await world.kube.delete(PODS, name, NAMESPACE, uid="another")
    assert None is (await world.kube.get(PODS, name, NAMESPACE)).metadata.deletion_timestamp
    await world.kube.delete(PODS, name, NAMESPACE, uid=pod.metadata.uid)
    with pytest.raises(NotFound):
        await world.kube.delete(PODS, "nobody", NAMESPACE, uid=pod.metadata.uid)

    assert await leaves(world, pod)


async def test_evictions(world: World) -> None:
    """The responses that the binder reads, one after the other, for one pod."""
    pod = await world.run_pod("evicted")

    rehearsed = await evict(world, pod, dry_run=True)
    rehearsed_for_another = await evict(world, pod, uid="another", dry_run=True)
    for_another = await evict(world, pod, uid="another")
    still_there = await world.kube.get(PODS, pod.metadata.name, NAMESPACE)
    done = await evict(world, pod)

    assert [201, 409, 409, 201] == [
        response.status for response in (rehearsed, rehearsed_for_another, for_another, done)
    ]  # fmt: skip
    assert "Conflict" == for_another.reason
    assert pod.metadata.uid == still_there.metadata.uid
    assert still_there.metadata.deletion_timestamp is None
    assert await leaves(world, pod)


async def test_an_eviction_of_a_pod_that_is_gone(world: World) -> None:
    """404, also for a rehearsal."""
    for dry_run in (True, False):
        response = await world.kube.evict(NAMESPACE, "nobody", uid="u", dry_run=dry_run)
        assert (404, "NotFound") == (response.status, response.reason)


async def test_an_eviction_against_a_disruption_budget(world: World) -> None:
    """429 with its cause and without a time to come back; with two budgets 500; the pod stays."""
    pod = await world.run_pod("guarded")

    await world.forbid_disruption("guarded", "one")
    blocked = [await evict(world, pod, dry_run=dry_run) for dry_run in (True, False)]
    await world.forbid_disruption("guarded", "two")
    confused = await evict(world, pod)

    assert [(429, True, None)] * 2 == [(a.status, a.disruption_budget, a.retry_after) for a in blocked]
    assert ["one"] * 2 == [response.budget for response in blocked]
    assert (500, False) == (confused.status, confused.disruption_budget)
    assert "more than one PodDisruptionBudget" in confused.message
    assert None is (await world.kube.get(PODS, pod.metadata.name, NAMESPACE)).metadata.deletion_timestamp


async def test_everything_that_may_be_read_can_be_read(real: RealWorld) -> None:
    """Every model fits what a real API server sends of its kind, or the kind is not installed."""
    await real.run_pod("readable")
    for resource in WORKLOAD_RESOURCES.values():
        try:
            await real.kube.list(resource)
        except NotFound:
            assert "." in resource.group, resource
    assert list(real.kube.unreadable) == []


class AnyLease(Object, frozen=True, kw_only=True):
    """A Lease with times that a user wrote."""

    spec: dict[str, Any] = msgspec.field(default_factory=dict)


async def test_a_real_api_server_accepts_a_year_that_hides_nothing(real: RealWorld) -> None:
    """Lists, watches and single reads of the kind go on; the object is named until it is gone."""
    written = msgspec.structs.replace(LEASES, model=AnyLease)
    for name, year in (("first", "2026"), ("odd", "0000"), ("second", "2026"), ("far", "9999")):
        time = f"{year}-12-31T23:59:59.000000{'-11:00' if year == '9999' else 'Z'}"
        metadata = ObjectMeta(name=name, namespace=NAMESPACE)
        await real.kube.create(written, AnyLease(metadata=metadata, spec={"renewTime": time, "holderIdentity": "me"}))

    listed = {each.metadata.name: each for each in await real.kube.list(LEASES, NAMESPACE)}
    assert listed.keys() >= {"first", "odd", "second", "far"}  # other tests have Leases, too
    assert {name for name, each in listed.items() if each.metadata.unreadable} == {"odd", "far"}
    assert listed["odd"].spec.holder_identity == "me"
    assert {name for _, name, _ in real.kube.unreadable} == {f"{NAMESPACE}/odd", f"{NAMESPACE}/far"}
    with pytest.raises(UnreadableObject, match="renewTime"):
        await real.kube.get(LEASES, "odd", NAMESPACE)
    seen = set[str]()
    async with asyncio.timeout(60), aclosing(real.kube.watch(LEASES, namespace=NAMESPACE)) as changes:
        async for change in changes:
            if change.synced:
                break
            if change.object is not None:
                seen.add(change.object.metadata.name)
    assert seen == listed.keys()

    reflector = Reflector(real.kube, LEASES, clock=real.clock, namespace=NAMESPACE)
    following = asyncio.create_task(reflector.run())
    await reflector.wait_synced(60)
    assert {name for _, name in reflector.objects} == listed.keys()
    following.cancel()


@pytest.mark.parametrize("cpu", ["1e308", "9223372036854775807"])
async def test_a_real_api_server_accepts_requests_that_no_machine_has(real: RealWorld, cpu: str) -> None:
    """What it stores is read as kube-scheduler reads it, and is otherwise unknown."""
    pod = await real.pending_pod("huge")
    await real.remove(pod)
    name = f"huge-{cpu[:1]}"
    container = Container(name="c", image="none", resources=ResourceRequirements(requests={"cpu": cpu}))
    spec = msgspec.structs.replace(pod.spec, containers=[container], scheduler_name="nobody", node_name="")
    pod = Pod(metadata=ObjectMeta(name=name, namespace=NAMESPACE), spec=spec)
    stored = await real.kube.create(PODS, pod)
    assert with_known_amounts(stored).metadata.unreadable
    assert requested(stored)["cpu"] in (0, -1_000)
    await real.remove(stored)


async def test_how_many_pods_a_workload_of_any_kind_should_have(real: RealWorld) -> None:
    """Discovery finds its resource, the scale subresource its numbers; kinds without it are not found."""
    await real.run_pod("scaled")
    found = await real.kube.find_scalable("apps", "Deployment")
    assert found is not None
    assert "deployments" == found.plural

    async with asyncio.timeout(60):
        # Its controller counts a moment after the pod is ready.
        while (custom := await real.kube.get(found, "scaled", NAMESPACE)).status.ready_replicas != 1:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    scale = await real.kube.get(scale_of(found), "scaled", NAMESPACE)

    assert (1, 1) == (custom.status.ready_replicas, custom.status.observed_generation)
    assert (1, 1) == (scale.spec.replicas, scale.status.replicas)
    assert None is await real.kube.find_scalable("", "ConfigMap")
    with pytest.raises(NotFound):
        await real.kube.find_scalable("nobody.example.com", "Nothing")


async def test_which_versions_of_a_kind_are_served(real: RealWorld) -> None:
    """By discovery; none of a kind or of a group that the API server does not have."""
    assert ["v1"] == await real.kube.served_versions("apps", "Deployment")
    assert [] == await real.kube.served_versions("apps", "Nothing")
    assert [] == await real.kube.served_versions("nobody.example.com", "Nothing")


async def test_mutating_admission_policies_are_served(mutating_policies: None, real: RealWorld) -> None:
    assert "v1" in await real.kube.served_versions("admissionregistration.k8s.io", "MutatingAdmissionPolicy")


async def test_an_account_without_rights_is_forbidden(real: RealWorld, tmp_path: Path) -> None:
    """The pod's own token is used; the error contains the user and the verb."""
    manifest = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "poor", "namespace": NAMESPACE}}
    await real.cluster.apply([manifest])
    token = await real.cluster.service_account_token(NAMESPACE, "poor")
    inside = connect_kube(
        Kubernetes(service_account=str(token.parent)),
        "binder",
        SystemClock(),
        environment=real.cluster.in_cluster_environment,
    )

    async with inside as kube:
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{NAMESPACE}:poor"):
            await kube.get(PODS, "web-1", NAMESPACE)
        response = await kube.evict(NAMESPACE, "web-1", uid="u", dry_run=True)

        token.write_text("stale")
        with pytest.raises(KubeError, match="401"):
            async with connect_kube(
                Kubernetes(service_account=str(token.parent)), "binder", SystemClock(),
                environment=real.cluster.in_cluster_environment,
            ) as stranger:  # fmt: skip
                await stranger.get(PODS, "web-1", NAMESPACE)

    assert (403, "Forbidden") == (response.status, response.reason)


async def test_the_time_of_the_server(real: RealWorld) -> None:
    """Estimated from its responses to a fraction of their resolution of a second."""
    clock = SystemClock()
    for _ in range(8):
        await real.kube.list(CONFIG_MAPS, NAMESPACE)
        await asyncio.sleep(0.11)

    assert abs(real.kube.server_time(clock.now()) - clock.now()) < 0.25
