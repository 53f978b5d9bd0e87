"""The webhook of hints is removed while it is slow, and restored when it has been healthy for a minute."""

import asyncio
import base64
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest
from builders import NOW
from e2e.running_webhook import WebhookFiles
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from equipoise.annotator.decisions.webhook_guard import (
    HEALTHY_SECONDS,
    NOT_CALLED_YET,
    SLOW_RESPONSES,
    SLOW_SECONDS,
    UNKNOWN_SECONDS,
    Calls,
    Probe,
    after_probe,
)
from equipoise.annotator.settings import AnnotatorSettings, HintWriteSettings
from equipoise.annotator.shell.webhook_guard import PERIOD, WebhookGuard
from equipoise.contracts.hints.policy import HINTED, NAME
from equipoise.contracts.hints.webhook import (
    PODS_WEBHOOK,
    PROBE,
    PROBE_KEY,
    PROBE_WEBHOOK,
    STATE,
    WebhookConfiguration,
    ca_of,
    hinted_namespaces,
    serves_pods,
    webhooks,
)
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.runtime.configuration import Configuration, Shared
from equipoise.runtime.kubernetes.client import WEBHOOK_CONFIGURATIONS, Resource, error_for_status
from equipoise.runtime.process.health import Health
from equipoise.runtime.process.lifecycle import Runtime
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

HEALTHY = Probe(seconds=0.004, responded=True)
SLOW = Probe(seconds=1.0, responded=False)
SILENT = Probe(seconds=0.004, responded=False)
NAMESPACE = "default"

# Decisions


def states(calls: Calls, *probes: Probe, period: float = 5.0) -> list[bool]:
    """Whether the webhook is called after each probe."""
    found = []
    for number, probe in enumerate(probes):
        calls = after_probe(calls, probe, now=period * number, at="09:00")
        found.append(calls.enabled)
    return found


CALLED = Calls(enabled=True, why="called since 08:00")
REMOVED = Calls(enabled=False, why="not called since 08:00: new pods waited 1.0 s for it")


def test_two_slow_responses_in_a_row_remove_the_webhook() -> None:
    assert states(CALLED, SLOW, SLOW) == [True, False]
    assert states(CALLED, SLOW, HEALTHY, SLOW, SILENT, SLOW) == [True] * 5


def test_a_webhook_that_responds_late_is_slow_too() -> None:
    """Each pod waits for it, although it gets its hint."""
    late = Probe(seconds=SLOW_SECONDS, responded=True)

    assert states(CALLED, late, late) == [True, False]


def test_a_webhook_that_nobody_reaches_delays_nothing_and_remains() -> None:
    """A refused connection takes no time."""
    assert states(CALLED, *[SILENT] * 50) == [True] * 50


def test_a_healthy_minute_restores_it() -> None:
    probes = int(HEALTHY_SECONDS / 5)

    assert states(REMOVED, *[HEALTHY] * (probes + 1)) == [False] * probes + [True]


@pytest.mark.parametrize("other", [SLOW, SILENT])
def test_every_other_probe_begins_the_minute_again(other: Probe) -> None:
    assert not any(states(REMOVED, *[HEALTHY] * 12, other, *[HEALTHY] * 12))


@given(st.lists(st.sampled_from([HEALTHY, SLOW, SILENT]), max_size=60), st.booleans())
def test_it_is_called_only_after_fewer_slow_responses_than_allowed(probes: list[Probe], enabled: bool) -> None:
    """Whatever happened before: two slow ones at the end, and it is not called."""
    calls = CALLED if enabled else REMOVED
    for number, probe in enumerate([*probes, *[SLOW] * SLOW_RESPONSES]):
        calls = after_probe(calls, probe, now=5.0 * number, at="")

    assert not calls.enabled


def test_the_reason_states_since_when_and_how_long_pods_waited() -> None:
    calls = after_probe(msgspec.structs.replace(CALLED, slow=1), SLOW, now=0, at="2026-11-27T09:00:00Z")

    assert "not called since 2026-11-27T09:00:00Z: new pods waited 1.0 s for it" == calls.why


# The configuration


def test_it_is_called_in_namespaces_with_hints_only() -> None:
    """Never in those of the system or of Equipoise: their pods must not depend on it."""
    hinted = ["web", "kube-system", "equipoise-system", "api", "kube-public", "kube-node-lease"]
    found = WebhookConfiguration(webhooks=webhooks(ca=b"x", namespace="equipoise-system", port=443, hinted=hinted))

    assert ["api", "web"] == hinted_namespaces(found)
    assert serves_pods(found)


@pytest.mark.parametrize(("hinted", "pods"), [(["web"], False), ([], True), (["kube-system"], True)])
def test_without_pods_to_serve_it_is_called_for_probes_only(hinted: list[str], pods: bool) -> None:
    """A selector without names would match every namespace, or be refused."""
    found = webhooks(ca=b"x", namespace="equipoise-system", port=443, hinted=hinted, pods=pods)

    assert [PROBE_WEBHOOK] == [each["name"] for each in found]


def test_no_webhook_can_refuse_or_delay_pods() -> None:
    for each in webhooks(ca=b"x", namespace="equipoise-system", port=443, hinted=["web"]):
        assert ("Ignore", 1, "None") == (each["failurePolicy"], each["timeoutSeconds"], each["sideEffects"])


# The guard


class World:
    """A guard, with an API server that calls a webhook."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock(now=NOW)
        self.kube = MemoryKube(self.clock)
        self.kube.admit = self.admit
        self.files = WebhookFiles(folder, NAMESPACE)
        self.seconds: float = 0.0
        """The time that the webhook takes."""

        self.base: float = 0.0
        """The time that every pod takes."""

        self.responds = True
        self.hinted = ["web"]
        self.ours = True
        self.health: Health
        self.kube.put(WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=ObjectMeta(name=NAME)))
        self.task: asyncio.Task[None] | None = None

    async def admit(self, value: Object) -> Object:
        called = PROBE in value.metadata.labels and any(
            each["name"] == PROBE_WEBHOOK for each in self.configuration.webhooks
        )
        await self.clock.sleep(self.base + (self.seconds if called else 0.0))
        if not called or not self.responds:
            return value
        metadata = msgspec.structs.replace(value.metadata, annotations={HINTED: f"{PROBE_KEY}@probe"})
        return msgspec.structs.replace(value, metadata=metadata)

    @property
    def configuration(self) -> WebhookConfiguration:
        [found] = self.kube.stored(WEBHOOK_CONFIGURATIONS)
        return found

    @property
    def called(self) -> bool:
        return serves_pods(self.configuration)

    @property
    def state(self) -> str:
        return self.configuration.metadata.annotations[STATE]

    async def start(self) -> None:
        metrics = CollectorRegistry()
        self.health = Health(configuration_hash="", metrics=metrics)
        webhook = self.files.settings(443)
        own = AnnotatorSettings(hints=HintWriteSettings(admission="webhook", webhook=webhook))
        runtime = Runtime(
            configuration=Configuration(shared=Shared(), own=own, hash=""), clock=self.clock, health=self.health,
            metrics=metrics, identity="one", api_server=self.kube,
        )  # fmt: skip
        guard = WebhookGuard(runtime, is_ours=lambda _: self.ours, hinted=lambda: self.hinted)
        self.task = asyncio.create_task(guard.run())
        await self.clock.advance(0)

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait([self.task])

    async def serving(self) -> None:
        """Until it is called."""
        await self.start()
        await self.clock.advance(HEALTHY_SECONDS + PERIOD)
        assert self.called


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    world = World(tmp_path)
    yield world
    await world.stop()


async def test_a_new_webhook_is_called_after_a_healthy_minute(world: World) -> None:
    """Until then, only for the probes. That it is new is no problem."""
    await world.start()
    await world.clock.advance(HEALTHY_SECONDS - PERIOD)
    assert (False, NOT_CALLED_YET) == (world.called, world.state)
    assert [] == world.health.problems
    await world.clock.advance(2 * PERIOD)

    assert world.called
    assert ["web"] == hinted_namespaces(world.configuration)
    assert world.files.ca == ca_of(world.configuration)
    assert world.state.startswith("called since 20")


async def test_a_webhook_that_does_not_respond_is_removed_within_fifteen_seconds(world: World) -> None:
    await world.serving()
    world.seconds, world.responds = 1.0, False
    await world.clock.advance(15)

    assert not world.called
    assert [PROBE_WEBHOOK] == [each["name"] for each in world.configuration.webhooks]
    assert "new pods waited 1.0 s for it" in world.state
    assert any("the webhook is not called since" in each for each in world.health.problems)


async def test_a_removed_webhook_is_restored_after_a_healthy_minute(world: World) -> None:
    """Not earlier: a network that fails again and again delays no pods meanwhile."""
    await world.serving()
    world.seconds, world.responds = 1.0, False
    await world.clock.advance(120)
    world.seconds, world.responds = 0.0, True
    await world.clock.advance(HEALTHY_SECONDS - PERIOD)
    assert not world.called
    await world.clock.advance(3 * PERIOD)

    assert world.called
    assert [] == world.health.problems


async def test_a_slow_api_server_is_no_slow_webhook(world: World) -> None:
    """What every pod takes, for example because of other webhooks, does not count."""
    await world.serving()
    world.base = 3.0
    await world.clock.advance(60)

    assert world.called


async def test_a_webhook_that_is_not_reached_is_a_problem(world: World) -> None:
    """It delays no pods, and is called again as soon as it is there."""
    await world.serving()
    world.responds = False
    await world.clock.advance(60)
    assert world.called
    assert any("does not reach the webhook, or does not trust" in each for each in world.health.problems)
    world.responds = True
    await world.clock.advance(PERIOD)

    assert [] == world.health.problems


async def test_another_replica_does_nothing_until_it_is_its_turn(world: World) -> None:
    """It then continues with the state in the configuration."""
    await world.serving()
    world.ours = False
    world.seconds, world.responds = 1.0, False
    await world.clock.advance(60)
    assert world.called
    assert [] == world.health.problems
    world.ours = True
    await world.clock.advance(15)

    assert not world.called


async def test_after_a_start_the_namespaces_of_the_configuration_remain(world: World) -> None:
    """While the hints of most namespaces were not received yet; for as long as hints are valid."""
    world.hinted = ["api", "web"]
    await world.serving()
    await world.stop()
    world.hinted = ["web"]
    await world.start()
    await world.clock.advance(60)
    assert ["api", "web"] == hinted_namespaces(world.configuration)
    await world.clock.advance(AnnotatorSettings().hints.validity)

    assert ["web"] == hinted_namespaces(world.configuration)


async def test_nothing_is_written_while_nothing_changes(world: World) -> None:
    await world.serving()
    before = world.configuration.metadata.resource_version
    await world.clock.advance(300)

    assert before == world.configuration.metadata.resource_version


async def test_an_exchanged_ca_is_given_to_the_api_server(world: World) -> None:
    """From the file that the Secret is mounted as, within one probe."""
    await world.serving()
    before = world.files.ca
    world.files.issue()
    await world.clock.advance(PERIOD)

    assert world.files.ca != before
    assert world.files.ca == ca_of(world.configuration)
    assert world.called


async def test_what_somebody_else_wrote_is_repaired(world: World) -> None:
    """A CA, a namespace, or all webhooks."""
    await world.serving()
    expected = world.configuration.webhooks
    changed = [each | {"clientConfig": each["clientConfig"] | {"caBundle": ""}} for each in expected]
    for wrong in (changed, [], expected[1:]):
        metadata = world.configuration.metadata
        world.kube.put(WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=metadata, webhooks=wrong))
        await world.clock.advance(PERIOD)

        assert expected == world.configuration.webhooks


@pytest.mark.parametrize("content", [None, b"", b"no certificate"])
async def test_without_a_readable_ca_the_webhook_can_still_be_removed(world: World, content: bytes | None) -> None:
    """With the CA that is in use. The problem names the file."""
    await world.serving()
    before = ca_of(world.configuration)
    path = world.files.folder / "ca.crt"
    path.unlink() if content is None else path.write_bytes(content)
    world.seconds, world.responds = 1.0, False
    await world.clock.advance(15)

    assert (False, before) == (world.called, ca_of(world.configuration))
    assert any("annotator.hints.webhook.caFile" in each for each in world.health.problems)


async def test_without_a_ca_nothing_is_written(world: World) -> None:
    (world.files.folder / "ca.crt").unlink()
    await world.start()
    await world.clock.advance(30)

    assert [] == world.configuration.webhooks
    assert any("ca.crt has no certificates" in each for each in world.health.problems)


async def test_a_missing_configuration_is_named(world: World) -> None:
    """And used once it is there."""
    found = world.configuration
    world.kube.remove(WEBHOOK_CONFIGURATIONS, NAME)
    await world.start()
    assert any("there is no MutatingWebhookConfiguration" in each for each in world.health.problems)
    world.kube.put(WEBHOOK_CONFIGURATIONS, found)
    await world.clock.advance(HEALTHY_SECONDS + 2 * PERIOD)

    assert world.called


@pytest.mark.parametrize("status", [0, 403, 429, 500])
async def test_a_webhook_that_nobody_could_measure_for_half_a_minute_is_removed(world: World, status: int) -> None:
    """Nobody would notice that pods wait for it. It is restored by a healthy minute."""
    await world.serving()
    world.kube.refuse("create", status=status, resource="pods")
    await world.clock.advance(UNKNOWN_SECONDS - 2 * PERIOD)
    assert world.called
    assert any("it is unknown whether the webhook of hints responds" in each for each in world.health.problems)
    await world.clock.advance(3 * PERIOD)
    assert not world.called
    assert "s it was unknown whether it responds: " in world.state
    assert "by the test" in world.state
    world.kube.clear_faults()
    await world.clock.advance(HEALTHY_SECONDS - PERIOD)
    assert not world.called
    await world.clock.advance(3 * PERIOD)

    assert world.called


async def test_a_ca_that_the_api_server_refuses_does_not_keep_the_webhook(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is removed with the CA in use."""
    await world.serving()
    before, replace = ca_of(world.configuration), world.kube.replace

    async def refuse(resource: Resource[WebhookConfiguration], value: WebhookConfiguration) -> WebhookConfiguration:
        if ca_of(value) != before:
            raise error_for_status(422, "Invalid", "caBundle")
        return await replace(resource, value)

    monkeypatch.setattr(world.kube, "replace", refuse)
    world.files.issue()
    await world.clock.advance(UNKNOWN_SECONDS + 2 * PERIOD)

    assert (False, before) == (world.called, ca_of(world.configuration))
    assert "caBundle" in world.state


async def test_a_probe_that_never_ends_is_no_probe(world: World) -> None:
    """As with another webhook that is slow."""
    await world.serving()
    world.base = 60.0
    await world.clock.advance(UNKNOWN_SECONDS + 4 * PERIOD)

    assert not world.called
    assert "no response within" in world.state


async def test_a_refused_pod_still_shows_that_the_webhook_is_slow(world: World) -> None:
    """A policy refuses it after the webhooks were called."""
    await world.serving()
    admit = world.admit

    async def refuse(value: Object) -> Object:
        await admit(value)
        raise error_for_status(403, "Forbidden", "the policy")

    world.kube.admit = refuse
    world.seconds, world.responds = 1.0, False
    await world.clock.advance(15)

    assert not world.called
    assert "new pods waited 1.0 s for it" in world.state


async def test_a_conflict_is_tried_again_at_once(world: World) -> None:
    """Pods wait until it is removed."""
    await world.serving()
    world.seconds, world.responds = 1.0, False
    world.kube.fail_next("replace", status=409, resource=WEBHOOK_CONFIGURATIONS.plural)
    await world.clock.advance(18)

    assert not world.called


async def test_annotations_of_others_remain(world: World) -> None:
    """Helm finds its release by them."""
    metadata = ObjectMeta(name=NAME, annotations={"meta.helm.sh/release-name": "equipoise"}, labels={"a": "b"})
    world.kube.put(WEBHOOK_CONFIGURATIONS, WebhookConfiguration(metadata=metadata))
    await world.serving()

    found = world.configuration.metadata
    assert "equipoise" == found.annotations["meta.helm.sh/release-name"]
    assert {"a": "b"} == found.labels
    assert datetime.fromtimestamp(NOW, UTC).strftime("%Y") in found.annotations[STATE]


def test_the_ca_is_encoded_as_the_api_server_expects() -> None:
    [probe, pods] = webhooks(ca=b"PEM", namespace="equipoise-system", port=443, hinted=["web"])

    assert b"PEM" == base64.b64decode(probe["clientConfig"]["caBundle"])
    assert PODS_WEBHOOK == pods["name"]
