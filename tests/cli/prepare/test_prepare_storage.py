"""Without a volume, NATS waits for ever: the installation fails at once, with what to do."""

import pytest

from equipoise.cli.prepare.storage import BETA_DEFAULT_CLASS, DEFAULT_CLASS, missing_storage, storage_problem
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
)
from equipoise.runtime.kubernetes.client import CLAIMS, STORAGE_CLASSES
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

SLOW = StorageClass(metadata=ObjectMeta(name="slow"))
DEFAULT = StorageClass(metadata=ObjectMeta(name="fast", annotations={DEFAULT_CLASS: "true"}))
BETA = StorageClass(metadata=ObjectMeta(name="old", annotations={BETA_DEFAULT_CLASS: "true"}))


def volume(phase: str, storage_class: str = "") -> PersistentVolume:
    return PersistentVolume(
        metadata=ObjectMeta(name="a"),
        spec=PersistentVolumeSpec(storage_class_name=storage_class),
        status=PersistentVolumeStatus(phase=phase),
    )


@pytest.mark.parametrize(
    ("classes", "volumes", "missing"),
    [
        ([SLOW, DEFAULT], [], False),
        ([SLOW, BETA], [], False),
        ([SLOW], [volume("Available")], False),
        ([SLOW], [volume("Released"), volume("Available", "slow")], True),
        ([], [], True),
    ],
)
def test_a_volume_is_created_or_is_there(
    classes: list[StorageClass], volumes: list[PersistentVolume], missing: bool
) -> None:
    problem = storage_problem(classes, volumes)
    assert bool(problem) == missing
    if missing:
        assert "nats.persistence.storageClass" in problem
        assert "nats.persistence.enabled to false" in problem
        assert ("it has: slow" if classes else "it has: none") in problem


async def test_an_upgrade_keeps_the_claim_that_it_has() -> None:
    """Also if the default was removed since."""
    kube = MemoryKube(ManualClock())
    kube.put(STORAGE_CLASSES, SLOW)
    assert await missing_storage(kube, "equipoise-system")
    kube.put(CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="data-nats-0", namespace="equipoise-system")))
    assert not await missing_storage(kube, "equipoise-system")
