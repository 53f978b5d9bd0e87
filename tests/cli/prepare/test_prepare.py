"""`equipoise prepare` creates what is missing, and never a certificate that nobody trusts."""

import asyncio
import base64
from collections.abc import Collection
from typing import Any

import pytest
from cryptography import x509

from equipoise.cli.bus.access import SECRETS, SecretObject
from equipoise.cli.certificates.purposes import EXTENDER, NATS
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.prepare.created_objects import LABELS
from equipoise.cli.prepare.run import ACCOUNT, ATTEMPTS, FENCE, FENCE_SECONDS, end_rights, prepare_secrets
from equipoise.cli.prepare.secret_contents import PARTS, Part, new_contents
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.runtime.kubernetes.client import CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS, Conflict
from equipoise.runtime.kubernetes.fence import PROBE
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.faults import Call
from equipoise.testbed.memory.kube import MemoryKube

NAMESPACE = "equipoise-system"
SERVER, CLIENT = (secret.name for secret in EXTENDER.secrets)
DENIED = f"secrets \"{PROBE}\" is forbidden: ValidatingAdmissionPolicy '{FENCE}' with binding '{FENCE}' denied request"


class World:
    def __init__(self) -> None:
        self.clock = ManualClock(1_800_000_000.0)
        self.kube = MemoryKube(self.clock)

    async def prepare(self, parts: Collection[Part] = PARTS) -> None:
        await prepare_secrets(self.kube, NAMESPACE, [part for part in PARTS if part in parts], self.clock)

    def own(self, name: str) -> None:
        self.kube.put(SECRETS, SecretObject(metadata=ObjectMeta(name=name, namespace=NAMESPACE), data={}))

    def data(self) -> dict[str, dict[str, str]]:
        return {each.metadata.name: each.data or {} for each in self.kube.stored(SECRETS)}


async def test_what_exists_is_kept() -> None:
    """Passwords and certificates of an earlier run, and yours; what is new has labels by which it is found."""
    world = World()
    world.own("equipoise-nats")
    await world.prepare()
    first = world.data()
    assert first.keys() == {"equipoise-nats", "equipoise-nats-tls", SERVER, CLIENT, "equipoise-hints-webhook-tls"}
    assert first["equipoise-nats"] == {}
    await world.prepare()
    assert world.data() == first
    labels = [each.metadata.labels for each in world.kube.stored(SECRETS) if each.data]
    assert labels == [LABELS] * 4


async def test_certificates_are_computed_for_missing_secrets_only() -> None:
    """Whether a Secret exists is found out without values of it, which would be in an audit log."""
    world = World()
    requested: list[bool] = []

    async def admit(value: Any) -> Any:
        requested.append(bool(value.data))
        return value

    world.kube.admit = admit
    await world.prepare(["nats-certificate"])
    assert requested == [False, True], "a dry run, and the creation"


@pytest.mark.parametrize("part", PARTS)
async def test_only_the_parts_that_are_wanted_are_created(part: Part) -> None:
    world = World()
    await world.prepare([part])
    assert world.data().keys() == new_contents(part, NAMESPACE, now=0.0, password=lambda: "a").keys()


async def test_the_certificate_of_kube_scheduler_is_never_of_another_ca() -> None:
    """The key of the CA is not stored. Your scorer may have its files on a host, so that this is no error."""
    world = World()
    world.own(SERVER)
    await world.prepare(["extender-certificates"])
    assert world.data().keys() == {SERVER}


async def test_a_certificate_without_its_pair_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    """The scorer would wait for it for ever: which Secrets, and what to do."""
    world = World()
    world.own(CLIENT)
    with pytest.raises(InvalidInput, match=rf"{SERVER} is missing, and {CLIENT} .* delete {CLIENT}"):
        await world.prepare()
    assert SERVER not in world.data()


async def test_it_creates_nothing_until_its_policy_is_in_effect() -> None:
    """With the account of the Job: a policy takes effect seconds after it was applied."""
    world = World()
    world.kube.as_service_account = True
    preparing = asyncio.create_task(world.prepare())
    await world.clock.advance(FENCE_SECONDS + 2)
    with pytest.raises(CommandFailed, match=f"{FENCE} does not restrict this service.*k8s/prepare/prepare.yaml"):
        await preparing
    assert not world.data()
    world.kube.fail_next("create", status=422, message=DENIED)
    await world.prepare()
    assert world.data()


@pytest.mark.parametrize("own", [True, False])
async def test_the_job_ends_its_own_rights(own: bool) -> None:
    """Helm may have been interrupted, and `kubectl apply` deletes nothing. Rights of others, and those that a user of a
    kubeconfig finds, remain."""
    world = World()
    world.kube.as_service_account = own
    for resource, where in ((CLUSTER_ROLE_BINDINGS, ""), (ROLE_BINDINGS, NAMESPACE), (ROLE_BINDINGS, "elsewhere")):
        world.kube.put(resource, Object(metadata=ObjectMeta(name=ACCOUNT, namespace=where)))
    await end_rights(world.kube, NAMESPACE)
    left = {each.metadata.namespace for each in world.kube.stored(ROLE_BINDINGS)}
    assert left == ({"elsewhere"} if own else {NAMESPACE, "elsewhere"})
    assert bool(world.kube.stored(CLUSTER_ROLE_BINDINGS)) != own
    await end_rights(world.kube, NAMESPACE)


@pytest.mark.parametrize("namespace", ["equipoise-system", "elsewhere"])
def test_certificates_are_valid_where_they_are_used(namespace: str) -> None:
    """In the namespace of the release, and under the name that kube-scheduler verifies; for as long as their CA."""
    for part, purpose in (("nats-certificate", NATS), ("extender-certificates", EXTENDER)):
        contents = new_contents(part, namespace, now=1_800_000_000.0, password=lambda: "")  # type: ignore[arg-type]  # in PARTS
        server = contents[purpose.secrets[0].name]
        certificate, ca = (x509.load_pem_x509_certificate(server[key]) for key in ("tls.crt", "ca.crt"))
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        assert {*purpose.names, purpose.names[0].replace("equipoise-system", namespace)} <= set(
            names.get_values_for_type(x509.DNSName)
        )
        for data in contents.values():
            each = x509.load_pem_x509_certificate(data["tls.crt"])
            each.verify_directly_issued_by(ca)
            assert each.not_valid_after_utc == ca.not_valid_after_utc
            assert data["ca.crt"] == server["ca.crt"]
            assert data["tls.key"].startswith(b"-----BEGIN PRIVATE KEY-----")


def test_every_value_is_new() -> None:
    values = iter("abcdefgh")
    passwords = new_contents("passwords", NAMESPACE, now=0.0, password=lambda: next(values))["equipoise-nats"]
    assert sorted(passwords.values()) == [letter.encode() for letter in "abcdefgh"]
    one, other = (new_contents("nats-certificate", NAMESPACE, now=0.0, password=lambda: "") for _ in range(2))
    assert one["equipoise-nats-tls"]["ca.crt"] != other["equipoise-nats-tls"]["ca.crt"]


async def test_secrets_hold_text_that_nats_takes_literally() -> None:
    world = World()
    await world.prepare(["passwords"])
    for value in world.data()["equipoise-nats"].values():
        password = base64.b64decode(value).decode()
        assert len(password) == 32
        assert not set(password) - set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_")


async def test_what_was_deleted_is_created_with_new_values() -> None:
    """That is how passwords and certificates are replaced: both certificates of the extender with one CA."""
    world = World()
    await world.prepare()
    before = world.data()
    for name in ("equipoise-nats", SERVER, CLIENT):
        world.kube.remove(SECRETS, name, NAMESPACE)
    await world.prepare()
    after = world.data()
    assert after["equipoise-nats-tls"] == before["equipoise-nats-tls"]
    assert not set(after["equipoise-nats"].values()) & set(before["equipoise-nats"].values())
    assert after[SERVER]["ca.crt"] == after[CLIENT]["ca.crt"] != before[SERVER]["ca.crt"]


async def test_a_conflict_with_a_quota_is_not_a_secret_that_exists() -> None:
    """It is tried again, and raised if it lasts."""
    world = World()
    message = "Operation cannot be fulfilled on resourcequotas"
    world.kube.fail_next("create", status=409, reason="Conflict", message=message, resource="secrets")
    preparing = asyncio.create_task(world.prepare(["passwords"]))
    await world.clock.advance(2)
    await preparing
    assert world.data().keys() == {"equipoise-nats"}
    world.kube.refuse("create", status=409, resource="secrets")
    preparing = asyncio.create_task(world.prepare(["passwords"]))
    await world.clock.advance(ATTEMPTS + 1)
    with pytest.raises(Conflict):
        await preparing


async def test_an_interrupted_run_is_named_by_the_next_one() -> None:
    """The server's certificate is created last: without it, the client's is never one that nobody can renew."""
    world = World()

    async def interrupt(call: Call) -> None:
        if call.name == SERVER and CLIENT in world.data():
            raise asyncio.CancelledError

    world.kube.on_call = interrupt
    with pytest.raises(asyncio.CancelledError):
        await world.prepare(["extender-certificates"])
    assert world.data().keys() == {CLIENT}
    world.kube.on_call = None
    with pytest.raises(InvalidInput, match=f"{SERVER} is missing"):
        await world.prepare(["extender-certificates"])
