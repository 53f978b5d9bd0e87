"""`equipoise doctor` checks what services run with: not the defaults, and not a file that nobody reads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from builders import NOW
from bus_worlds import free_port
from cli.beating import beating, every_service
from cli.buses import Bus
from cli.effective.test_effective import limits, published
from cli.http_clusters import OWN, HttpCluster
from msgspec.structs import replace

from equipoise.cli.doctor.checks.configuration import FILE_FIX, ROLLOUT_FIX, SERVICE_FIX, configuration
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.effective.settings import default_settings
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.bus.permissions import User
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock

EVERY = ("collector", "scorer", "descheduler", "binder")


async def findings(effective: Any, file: Any = None) -> list[Finding]:
    kube = KubeError(0, "NoCluster", "none")
    return await configuration(
        Environment(settings=AllSettings(), clock=ManualClock(NOW), kube=kube, effective=effective, file=file)
    )


async def test_what_each_service_runs_with_is_known() -> None:
    """The annotator is optional."""
    found = await findings([published(f"{service}-1") for service in EVERY])
    assert {each.state for each in found} == {"ok"}
    assert [each.subject for each in found] == list(EVERY)


async def test_a_service_that_publishes_nothing_is_unknown() -> None:
    found = await findings([])
    assert {(each.state, each.fix) for each in found} == {("unknown", SERVICE_FIX)}
    (problem,) = await findings("not known: no connection")
    assert (problem.state, problem.message) == ("unknown", "not known: no connection")


async def test_replicas_that_differ_and_a_file_that_differs_are_warnings() -> None:
    changed = published("binder-2", limits=limits(startupGracePeriod="0s"))
    found = await findings([published("binder-1"), changed], default_settings())
    warnings = {each.fix: each.message for each in found if each.state == "warning"}
    assert warnings == {
        ROLLOUT_FIX: "binders differ (a change that is being rolled out?): binder-2 and binder-1 "
        "binder.limits.startupGracePeriod: 0s in binder-2, 1h in binder-1",
        FILE_FIX: "the file differs from what binder-2 runs with: binder.limits.startupGracePeriod: 1h in the file, 0s",
    }


async def test_services_that_differ_in_what_they_share_are_a_warning() -> None:
    """The message of the service by which a section is known is used."""
    other = published("scorer-1")
    other.settings["load"] = {**other.settings["load"], "memory": "anonymous"}
    found = await findings([*(published(f"{service}-1") for service in EVERY if service != "scorer"), other])
    assert [each.message for each in found if each.state == "warning"] == [
        "services differ in what they share: collector-1, which is used, and scorer-1 "
        "load.memory: workingSet in collector-1, anonymous in scorer-1"
    ]


@pytest.fixture(scope="module", autouse=True)
async def heartbeats(bus: Bus) -> AsyncIterator[None]:
    """Of every service whose configuration these tests publish: doctor waits for them."""
    async with beating(bus.settings, *every_service(ALL_SERVICES)):
        yield


@pytest.mark.parametrize("given", [False, True])
async def test_prometheus_is_the_one_that_the_collector_uses(bus: Bus, cluster: HttpCluster, given: bool) -> None:
    """After Helm, doctor once tried http://prometheus:9090, the default. An option overrides it."""
    url, other = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    put_collector(cluster, url)
    await publish(bus, "collector", prometheus={"url": url})
    options = ("--prometheus", other) if given else ()
    _, output = await bus.run("doctor", *options, KUBECONFIG=str(cluster.file))
    assert f"{other if given else url}: cannot be queried" in output, output
    assert "http://prometheus:9090" not in output
    assert "checking what runs: the published configuration of collector" in output
    where = f"prometheus {url}, which the collector publishes and the ConfigMap {OWN}/equipoise of pod c-1 has"
    assert (where in output) is not given


def put_collector(cluster: HttpCluster, url: str, **variables: str) -> None:
    """A pod of a collector, with its ConfigMap, in the API server."""
    text = f"""
apiVersion: equipoise.dev/v1alpha1
kind: EquipoiseConfiguration
collector: {{prometheus: {{url: "{url}"}}}}
"""
    env = [{"name": name, "value": value} for name, value in variables.items()]
    spec = {"volumes": [{"configMap": {"name": "equipoise"}}], "containers": [{"env": env}]}
    pod = {"metadata": {"name": "c-1", "namespace": OWN}, "spec": spec}
    cluster.objects[f"/api/v1/namespaces/{OWN}/pods"] = {"kind": "PodList", "metadata": {}, "items": [pod]}
    stored = {"metadata": {"name": "equipoise", "namespace": OWN}, "data": {"equipoise.yaml": text}}
    cluster.objects[f"/api/v1/namespaces/{OWN}/configmaps/equipoise"] = stored


async def publish(bus: Bus, service: User, prometheus: dict[str, Any], section: str = "collector") -> None:
    """As this service, on its own subject, with these settings of Prometheus, which only a collector uses."""
    now, clock = SystemClock().now(), SystemClock()
    settings = default_settings()["collector"]
    settings = {**settings, "prometheus": {**settings["prometheus"], **prometheus}}
    message = replace(published(f"{service}-1"), at=now, started_at=now)
    message.settings[section] = settings
    async with open_bus(bus.settings(service), service, clock, None) as connected:
        await connected.publish(subjects.configuration(service, f"{service}-1"), message)


async def test_no_service_makes_a_command_send_a_file_of_this_machine(
    bus: Bus, cluster: HttpCluster, tmp_path: Path
) -> None:
    """Nor send a request to a URL that only the bus has, which is named instead.

    Whichever service publishes it, for itself or for the collector.
    """
    secret = tmp_path / "token"
    secret.write_text("hunter2")
    async with recording_server() as (url, requests):
        for service in ALL_SERVICES:
            await publish(bus, service, {"url": url, "bearerTokenFile": str(secret)})
        _, output = await bus.run("doctor", KUBECONFIG=str(cluster.file))
    assert requests == []
    assert (
        f"not asked: only the message of a collector on the bus states that collector.prometheus.url is {url}" in output
    )


async def test_without_a_collector_nobody_chooses_the_prometheus(
    bus: Bus, cluster: HttpCluster, tmp_path: Path
) -> None:
    secret = tmp_path / "token"
    secret.write_text("hunter2")
    async with recording_server() as (url, requests):
        for service in (each for each in ALL_SERVICES if each != "collector"):
            await publish(bus, service, {"url": url, "bearerTokenFile": str(secret)})
        _, output = await bus.run("doctor", KUBECONFIG=str(cluster.file))
    assert requests == []
    assert url not in output


@pytest.mark.parametrize("configured", [False, True])
async def test_a_url_that_the_api_server_has_too_is_asked_without_files_and_credentials_of_the_bus(
    bus: Bus, cluster: HttpCluster, tmp_path: Path, configured: bool
) -> None:
    """Nor with those of this command, which are for another URL."""
    secret = tmp_path / "token"
    secret.write_text("hunter2")
    own = {"EQUIPOISE_COLLECTOR__PROMETHEUS__BEARER_TOKEN_FILE": str(secret)} if configured else {}
    async with recording_server() as (url, requests):
        put_collector(cluster, url)
        stolen = {"bearerTokenFile": str(secret), "headers": {"X-Api-Key": "of the bus"}}
        await publish(bus, "collector", {"url": url, **stolen})
        _, output = await bus.run("doctor", KUBECONFIG=str(cluster.file), **own)
    assert requests, output
    assert not any({"Authorization", "X-Api-Key"} & set(headers) for headers in requests)
    assert "not used: collector.prometheus.bearerTokenFile, collector.prometheus.headers of the collector" in output
    [finding] = [line for line in output.splitlines() if "only the collectors have" in line]
    assert finding.startswith("unknown"), "the collectors may measure everything"
    assert "run `helm test`, which checks it in the cluster" in " ".join(output.split())


async def test_an_environment_variable_of_the_collector_confirms_a_url(bus: Bus, cluster: HttpCluster) -> None:
    async with recording_server() as (url, requests):
        put_collector(cluster, "http://other:9090", EQUIPOISE_COLLECTOR__PROMETHEUS__URL=url)
        await publish(bus, "collector", {"url": url})
        await bus.run("doctor", KUBECONFIG=str(cluster.file))
    assert requests


async def test_the_url_of_the_api_server_is_named_beside_another_one_of_the_bus(bus: Bus, cluster: HttpCluster) -> None:
    put_collector(cluster, "http://prometheus.monitoring.svc:9090")
    async with recording_server() as (url, requests):
        await publish(bus, "collector", {"url": url})
        _, output = await bus.run("doctor", KUBECONFIG=str(cluster.file))
    assert requests == []
    assert f"the ConfigMap {OWN}/equipoise of pod c-1 has http://prometheus.monitoring.svc:9090" in output, output


@asynccontextmanager
async def recording_server() -> AsyncIterator[tuple[str, list[dict[str, str]]]]:
    """Its URL, and the headers of every request."""
    requests: list[dict[str, str]] = []

    async def respond(request: web.Request) -> web.Response:
        requests.append(dict(request.headers))
        return web.json_response({})

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", respond)
    async with TestServer(app) as server:
        yield str(server.make_url("")).rstrip("/"), requests
