"""`equipoise doctor` checks what services run with: not the defaults, and not a file that nobody reads."""

from typing import Any

import pytest
from builders import NOW
from bus_worlds import free_port
from cli.buses import Bus
from cli.http_clusters import HttpCluster
from cli.test_effective import limits, published
from msgspec.structs import replace

from equipoise.cli.doctor.checks.configuration import FILE_FIX, ROLLOUT_FIX, SERVICE_FIX, configuration
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.effective.adopted import adopted_settings, usable_here
from equipoise.cli.effective.settings import default_settings
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.settings import BasicAuthentication, PrometheusSettings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.redaction import REDACTED
from equipoise.contracts.messages.health import EffectiveConfiguration
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.configuration import Kubernetes, Nats, Shared
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


def test_the_settings_that_run_replace_those_of_the_command() -> None:
    """Sections of services that do not run remain; so do the connections of the command."""
    own = AllSettings(shared=Shared(nats=Nats(url="nats://here:1"), kubernetes=Kubernetes(context="home")))
    prometheus = {**default_settings()["collector"]["prometheus"], "url": "http://prometheus.monitoring.svc:9090"}
    found, services = adopted_settings(own, [published("collector-1", prometheus=prometheus)], NOW)
    assert services == ["collector"]
    assert found.collector.prometheus.url == "http://prometheus.monitoring.svc:9090"
    assert (found.shared.nats.url, found.shared.kubernetes.context) == ("nats://here:1", "home")
    assert found.binder == own.binder
    assert adopted_settings(own, [published("collector-1", at=NOW - 999)], NOW) == (own, []), "it is gone"


def test_credentials_that_are_only_where_the_collector_runs_are_not_used() -> None:
    """Nor what was left out when they were published; each is named."""
    basic = BasicAuthentication(username="me", password_file="/in/the/pod")
    settings = PrometheusSettings(
        headers={"Authorization": REDACTED, "X": "1"},
        ca_file="/here",
        cert_file="/in",
        key_file="/in",
        basic_authentication=basic,
    )
    found, missing = usable_here(settings, lambda name: name == "/here")
    assert found == PrometheusSettings(headers={"X": "1"}, ca_file="/here")
    assert missing == ["headers.Authorization", "basicAuthentication (/in/the/pod)", "cert file /in", "key file /in"]
    assert usable_here(PrometheusSettings()) == (PrometheusSettings(), [])


@pytest.mark.parametrize("given", [False, True])
async def test_prometheus_is_the_one_that_the_collector_uses(bus: Bus, cluster: HttpCluster, given: bool) -> None:
    """After Helm, doctor once tried http://prometheus:9090, the default. An option overrides it."""
    now = SystemClock().now()
    url, other = f"http://127.0.0.1:{free_port()}", f"http://127.0.0.1:{free_port()}"
    prometheus = {**default_settings()["collector"]["prometheus"], "url": url}
    message: EffectiveConfiguration = replace(published("collector-1", prometheus=prometheus), at=now, started_at=now)
    async with open_bus(bus.settings("collector"), "collector", SystemClock(), None) as collector:
        await collector.publish(subjects.configuration("collector", "collector-1"), message)
    options = ("--prometheus", other) if given else ()
    _, output = await bus.run("doctor", *options, KUBECONFIG=str(cluster.file))
    assert f"{other if given else url}: does not respond" in output, output
    assert "http://prometheus:9090" not in output
    assert "checking what runs: the published configuration of collector" in output
