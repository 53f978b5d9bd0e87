"""The objects that Equipoise has created outside of its Helm release."""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

import msgspec

from equipoise.binder.shell.ledger_store import NAME as LEDGER
from equipoise.cli.bus.access import SECRETS
from equipoise.cli.prepare.created_objects import DISCOVERED, LABELS
from equipoise.cli.prepare.storage import CLAIM
from equipoise.cli.uninstall.prepare_rights import find_rights
from equipoise.cli.uninstall.release import PART_OF
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

PREFIX = "equipoise-"


class WrittenObject(msgspec.Struct, frozen=True, kw_only=True):
    """An object that can be deleted."""

    resource: Resource[Any]
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return (
            f"{self.resource.kind} {self.namespace}/{self.name}"
            if self.namespace
            else f"{self.resource.kind} {self.name}"
        )


class FoundObjects(msgspec.Struct, frozen=True, kw_only=True):
    """The objects that exist in the cluster."""

    written: list[WrittenObject]
    others: list[str]
    """Secrets in the namespace that somebody else has created."""


async def find_written(kube: Kube, namespace: str) -> FoundObjects:
    """The objects of an installation. Only the metadata of Secrets is read. Raises KubeError."""
    written: list[WrittenObject] = []
    for name in (LEDGER, DISCOVERED):
        config_map = await find(kube, metadata_of(CONFIG_MAPS), name, namespace)
        written += _written(CONFIG_MAPS, [] if config_map is None else [config_map])
    async for resource, left in find_rights(kube, namespace):
        written += _written(resource, [left])
    claim = await find(kube, CLAIMS, CLAIM, namespace)
    if claim is not None and claim.metadata.labels.get(PART_OF) == LABELS[PART_OF]:  # else it is of another NATS
        written += _written(CLAIMS, [claim])
    leases = await kube.list(LEASES, namespace)
    written += _written(LEASES, [lease for lease in leases if lease.metadata.name.startswith(PREFIX)])
    secrets = await kube.list(metadata_of(SECRETS), namespace)
    prepared = [secret for secret in secrets if secret.metadata.labels.items() >= LABELS.items()]
    written += _written(SECRETS, prepared)
    with suppress(NotFound):  # the kind is not installed
        written += _written(HINTS, await kube.list(metadata_of(HINTS)))
    others = [secret.metadata.name for secret in secrets if secret not in prepared]
    return FoundObjects(written=written, others=[name for name in others if not name.startswith("sh.helm.release.")])


def _written(resource: Resource[Any], objects: Iterable[Object]) -> list[WrittenObject]:
    return [
        WrittenObject(resource=resource, namespace=meta.namespace, name=meta.name, uid=meta.uid)
        for meta in (item.metadata for item in objects)
    ]
