"""Alerts on a real cluster: its Prometheus scrapes the processes of the services and evaluates the rules.

Weekly. A rule waits for 1 s where the shipped one waits for minutes or an hour: a fault lasts for seconds here.
"""

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import pytest
from monitoring.alerts import ALERTS
from monitoring.rules import rule
from scorer.extender_bodies import a_body

from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.processes.configuration import PrometheusConfiguration
from faults import cluster_setup
from faults.background import background
from faults.catalog.api_server import refusing_webhook
from faults.catalog.processes import starving
from faults.rig import PROGRAMS, Rig, rig

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
async def scraped(testbed_binaries: Binaries) -> AsyncIterator[Rig]:
    async with rig(testbed_binaries) as started:
        services = [
            {
                "targets": [f"127.0.0.1:{started.port(program)}"],
                "labels": {"namespace": cluster_setup.OWN, "pod": program},
            }
            for program in PROGRAMS
        ]
        rules = [rule(alert) | ({} if alert.lasts == "0m" else {"for": "1s"}) for alert in ALERTS]
        started.cluster.configure_prometheus(
            PrometheusConfiguration(
                scrape_configs=[{"job_name": "equipoise", "static_configs": services}],
                rules=[{"name": "equipoise-alerts", "rules": rules}],
            )
        )
        yield started


@asynccontextmanager
async def no_limit_allows_an_eviction(rig: Rig) -> AsyncIterator[None]:
    """For six hours nothing was evicted: so it is the first fault of this cluster."""
    await rig.start("binder", limits={**cluster_setup.LIMITS, "evictionsPerCluster": {"max": 0}})
    yield


@asynccontextmanager
async def new_pods_refused(rig: Rig) -> AsyncIterator[None]:
    """By a webhook without a server: no evicted pod is replaced."""
    await rig.start("binder", 2)
    await rig.evictions(2)
    async with refusing_webhook(rig):
        yield
    await rig.all_replicas_ready()


@asynccontextmanager
async def stream_deleted(rig: Rig) -> AsyncIterator[None]:
    await rig.start("binder")
    await rig.evictions(1)
    async with rig.jetstream() as streams:
        await streams.delete_stream("EQUIPOISE_INTENT")
    rig.recorder.streams_emptied()
    yield
    await rig.prepare_streams()
    rig.recorder.streams_emptied()


@asynccontextmanager
async def heartbeats_forbidden(rig: Rig) -> AsyncIterator[None]:
    """As by the permissions of a version without them."""
    configuration = rig.cluster.directory / "nats.conf"
    before = configuration.read_text()

    def write(**permissions: object) -> None:
        binder = {"user": "binder", "password": rig.password_file.read_text(), **permissions}
        users = [binder, {"user": "harness", "password": "unused"}]
        configuration.write_text(json.dumps({"authorization": {"users": users}, "no_auth_user": "harness"}))

    async def restart() -> None:
        await asyncio.to_thread(rig.cluster.restart, "nats-server")
        await rig.connected()

    write()
    await restart()
    await rig.start("binder")
    write(permissions={"publish": {"deny": ["equipoise.health.>"]}})
    rig.cluster.kill("nats-server", signal.SIGHUP)
    yield
    rig.stop_programs()
    configuration.write_text(before)
    await restart()
    await rig.start("binder")


@asynccontextmanager
async def scorer_starved(rig: Rig) -> AsyncIterator[None]:
    """It gets a twentieth of a CPU while requests arrive."""
    await rig.start("binder")
    [scorer] = await rig.start("scorer")

    async def send_requests() -> None:
        while True:
            url = f"http://127.0.0.1:{rig.port(f'{scorer.name}-extender')}/prioritize"
            async with rig.http.post(url, json=a_body(NodeNames=list(cluster_setup.NODES))) as response:
                await response.read()

    async with starving([scorer]), background(*(send_requests() for _ in range(4))):
        yield


FAULTS: Mapping[str, tuple[Callable[[Rig], AbstractAsyncContextManager[None]], Collection[str]]] = {
    "no limit allows an eviction": (no_limit_allows_an_eviction, ["EquipoiseIntentsRefused"]),
    "new pods are refused": (new_pods_refused, ["EquipoiseReplacementsLate", "EquipoiseReplacementsFailing"]),
    "a stream is deleted": (stream_deleted, ["EquipoiseStreamBroken"]),
    "heartbeats are forbidden": (heartbeats_forbidden, ["EquipoiseBusPermissionMissing"]),
    "the scorer is starved": (scorer_starved, ["EquipoiseExtenderSlow"]),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_prometheus_fires_the_alert_of_a_fault(scraped: Rig, name: str) -> None:
    """And not before it."""
    fault, expected = FAULTS[name]

    async def all_fire() -> bool:
        return set(expected) <= await firing(scraped)

    before = await firing(scraped)
    async with scraped.running(1, name.replace(" ", "_")), fault(scraped):
        await scraped.until(all_fire, f"{expected} fire")

    assert not before & set(expected)


async def firing(rig: Rig) -> set[str]:
    """Names of the alerts."""
    async with rig.http.get(f"{rig.cluster.prometheus_url}/api/v1/alerts") as response:
        body = await response.json()
    return {alert["labels"]["alertname"] for alert in body["data"]["alerts"] if alert["state"] == "firing"}
