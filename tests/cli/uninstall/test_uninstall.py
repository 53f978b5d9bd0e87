"""`equipoise uninstall` removes what Equipoise has written, and names what remains."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger
from binder.replica_sets import a_move
from builders import NOW

from equipoise.binder.shell.ledger_store import KEY
from equipoise.binder.state.ledger_json import encode
from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.prepare.created_objects import LABELS
from equipoise.cli.uninstall.prepare_rights import RIGHTS
from equipoise.cli.uninstall.release import RELEASE, Installed, helm_command, installed, remove_release
from equipoise.cli.uninstall.run import find_all, preview, remaining, remove_all, require_no_moves, require_only_one
from equipoise.cli.uninstall.written_amounts import ManagedFields, ManagedMeta, ManagedNode
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.hints.hints_object import HintsObject
from equipoise.contracts.kubernetes.annotations import LOAD
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import NodeSpec, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.objects.storage import PersistentVolumeClaim
from equipoise.contracts.kubernetes.objects.workload import WorkloadObject
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import CLAIMS, CONFIG_MAPS, DEPLOYMENTS, HINTS, LEASES, NODES, PODS, ROLES
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"
CLAIM_LABELS = {"app.kubernetes.io/name": "nats", "app.kubernetes.io/part-of": "equipoise"}


def meta(name: str, namespace: str = NAMESPACE, **fields: dict[str, str]) -> ObjectMeta:
    return ObjectMeta(name=name, namespace=namespace, **fields)


def offering(name: str, writer: str, annotations: dict[str, str]) -> ManagedNode:
    """A node with an amount that this program has written."""
    amounts = {"cpu": "4", "kubernetes.io/batch-cpu": "1000"}
    fields: dict[str, Any] = {"f:status": {"f:capacity": {"f:kubernetes.io/batch-cpu": {}}}}
    managed = [ManagedFields(manager="kubelet"), ManagedFields(manager=writer, fields_v1=fields)]
    return ManagedNode(
        metadata=ManagedMeta(name=name, annotations=annotations, managed_fields=managed),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


class World:
    """A cluster in which the release is gone, and everything else is still there."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.kube = MemoryKube(self.clock)
        put = self.kube.put
        node = offering("alpha", "equipoise-reclaimer", {LOAD: "{}", "theirs": "1"})
        put(NODES, msgspec.structs.replace(node, spec=NodeSpec(taints=[consolidation_taint(NOW)])))
        for name in ("equipoise-ledger", "equipoise-discovered", "theirs"):
            put(CONFIG_MAPS, ConfigMap(metadata=meta(name)))
        for name in ("equipoise-descheduler", "theirs"):
            put(LEASES, Lease(metadata=meta(name)))
        put(SECRETS, SecretObject(metadata=meta("equipoise-nats", labels=dict(LABELS)), data={"tap": "cGFzc3dvcmQ="}))
        put(SECRETS, SecretObject(metadata=meta("equipoise-nats-tls"), data={}))
        put(CLAIMS, PersistentVolumeClaim(metadata=meta("data-nats-0", labels=CLAIM_LABELS)))
        put(HINTS, HintsObject(metadata=meta("equipoise-hints", "shop")))
        put(PODS, Pod(metadata=meta("web-1", "shop", annotations={"equipoise.dev/hint": "Deployment.web@1"})))

    async def removed(self) -> list[str]:
        """What could not be removed."""
        found = await find_all(self.kube, NAMESPACE, crane=False)
        task = asyncio.create_task(remove_all(self.kube, self.clock, found, rate=10))
        await self.clock.advance(10)
        return await task

    def names(self) -> set[str]:
        stores = (CONFIG_MAPS, LEASES, SECRETS, CLAIMS, HINTS)
        return {f"{each.kind} {value.metadata.name}" for each in stores for value in self.kube.stored(each)}


async def test_it_removes_all_that_equipoise_has_written_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    """Objects of others in the same namespace remain, and a Secret of yours. A second run finds nothing."""
    world = World()
    assert await world.removed() == []
    assert world.names() == {"ConfigMap theirs", "Lease theirs", "Secret equipoise-nats-tls"}
    [node] = world.kube.stored(NODES)
    assert node.metadata.annotations == {"theirs": "1"}
    assert node.status.capacity == {"cpu": "4"}
    assert node.spec.taints == []
    assert "deleted Secret equipoise-system/equipoise-nats\n" in capsys.readouterr().out
    found = await find_all(world.kube, NAMESPACE, crane=False)
    assert list(preview(found, NAMESPACE)) == ["nothing of Equipoise is in this cluster"]


async def test_the_rights_of_a_job_that_was_refused_are_removed_and_named() -> None:
    """Helm leaves them. Objects of the same name without the label are of somebody else."""
    world = World()
    for resource, name in RIGHTS:
        labels = {} if resource is ROLES else {"app.kubernetes.io/component": "prepare"}
        namespace = NAMESPACE if resource.namespaced else ""
        world.kube.put(resource, resource.model(metadata=meta(name, namespace, labels=labels)))
    found = await find_all(world.kube, NAMESPACE, crane=False)
    lines = [line.strip() for line in preview(found, NAMESPACE)]
    assert {"ClusterRole equipoise-prepare", f"ServiceAccount {NAMESPACE}/equipoise-prepare"} <= {*lines}

    assert await world.removed() == []
    assert [resource.kind for resource, _ in RIGHTS if world.kube.stored(resource)] == ["Role"]


async def test_it_names_what_remains() -> None:
    """The namespace, Secrets of yours, and what running pods keep of a hint."""
    lines = "\n".join(await remaining(World().kube, NAMESPACE))
    assert "kubectl delete namespace equipoise-system" in lines
    assert "not created by Equipoise: equipoise-nats-tls" in lines
    assert "equipoise.dev/hint and the preferred node affinity of 1 pod" in lines


async def test_the_preview_changes_nothing_and_lists_everything() -> None:
    world = World()
    before = world.names()
    lines = "\n".join(preview(await find_all(world.kube, NAMESPACE, crane=False), NAMESPACE))
    for expected in (
        "annotations and taints of 1 Node",
        "reclaimed resources in the status of 1 node",
        "ConfigMap equipoise-system/equipoise-ledger",
        "Lease equipoise-system/equipoise-descheduler",
        "Secret equipoise-system/equipoise-nats",
        "PersistentVolumeClaim equipoise-system/data-nats-0",
        "PlacementHints shop/equipoise-hints",
    ):
        assert expected in lines
    assert "theirs" not in lines
    assert world.names() == before


async def test_the_volume_of_another_nats_is_not_deleted() -> None:
    world = World()
    world.kube.put(CLAIMS, PersistentVolumeClaim(metadata=meta("data-nats-0")))
    await world.removed()
    assert "PersistentVolumeClaim data-nats-0" in world.names()


async def test_what_cannot_be_deleted_is_named_and_the_rest_is_removed() -> None:
    world = World()
    world.kube.fail_next("delete", status=403, message="forbidden")
    [failure] = await world.removed()
    assert failure.startswith("ConfigMap equipoise-system/equipoise-ledger: ")
    assert "ConfigMap equipoise-discovered" not in world.names()


@pytest.mark.parametrize("release", ["equipoise", ""])
async def test_the_release_is_found_by_its_deployments(release: str) -> None:
    """Services that run would write again: without Helm, it states what to delete first."""
    world = World()
    labels = {"app.kubernetes.io/name": "equipoise", "app.kubernetes.io/component": "collector"}
    annotations = {RELEASE: release} if release else {}
    if release:
        labels["app.kubernetes.io/part-of"] = "equipoise"
    metadata = meta("equipoise-collector", labels=labels, annotations=annotations)
    world.kube.put(DEPLOYMENTS, WorkloadObject(metadata=metadata))
    found = await installed(world.kube, NAMESPACE)
    assert found == Installed(deployments=["equipoise-collector"], release=release)
    lines = "\n".join(preview(await find_all(world.kube, NAMESPACE, crane=False), NAMESPACE))
    assert ("the Helm release equipoise" if release else "an installation without Helm") in lines


async def test_without_helm_it_states_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And removes nothing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    cluster = Kubernetes(namespace=NAMESPACE, context="prod")
    found = Installed(deployments=["equipoise-collector"], release="equipoise")
    command = "helm uninstall equipoise --namespace equipoise-system --wait --kube-context prod"
    assert " ".join(helm_command("equipoise", cluster)) == command
    with pytest.raises(CommandFailed, match=f"no program helm here: run `{command}`"):
        await remove_release(found, cluster)
    with pytest.raises(CommandFailed, match=r"not installed by Helm.*kubectl delete -k"):
        await remove_release(Installed(deployments=["equipoise-collector"], release=""), cluster)


async def test_the_collector_of_another_program_is_not_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jaeger has a component of this name. A release with other Deployments is not removed, and they are named."""
    world = World()
    jaeger = {"app.kubernetes.io/name": "jaeger", "app.kubernetes.io/component": "collector"}
    ours = {"app.kubernetes.io/component": "collector", "app.kubernetes.io/part-of": "equipoise"}
    tracing, platform = {RELEASE: "tracing"}, {RELEASE: "platform"}
    theirs = meta("jaeger-collector", labels=jaeger, annotations=tracing)
    world.kube.put(DEPLOYMENTS, WorkloadObject(metadata=theirs))
    assert await installed(world.kube, NAMESPACE) == Installed(deployments=[], release="")
    world.kube.put(DEPLOYMENTS, WorkloadObject(metadata=meta("equipoise-collector", labels=ours, annotations=platform)))
    assert (await installed(world.kube, NAMESPACE)).others == []
    world.kube.put(DEPLOYMENTS, WorkloadObject(metadata=meta("shop", annotations=platform)))
    found = await installed(world.kube, NAMESPACE)
    assert found == Installed(deployments=["equipoise-collector"], release="platform", others=["shop"])
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CommandFailed, match=r"release platform .* not of Equipoise \(shop\)"):
        await remove_release(found, Kubernetes(namespace=NAMESPACE))


async def test_amounts_of_another_program_remain_and_are_named() -> None:
    """Koordinator uses the same names of resources; also where the reclaimer only observes, and nodes are annotated."""
    world = World()
    world.kube.put(NODES, offering("beta", "koordlet", {"equipoise.dev/reclaimed": "{}"}))
    assert await world.removed() == []
    amounts = {each.metadata.name: each.status.capacity.keys() for each in world.kube.stored(NODES)}
    assert amounts == {"alpha": {"cpu"}, "beta": {"cpu", "kubernetes.io/batch-cpu"}}
    lines = "\n".join(await remaining(world.kube, NAMESPACE))
    assert "another program has written, in the status of beta." in lines


async def test_nothing_is_removed_while_pods_are_moved_without_a_gap() -> None:
    """Nobody would end the pods that binders have detached."""
    world = World()
    text = encode(a_ledger(surge_moves=(a_move(),)))
    world.kube.put(CONFIG_MAPS, ConfigMap(metadata=meta("equipoise-ledger"), data={KEY: text}))
    with pytest.raises(CommandFailed, match=r"moves without a gap have not ended yet \(shop/web-1\)"):
        await require_no_moves(world.kube, NAMESPACE)
    world.kube.put(CONFIG_MAPS, ConfigMap(metadata=meta("equipoise-ledger"), data={KEY: encode(a_ledger())}))
    await require_no_moves(world.kube, NAMESPACE)


async def test_pods_that_a_move_has_left_are_named() -> None:
    world = World()
    world.kube.put(PODS, Pod(metadata=meta("web-2", "shop", annotations={DETACHED_HASH: "h1"})))
    (line,) = [line for line in await remaining(world.kube, NAMESPACE) if "without owner" in line]
    assert "1 pod without owner, from moves without a gap: shop/web-2" in line


async def test_nothing_is_removed_while_another_installation_works() -> None:
    """With the wrong namespace, the annotations would be those of the other one."""
    world = World()
    await require_only_one(world.kube, "wrong", world.clock)
    renewed = datetime.fromtimestamp(world.clock.now(), UTC)
    spec = LeaseSpec(holder_identity="a", renew_time=renewed, lease_duration_seconds=15)
    world.kube.put(LEASES, Lease(metadata=meta("equipoise-descheduler"), spec=spec))
    await require_only_one(world.kube, NAMESPACE, world.clock)
    with pytest.raises(CommandFailed, match="works in namespace equipoise-system"):
        await require_only_one(world.kube, "wrong", world.clock)
