"""Finds the source of metrics once. Services use it until somebody deletes the ConfigMap or configures another one.

A tenant may call a Service `prometheus`, and would then decide which nodes are hot. Only a Prometheus whose own account
may read the metrics of nodes is used, because only an administrator of the cluster can give it that permission.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import msgspec
import yaml

from equipoise.cli.cluster_now.reading import PrometheusUnusable, detected_profile
from equipoise.cli.effective.adopted import without_private
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.prepare.created_objects import DISCOVERED
from equipoise.cli.prepare.metrics_server import has_metrics_server
from equipoise.cli.prometheus.trusted import known_servers, names_of
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.runtime.configuration import API_VERSION, KIND
from equipoise.runtime.kubernetes.client import NODES, Kube
from equipoise.runtime.process.clock import Clock

WAIT_SECONDS = 60.0
"""The time for which a Prometheus that is just starting is awaited."""

RETRY_PERIOD = 5.0

REPEAT = f"delete the ConfigMap {DISCOVERED}, run `helm upgrade`, and restart the collector"

CHOOSE = "set config.collector.prometheus.url (and profile), which takes precedence"

GIVE_CREDENTIALS = (
    "mount a Secret with its credentials (collector.extraVolumes), and set config.collector.prometheus.url, profile, "
    "and bearerTokenFile or basicAuthentication (docs/install.md)"
)

ProfileDetection = Callable[[CollectorSettings, LoadSettings, Sequence[Node], Clock], Awaitable[str]]
"""The profile that fits a Prometheus. Raises CommandFailed, and PrometheusUnusable if it cannot be queried."""


class Discovered(msgspec.Struct, frozen=True, kw_only=True):
    """The source of metrics that was found, and why this one."""

    collector: dict[str, Any]
    """Settings of the section `collector`; empty if there is no source."""

    reason: str
    temporary: bool = False
    """Whether a later attempt may find a Prometheus."""

    fix: str = CHOOSE
    """What can be set in the values so that a Prometheus is used."""

    @property
    def document(self) -> str:
        """The text of a configuration file with this source."""
        sections = {"collector": self.collector} if self.collector else {}
        return yaml.safe_dump({"apiVersion": API_VERSION, "kind": KIND, **sections}, sort_keys=False)


async def discover(
    kube: Kube, settings: AllSettings, clock: Clock, profile_of: ProfileDetection = detected_profile
) -> Discovered:
    """The only Prometheus that may be used, else metrics-server, else nothing. Raises KubeError."""
    end = clock.monotonic() + WAIT_SECONDS
    while True:
        discovered = await _prometheus(kube, settings, clock, profile_of)
        if not discovered.temporary or clock.monotonic() >= end:
            break
        await clock.sleep(RETRY_PERIOD)
    if discovered.collector:
        return discovered
    if await has_metrics_server(kube):
        reason = f"metrics-server is used, because {discovered.reason}. To use a Prometheus, {discovered.fix}"
        if discovered.temporary:
            reason += f"; to search again, {REPEAT}"
        return Discovered(collector={"source": "metrics-server"}, reason=reason)
    reason = (
        f"nothing is measured: {discovered.reason}; the cluster has no metrics-server either. "
        f"{discovered.fix[0].upper()}{discovered.fix[1:]}, or install a Prometheus or metrics-server"
    )
    return Discovered(collector={}, reason=reason, temporary=discovered.temporary)


async def _prometheus(kube: Kube, settings: AllSettings, clock: Clock, profile_of: ProfileDetection) -> Discovered:
    servers = await known_servers(kube)
    trusted, not_used = servers.trusted, servers.not_used
    if not trusted:
        return Discovered(collector={}, reason=f"no Service of the cluster is that of a Prometheus{not_used}")
    if len(trusted) > 1:
        return Discovered(
            collector={}, reason=f"the cluster has several Prometheus servers: {names_of(trusted)}{not_used}"
        )
    [server] = trusted
    if server.port is None:
        reason = f"no pod of Prometheus {server.address} is Ready{not_used}"
        return Discovered(collector={}, reason=reason, temporary=True)
    url = str(server.address)
    # Credentials are for the server that is configured, not for one that is found.
    prometheus = msgspec.structs.replace(without_private(settings.collector.prometheus), url=url)
    collector = msgspec.structs.replace(settings.collector, prometheus=prometheus)
    try:
        profile = await profile_of(collector, settings.shared.load, await kube.list(NODES), clock)
    except PrometheusUnusable as error:
        fix = GIVE_CREDENTIALS if error.refused else CHOOSE
        return Discovered(collector={}, reason=f"{error.problem}{not_used}", temporary=not error.refused, fix=fix)
    except CommandFailed as error:
        return Discovered(collector={}, reason=f"{error.message}{not_used}", temporary=True)
    return Discovered(
        collector={"source": "prometheus", "prometheus": {"url": url, "profile": profile}},
        reason=f"Prometheus {url} has the metrics of this cluster's nodes, profile {profile}{not_used}",
    )
