"""Alerts on one real service with what it talks to: kube-scheduler, nats-server, or a ledger in its states."""

from pathlib import Path

import aiohttp
import pytest
from binder.worlds import GENEROUS, OWN, World
from builders import NOW
from monitored.promtool import needs_promtool
from monitored.scrapes import Scrapes
from msgspec.structs import replace
from prometheus_client import CollectorRegistry
from scorer.conftest import start
from scorer.extender_bodies import a_body
from scorer.running import Running, Start, fill, settings_for
from scorer.test_tls import TWO_PERIODS
from scorer.test_tls import World as Certificates
from tls_worlds import NOW as TODAY
from tls_worlds import TlsWorld

from equipoise.binder.decisions.limits import UnusualRate
from equipoise.binder.shell.ledger_store import pause
from equipoise.runtime.bus.errors import BusErrors
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

__all__ = ["start"]

pytestmark = [*needs_promtool, pytest.mark.weekly]


async def post(running: Running, session: aiohttp.ClientSession, body: object) -> None:
    async with session.post(f"{running.url}/prioritize", json=body) as response:
        await response.read()


async def scrape_requests(running: Running, *, valid: int, invalid: int, minutes: int) -> Scrapes:
    """So many requests in each minute."""
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
