"""The objects that Equipoise has created and that no release contains."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from equipoise.binder.shell.ledger_store import NAME as LEDGER
from equipoise.cli.bus.access import SECRETS
from equipoise.cli.prepare.created_objects import DISCOVERED, LABELS
from equipoise.cli.prepare.storage import CLAIM
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.kubernetes.client import (
    CLAIMS,
    CONFIG_MAPS,
    HINTS,
    LEASES,
    Kube,
    NotFound,
    Resource,
    find,
    metadata_of,
)

PART_OF = "app.kubernetes.io/part-of"
PREFIX = "equipoise-"


class WrittenObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that can be deleted."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.namespace}/{self.name}"


class FoundObjects(msgspec.Struct, frozen=True, kw_only=True):
    """What exists of it in the cluster."""

    written: list[WrittenObject]
    others: list[str]
    """Secrets in the namespace that somebody else has created."""


async def find_written(kube: Kube, namespace: str) -> FoundObjects:
    """The objects of an installation, by their metadata only, also Secrets. Raises KubeError."""
    written: list[WrittenObject] = []
    for name in (LEDGER, DISCOVERED):
        found = await find(kube, metadata_of(CONFIG_MAPS), name, namespace)
        written += _written(CONFIG_MAPS, [] if found is None else [found])
    claim = await find(kube, CLAIMS, CLAIM, namespace)
    if claim is not None and claim.metadata.labels.get(PART_OF) == LABELS[PART_OF]:  # not that of another NATS
        written += _written(CLAIMS, [claim])
    leases = await kube.list(LEASES, namespace)
    written += _written(LEASES, [each for each in leases if each.metadata.name.startswith(PREFIX)])
    secrets = await kube.list(metadata_of(SECRETS), namespace)
    prepared = [each for each in secrets if each.metadata.labels.items() >= LABELS.items()]
    written += _written(SECRETS, prepared)
    with suppress(NotFound):  # the kind is not installed
        written += _written(HINTS, await kube.list(metadata_of(HINTS)))
    others = [each.metadata.name for each in secrets if each not in prepared]
    return FoundObjects(written=written, others=[each for each in others if not each.startswith("sh.helm.release.")])


def _written(resource: Resource[Any], found: Iterable[Object]) -> list[WrittenObject]:
    return [
        WrittenObject(
            resource=resource, namespace=each.metadata.namespace, name=each.metadata.name, uid=each.metadata.uid
        )
        for each in found
    ]
