"""Creates the missing Secrets, and stores the source of metrics in a ConfigMap. Its account may not read Secrets."""

import base64
import secrets
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import click

from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.prepare.created_objects import DISCOVERED, FILE, LABELS
from equipoise.cli.prepare.discovery import discover
from equipoise.cli.prepare.secret_contents import Contents, Part, new_contents, secret_names
from equipoise.cli.prepare.storage import missing_storage
from equipoise.cli.service_settings import AllSettings, all_settings, read_file
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.runtime.configuration import Logging
from equipoise.runtime.configuration.discovered import REASON, names_source
from equipoise.runtime.kubernetes.client import (
    CLUSTER_ROLE_BINDINGS,
    CONFIG_MAPS,
    ROLE_BINDINGS,
    Conflict,
    Kube,
    NotFound,
    Resource,
    find,
)
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.fence import PROBE, fence_problem
from equipoise.runtime.process.clock import Clock, SystemClock
from equipoise.runtime.process.logging import configure_logging

T = TypeVar("T", bound=Object)

ACCOUNT = "equipoise-prepare"
"""The account of the Job, and its roles and bindings."""

FENCE = "equipoise-prepare-fence"
MANIFEST = "k8s/prepare/prepare.yaml"
FENCE_SECONDS = 60.0
"""The time within which the admission policy must take effect."""

PASSWORD_BYTES = 24

ATTEMPTS = 10
"""How often an object is created, a second apart, while the API server reports a conflict, as with a ResourceQuota."""


async def run_prepare(
    configuration: Path | None, environment: Mapping[str, str], parts: Sequence[Part], *, volume: bool
) -> None:
    """Run the command. `volume`: whether NATS has a PersistentVolumeClaim without a StorageClass.

    Raises ConfigurationError, KubeError, CommandFailed and InvalidInput.
    """
    configure_logging(Logging(level="error"), "prepare")
    document = read_file(configuration)
    settings = all_settings(document, environment)
    namespace, clock = settings.shared.kubernetes.namespace, SystemClock()
    async with connect_kube(settings.shared.kubernetes, "prepare", clock) as kube:
        problem = await missing_storage(kube, namespace) if volume else ""
        try:
            if not problem:
                await prepare_secrets(kube, namespace, parts, clock)
        except InvalidInput as error:
            problem = error.message
        if not problem and not names_source(document):
            await write_discovered(kube, namespace, settings, clock)
        await end_rights(kube, namespace)  # not after other errors: the Job tries again
        if problem:
            raise InvalidInput(problem)


async def end_rights(kube: Kube, namespace: str) -> None:
    """Delete the bindings of this account, if it is that of the Job. Raises KubeError.

    Helm deletes them, too, unless it was interrupted; `kubectl apply` does not. The first is deleted with a right
    of its own role, and so is the last one.
    """
    if not kube.as_service_account:
        return
    for resource, where in ((CLUSTER_ROLE_BINDINGS, ""), (ROLE_BINDINGS, namespace)):
        if (binding := await find(kube, resource, ACCOUNT, where)) is not None:
            await kube.delete(resource, ACCOUNT, where, uid=binding.metadata.uid)


async def prepare_secrets(kube: Kube, namespace: str, parts: Sequence[Part], clock: Clock) -> None:
    """Create the missing Secrets, once the admission policy restricts this account.

    Raises KubeError, CommandFailed and InvalidInput.
    """
    await _until_fenced(kube, namespace, clock)
    for part in parts:
        # NATS and shells do not interpret the alphabet of base64 for URLs.
        password = partial(secrets.token_urlsafe, PASSWORD_BYTES)
        contents = partial(new_contents, part, namespace, now=clock.now(), password=password)
        await _create_missing(kube, namespace, secret_names(part), contents, clock)


async def write_discovered(kube: Kube, namespace: str, settings: AllSettings, clock: Clock) -> None:
    """Find the source of metrics, unless one is stored already. Services never switch to another source by themselves.

    A failure that may pass is not stored: the next upgrade searches again.

    Raises KubeError.
    """
    metadata = ObjectMeta(name=DISCOVERED, namespace=namespace, labels=dict(LABELS))
    if await _exists(kube, CONFIG_MAPS, ConfigMap(metadata=metadata), clock):
        click.echo(f"ConfigMap {namespace}/{DISCOVERED} exists, and is kept: to search again, delete it first")
        return
    found = await discover(kube, settings, clock)
    click.echo(found.reason)
    if found.temporary:
        click.echo("not stored: to search again, run `helm upgrade`, and restart the collector")
        return
    data = {FILE: found.document, REASON: found.reason}
    await _is_created(kube, CONFIG_MAPS, ConfigMap(metadata=metadata, data=data), clock)


async def _until_fenced(kube: Kube, namespace: str, clock: Clock) -> None:
    """Wait until the admission policy is in effect, which takes seconds.

    Users of a kubeconfig are not restricted by it.
    """
    probe = SecretObject(metadata=ObjectMeta(name=PROBE, namespace=namespace), data={})
    end = clock.monotonic() + FENCE_SECONDS
    while kube.as_service_account and (why := await fence_problem(kube, FENCE, SECRETS, probe, MANIFEST)):
        if clock.monotonic() > end:
            raise CommandFailed(why)
        await clock.sleep(1.0)


async def _create_missing(
    kube: Kube, namespace: str, names: Sequence[str], contents: Callable[[], Contents], clock: Clock
) -> None:
    """Create all Secrets or none, because they need certificates of the same CA. `contents`: computed only for new
    Secrets.

    The first Secret is created last: if this is interrupted, the next run names what is missing. Raises InvalidInput if
    the first Secret is missing although another one exists.
    """
    first, *others = names
    existing = [name for name in names if await _exists(kube, SECRETS, _secret(name, namespace, {}), clock)]
    if first in existing:
        click.echo(f"Secret {namespace}/{first} exists, and is kept")
        for name in others:
            state = "exists, and is kept" if name in existing else f"does not exist, and is of the same CA as {first}"
            click.echo(f"Secret {namespace}/{name} {state}")
        return
    if existing:
        raise InvalidInput(
            f"Secret {namespace}/{first} is missing, and {', '.join(existing)} is of a CA whose key is not stored. "
            f"Create the missing one with `equipoise certificates`, or delete {', '.join(existing)}: both are then "
            "created"
        )
    data = contents()
    for name in (*others, first):
        try:
            created = await _is_created(kube, SECRETS, _secret(name, namespace, data[name]), clock)
        except NotFound:
            raise InvalidInput(f"namespace {namespace} does not exist: create it first") from None
        if not created:
            raise CommandFailed(f"Secret {namespace}/{name} was created by another program at the same time: try again")
        click.echo(f"created Secret {namespace}/{name}")


async def _exists(kube: Kube, resource: Resource[T], value: T, clock: Clock) -> bool:
    """Whether the object exists. It is created in a dry run, which needs no permission to read it."""
    try:
        return not await _is_created(kube, resource, value, clock, dry_run=True)
    except NotFound:
        return False  # the namespace does not exist


async def _is_created(kube: Kube, resource: Resource[T], value: T, clock: Clock, *, dry_run: bool = False) -> bool:
    """Whether the object was created now; False: it exists. Another conflict is tried again, and then raised."""
    attempt = 1
    while True:
        try:
            await kube.create(resource, value, dry_run=dry_run)
        except Conflict as error:
            if error.reason == "AlreadyExists":
                return False
            if attempt == ATTEMPTS:
                raise
        else:
            return True
        attempt += 1
        await clock.sleep(1.0)


def _secret(name: str, namespace: str, data: Mapping[str, bytes]) -> SecretObject:
    return SecretObject(
        metadata=ObjectMeta(name=name, namespace=namespace, labels=dict(LABELS)),
        data={key: base64.b64encode(value).decode() for key, value in data.items()},
    )
