"""Alerts on one real service with what it talks to: kube-scheduler, nats-server, or a ledger in its states."""

import asyncio
import shutil
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from annotator.worlds import World as Annotators
from binder.campaigns import a_campaign, an_effect
from binder.decisions.surge.test_surge import controllers_of, seconds, surging
from binder.test_campaign_in_service import publish_evaluation
from binder.worlds import GENEROUS, OWN, World
from builders import NOW, nodes_being_emptied
from bus_worlds import NatsWorld, eventually, free_port
from descheduler.cluster import Cluster
from e2e.running_webhook import WebhookFiles, running_webhook
from kube_objects import a_deployment, a_pod, a_replica_set
from monitored.promtool import needs_promtool
from monitored.scrapes import Scrapes
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from runtime.bus.test_bus_nats import signal_server
from scorer.conftest import start
from scorer.extender_bodies import a_body
from scorer.running import Running, Start, fill, settings_for
from scorer.shell.test_tls import TWO_PERIODS
from scorer.shell.test_tls import World as Certificates
from tls_worlds import NOW as TODAY
from tls_worlds import TlsWorld

from equipoise.annotator.shell.taint_writer import CHECK_PERIOD
from equipoise.binder.decisions.limits import UnusualRate
from equipoise.binder.shell import campaign_store
from equipoise.binder.shell.ledger_store import pause
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint
from equipoise.contracts.kubernetes.objects.metadata import Condition
from equipoise.contracts.messages.health import REAL, Heartbeat
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.permissions import USERS, permission_file
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Nats
from equipoise.runtime.kubernetes.client import DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.health import Health
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

__all__ = ["start"]

pytestmark = [*needs_promtool, pytest.mark.weekly]


async def post(running: Running, session: aiohttp.ClientSession, body: object) -> None:
    async with session.post(f"{running.url}/prioritize", json=body) as response:
        await response.read()


async def scrape_requests(running: Running, *, valid: int, invalid: int, minutes: int) -> Scrapes:
    """This many requests in each minute."""
    scrapes = Scrapes(NOW)
    async with aiohttp.ClientSession() as session:
        for _ in range(minutes):
            for body in [a_body()] * valid + [{"Pod": 1}] * invalid:
                await post(running, session, body)
            scrapes.take({"scorer": running.metrics})
    return scrapes


def own(scrapes: Scrapes, folder: Path) -> set[str]:
    """Without the alert that the other services are not there."""
    return scrapes.firing(folder) - {"EquipoiseServiceDown"}


async def test_requests_with_errors(start: Start, tmp_path: Path) -> None:
    """One of three has another format."""
    running = await start()
    await fill(running)

    assert own(await scrape_requests(running, valid=2, invalid=1, minutes=30), tmp_path) == {"EquipoiseExtenderErrors"}


async def test_scores_without_data(start: Start, tmp_path: Path) -> None:
    """No message was received, so that the scorer is not ready either."""
    running = await start()

    found = own(await scrape_requests(running, valid=1, invalid=0, minutes=45), tmp_path)

    assert found - {"EquipoiseReplicaNotReady"} == {"EquipoiseScoresNeutral"}


async def test_scores_with_data(start: Start, tmp_path: Path) -> None:
    """Nothing but valid requests."""
    running = await start()
    await fill(running)

    assert own(await scrape_requests(running, valid=1, invalid=0, minutes=45), tmp_path) == set()


async def test_a_certificate_of_one_day_and_clients_without_one(start: Start, tmp_path: Path) -> None:
    """Three handshakes fail in each minute."""
    certificates = Certificates(tmp_path)
    running = await start(settings_for(tls=certificates.files.tls))
    scrapes = Scrapes(TODAY)
    async with aiohttp.ClientSession() as session:
        for _ in range(65):
            for _ in range(3):
                with pytest.raises(aiohttp.ClientError):
                    await session.post(f"https://127.0.0.1:{running.port}/", ssl=certificates.caller())
            scrapes.take({"scorer": running.metrics})

    assert own(scrapes, tmp_path) - {"EquipoiseReplicaNotReady"} == {
        "EquipoiseExtenderCertificateExpires",
        "EquipoiseExtenderHandshakesFail",
    }


async def test_changed_certificates_that_are_invalid(start: Start, tmp_path: Path) -> None:
    """The scorer goes on with the previous ones."""
    certificates = Certificates(tmp_path)
    running = await start(settings_for(tls=certificates.files.tls))
    certificates.files.put_bytes(b"no certificate", b"no key", b"no authority")
    await running.clock.advance(TWO_PERIODS)
    scrapes = Scrapes(TODAY)
    scrapes.take({"scorer": running.metrics}, times=15)

    assert own(scrapes, tmp_path) == {"EquipoiseCertificatesInvalid"}


async def test_hints_without_a_policy_that_adds_them(tmp_path: Path) -> None:
    """They are enabled, but k8s/hints is not applied."""
    world, scrapes = Annotators(), Scrapes(NOW)
    await world.begin(hints=True)
    scrapes.take({"annotator": world.metrics["annotator-1"]}, times=20)
    await world.end("annotator-1")

    assert own(scrapes, tmp_path) - {"EquipoiseReplicaNotReady"} == {"EquipoiseHintsNotWritten"}


async def test_a_taint_that_the_api_server_refuses(tmp_path: Path) -> None:
    """A node is to be emptied, but k8s/consolidation is not applied."""
    world, scrapes = Annotators(), Scrapes(NOW)
    world.add_node()
    world.kube.fail_next("taint", status=422, message="denied by equipoise-annotator-fence", times=None)
    await world.begin()
    await world.bus.publish(subjects.NODES_EMPTYING, nodes_being_emptied("node-a", at=world.clock.now()))
    await world.clock.advance(CHECK_PERIOD)
    scrapes.take({"annotator": world.metrics["annotator-1"]}, times=20)
    await world.end("annotator-1")

    assert own(scrapes, tmp_path) - {"EquipoiseReplicaNotReady"} == {"EquipoiseTaintsRefused"}


async def test_an_empty_node_that_no_autoscaler_removes(tmp_path: Path) -> None:
    """The leader has found it with the taint."""
    cluster, scrapes = Cluster(), Scrapes(NOW)
    cluster.health = Health(configuration_hash="", metrics=cluster.registry)
    async with cluster.bus:
        for number in range(3):
            cluster.add_node(f"node-{number}")
        empty = next(node for node in cluster.kube.stored(NODES) if node.metadata.name == "node-2")
        tainted = replace(empty.spec, taints=[consolidation_taint(cluster.clock.now())])
        cluster.kube.put(NODES, replace(empty, spec=tainted))
        for number in range(2):
            cluster.add_app(f"app{number}", {f"app{number}-x": f"node-{number}"}, 1.0)
            await cluster.measure_app(f"app{number}", 1.0, whole_day=True)
        timeout = Duration(300)
        descheduler = cluster.descheduler(consolidation=Consolidation(mode="act", margin=0.0, removal_timeout=timeout))
        await descheduler.attach()
        await cluster.measure()
        leading = asyncio.create_task(descheduler.run())
        for number in range(80):
            at = cluster.clock.now()
            heartbeat = Heartbeat(service="binder", id="b", version="1", ready=True, evictions=REAL, at=at)
            await cluster.bus.publish(subjects.health("binder", "b"), heartbeat)
            await cluster.pass_time(30)
            if number % 2:
                scrapes.take({"descheduler": cluster.registry})
        leading.cancel()
        await asyncio.wait([leading])

    assert own(scrapes, tmp_path) - {"EquipoiseReplicaNotReady"} == {"EquipoiseEmptyNodeNotRemoved"}


async def test_a_certificate_of_nats_of_one_day(tmp_path: Path) -> None:
    world, registry = TlsWorld(tmp_path), CollectorRegistry()
    await world.start()
    try:
        errors = BusErrors(SystemClock(), registry)
        async with open_bus(world.settings, "scorer", SystemClock(), None, errors=errors, reconnect_pause=0.1):
            scrapes = Scrapes(TODAY)
            scrapes.take({"scorer": registry}, times=65)
    finally:
        await world.stop()

    assert own(scrapes, tmp_path) == {"EquipoiseNatsCertificateExpires"}


async def test_a_certificate_of_the_webhook_of_hints_of_one_day(tmp_path: Path) -> None:
    files, scrapes = WebhookFiles(tmp_path / "files", "equipoise-system"), Scrapes(TODAY)
    async with running_webhook(MemoryKube(SystemClock()), files.settings(free_port())) as webhook:
        scrapes.take({"hints-webhook": webhook.metrics}, times=65)

    assert own(scrapes, tmp_path) == {"EquipoiseHintsWebhookCertificateExpires"}


async def test_an_unusual_rate_of_evictions_and_a_pause_for_a_day(tmp_path: Path) -> None:
    """Six evictions are proposed at once, where three in ten minutes are not unusual; later evictions are paused."""
    world, scrapes = World(), Scrapes(NOW)
    await world.populate()
    await world.start(world.binder(limits=replace(GENEROUS, unusual_rate=UnusualRate())))
    scrapes.take({"binder": world.metrics})
    await world.propose(*(f"web-{number}" for number in range(1, 4)), *(f"db-{number}" for number in range(1, 4)))
    await world.clock.advance(30)
    scrapes.take({"binder": world.metrics}, times=5)
    first = own(scrapes, tmp_path)
    await pause(world.kube, OWN, "investigating")
    await world.clock.advance(11)
    scrapes.take({"binder": world.metrics}, times=24 * 60 + 2)
    await world.stop()

    assert first == {"EquipoiseUnusualEvictionRate"}
    assert own(scrapes, tmp_path) == {"EquipoiseUnusualEvictionRate", "EquipoiseEvictionsPaused"}


async def test_a_campaign_whose_moves_do_harm(tmp_path: Path) -> None:
    """Two evaluations in a row find it. While it runs, no alert fires."""
    world, scrapes = World(), Scrapes(NOW)
    await world.populate()
    await world.start(world.binder())
    await campaign_store.start(world.kube, OWN, world.clock, a_campaign(observed_at=0.0), lasts=3_600)
    await publish_evaluation(world, 0.6)
    scrapes.take({"binder": world.metrics}, times=5)
    before = own(scrapes, tmp_path)
    for _ in range(2):
        await publish_evaluation(world, 0.7, campaign=an_effect(0.6))
    scrapes.take({"binder": world.metrics}, times=5)
    await world.stop()

    assert before == set()
    assert own(scrapes, tmp_path) == {"EquipoiseCampaignStopped"}


async def test_a_pod_that_cannot_be_given_back_to_its_replica_set(tmp_path: Path) -> None:
    """Its replacement is never ready, and the binder may not patch pods any more."""
    world, scrapes = World(), Scrapes(NOW)
    await world.populate()
    controllers = controllers_of(world)
    await world.start(surging(world))
    scrapes.take({"binder": world.metrics})
    await world.propose("web-1")
    await seconds(world, 10, controllers=controllers)
    world.kube.refuse("annotate", status=403, resource="pods")
    await seconds(world, 320, controllers=controllers)
    scrapes.take({"binder": world.metrics}, times=25)
    await world.stop()

    assert own(scrapes, tmp_path) == {"EquipoisePodDetached"}


class ThrottledClock(ManualClock):
    """Of a process that gets too little CPU: between any two readings of the clock it was not run for 0.2 s."""

    def monotonic(self) -> float:
        self._elapsed += 0.2
        return self._elapsed


async def test_a_scorer_that_gets_too_little_cpu(start: Start, tmp_path: Path) -> None:
    running = await start(clock=ThrottledClock(NOW))
    await fill(running)

    scrapes = await scrape_requests(running, valid=1, invalid=0, minutes=30)

    assert own(scrapes, tmp_path) == {"EquipoiseExtenderSlow"}


async def test_replacements_that_do_not_become_ready(tmp_path: Path) -> None:
    """Three evicted pods are replaced by pods that stay Pending; after five minutes an eviction of another workload is
    refused."""
    world, scrapes = World(), Scrapes(NOW)
    await world.populate()
    world.kube.put(DEPLOYMENTS, a_deployment("api"))
    world.kube.put(REPLICA_SETS, a_replica_set("api"))
    world.kube.put(PODS, a_pod("api-1", owner="api"))
    await world.start(world.binder())
    scrapes.take({"binder": world.metrics}, times=5)
    await world.propose("web-1", "web-2", "db-1")
    for owner, ready in (("web", 8), ("db", 9)):
        world.kube.put(DEPLOYMENTS, a_deployment(owner, ready_replicas=ready, available_replicas=ready))
    for _ in range(4):
        await world.clock.advance(60)
        scrapes.take({"binder": world.metrics})
    before = own(scrapes, tmp_path)
    await world.clock.advance(120)
    await world.publish_cluster(2)
    await world.propose("api-1")
    scrapes.take({"binder": world.metrics})
    await world.stop()

    assert before == set()
    assert own(scrapes, tmp_path) == {"EquipoiseReplacementsLate"}


async def test_a_replacement_that_a_quota_refuses(tmp_path: Path) -> None:
    """The controller reports it, and the next eviction is refused."""
    world, scrapes = World(), Scrapes(NOW)
    await world.populate()
    await world.start(world.binder())
    await world.propose("web-1")
    scrapes.take({"binder": world.metrics}, times=5)
    before = own(scrapes, tmp_path)
    refused = Condition(type="ReplicaFailure", status="True", reason="FailedCreate")
    world.kube.put(DEPLOYMENTS, a_deployment(replicas=9, spec_replicas=10, conditions=[refused]))
    await world.propose("db-1")
    scrapes.take({"binder": world.metrics})
    await world.stop()

    assert before == set()
    assert own(scrapes, tmp_path) == {"EquipoiseReplacementsFailing"}


class ScorerOnNats:
    """A scorer with a user of its own on a real nats-server. Its time is simulated, that of the server is not."""

    def __init__(self, start: Start, folder: Path) -> None:
        self.permissions = permission_file(dict.fromkeys(USERS, "secret"))
        self.server = NatsWorld(folder / "nats", self.permissions)
        self.scrapes = Scrapes(NOW)
        self._start = start
        self._password = folder / "password"
        self._clock = ManualClock(NOW)
        self._metrics = CollectorRegistry()
        self.errors = BusErrors(self._clock, self._metrics)

    def settings(self, user: str) -> Nats:
        return Nats(url=self.server.settings.url, user=user, password_file=str(self._password))

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        self._password.write_text("secret")
        await self.server.start()
        try:
            await setup_streams(self.settings("setup"), intent_max_age=60)
            async with open_bus(self.settings("scorer"), "scorer", self._clock, None, errors=self.errors) as bus:
                scorer = await self._start(bus=bus, clock=self._clock)
                self.scrapes.take({"scorer": scorer.metrics, "nats": self._metrics}, times=5)
                yield
                await scorer.stop()
        finally:
            await self.server.stop()

    async def pass_minutes(self, minutes: int, *, repeated: str = "") -> None:
        """`repeated`: the kind of the error that occurs again in each of them."""
        for _ in range(minutes):
            await self._pass_minute(repeated)
            self.scrapes.take({"nats": self._metrics})

    async def _pass_minute(self, repeated: str) -> None:
        before = self.errors.total(repeated)
        await self._clock.advance(60)
        if repeated:
            await eventually(lambda: self.errors.total(repeated) > before)


async def test_a_nats_that_lost_its_disk(start: Start, tmp_path: Path) -> None:
    """It has no streams."""
    world = ScorerOnNats(start, tmp_path)
    async with world.running():
        await world.server.stop()
        shutil.rmtree(world.server.directory / "jetstream")
        await world.server.start()
        await world.pass_minutes(17, repeated="follow")

    assert own(world.scrapes, tmp_path) == {"EquipoiseStreamBroken"}


async def test_permissions_of_another_version(start: Start, tmp_path: Path) -> None:
    """In which scorers did not subscribe to intents."""
    world = ScorerOnNats(start, tmp_path)
    async with world.running():
        scorer = world.permissions.index("user: scorer")
        intents = f'          "{subjects.PREFIX}.eviction.intent.*.*"\n'
        other = world.permissions[:scorer] + world.permissions[scorer:].replace(intents, "", 1)
        (world.server.directory / "nats-server.conf").write_text(other)
        signal_server(world.server, signal.SIGHUP)
        await eventually(lambda: world.errors.total("permission") == 1)
        await world.pass_minutes(17)

    assert own(world.scrapes, tmp_path) == {"EquipoiseBusPermissionMissing"}
