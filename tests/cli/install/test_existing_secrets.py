"""Secrets that exist before an installation and that pods cannot use."""

import base64
from collections.abc import Mapping

import pytest

from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.install.existing_secrets import existing_secrets
from equipoise.cli.prepare.secret_contents import PARTS, Part, new_contents
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"
CENTURY = 100 * 365 * 86_400.0


def a_cluster(clock: ManualClock, part: Part, changed: Mapping[str, bytes | None]) -> MemoryKube:
    """A cluster with the Secrets of a part. `changed`: other contents by key; None: the key is missing."""
    kube = MemoryKube(clock)
    for name, contents in new_contents(part, NAMESPACE, now=clock.now(), password=lambda: "secret").items():
        data = {key: base64.b64encode(value).decode() for key, value in {**contents, **changed}.items() if value}
        kube.put(SECRETS, SecretObject(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data=data))
    return kube


@pytest.mark.parametrize(
    ("part", "changed", "words"),
    [
        ("passwords", {"tap": None}, "Secret equipoise-nats exists, and has no tap: pods would wait for it"),
        ("passwords", {"binder": b"", "reclaimer": None}, "has no binder: pods"),
        ("nats-certificate", {"ca.crt": None}, "Secret equipoise-nats-tls exists, and has no ca.crt"),
        ("nats-certificate", {"tls.crt": b"none"}, "its tls.crt is no certificate in PEM format"),
    ],
)
async def test_a_secret_that_lacks_something_is_named_with_what_to_do(
    part: Part, changed: dict[str, bytes | None], words: str
) -> None:
    """The setup Job would keep it, and the installation would wait for pods that cannot start."""
    clock = ManualClock()

    [finding] = await existing_secrets(a_cluster(clock, part, changed), NAMESPACE, (), clock.now())

    assert words in finding.message
    assert f"kubectl -n {NAMESPACE} delete secret equipoise-nats" in finding.fix


@pytest.mark.parametrize("part", [part for part in PARTS if part != "passwords"])
async def test_an_expired_certificate_is_named(part: Part) -> None:
    """That of each Secret."""
    clock = ManualClock()
    kube = a_cluster(clock, part, {})

    assert [] == await existing_secrets(kube, NAMESPACE, (), clock.now())
    findings = await existing_secrets(kube, NAMESPACE, (), clock.now() + CENTURY)
    assert findings
    assert all("its certificate has expired on" in finding.message for finding in findings)


async def test_the_reclaimer_needs_a_password_only_where_it_is_enabled() -> None:
    """Secrets of installations without it have none."""
    clock = ManualClock()
    kube = a_cluster(clock, "passwords", {"reclaimer": None})

    assert [] == await existing_secrets(kube, NAMESPACE, (), clock.now())
    [finding] = await existing_secrets(kube, NAMESPACE, {"reclaimer.enabled"}, clock.now())
    assert "has no reclaimer" in finding.message


async def test_a_secret_that_the_values_replace_is_not_examined() -> None:
    """It may be left from an earlier installation."""
    clock = ManualClock()
    kube = a_cluster(clock, "passwords", {"tap": None})

    assert [] == await existing_secrets(kube, NAMESPACE, {"nats.existingSecret"}, clock.now())
