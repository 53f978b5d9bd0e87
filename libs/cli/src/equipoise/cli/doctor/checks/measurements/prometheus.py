"""Checks that the metrics source responds and has the metrics of the configured profile."""

from collections.abc import Mapping, Sequence

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.prepare.created_objects import DISCOVERED, StoredSource, stored_source
from equipoise.cli.prometheus.profiles import (
    LABEL_FIX,
    ProfileMatch,
    best_profile,
    match_current,
    match_profile,
    match_profiles,
    no_profile_problem,
)
from equipoise.collector.decisions.profiles.query_profile import MemoryKind
from equipoise.collector.decisions.query import SourceError
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import KubeError

QUERY_FIXES: Mapping[str, str] = {
    "prometheus": "check collector.prometheus.url (or --prometheus URL) from this machine, and its authentication",
    "load-watcher": "check collector.loadWatcher.url from this machine, and the metrics source of load-watcher",
    "metrics-server": "check that metrics-server is installed and `kubectl top nodes` works for this user",
}

SLOW_SECONDS = 2.0
"""The simplest query takes some milliseconds."""

SLOW_FIX = "check its CPU and memory, and what else queries it: loads are measured more seldom"

CREDENTIALS_FIX = "run `helm test`, which checks it in the cluster, or give --config FILE with files on this machine"

UNCONFIRMED_FIX = "give the URL that is right with --prometheus URL, or the configuration with --config FILE"

SEARCH_AGAIN = (
    f"set collector.prometheus.url; or, to search again, delete the ConfigMap {DISCOVERED}, run `helm upgrade`, and "
    "restart the collector"
)

PODS_FIX = (
    "wait for one window after a start of Prometheus; else scrape the pods more often, or configure a longer shortest "
    "window (load.windows)"
)

_POLLED_FIXES: Mapping[str, str] = {
    "load-watcher": "check the metrics source of load-watcher: /watcher must have the nodes by their Kubernetes names",
    "metrics-server": "check that `kubectl top nodes` has the nodes; the log of metrics-server names failing kubelets",
}
"""What to do about missing nodes, for sources without profiles."""


async def prometheus(environment: Environment) -> list[Finding]:
    collector = environment.settings.collector
    named = collector.names_source and collector.source != "metrics-server" and not environment.prometheus_was_found
    stored = None if named else await _stored_source(environment)
    if stored is None or stored.is_prometheus:
        return await _source(environment)
    if not collector.names_source and not environment.prometheus_problem:
        return [Finding("error", "source of metrics", stored.reason, SEARCH_AGAIN)]  # nobody configured its default URL
    return [*await _source(environment), Finding("warning", "source of metrics", stored.reason, SEARCH_AGAIN)]


async def _stored_source(environment: Environment) -> StoredSource | None:
    """The source of metrics that the installation found; None if that is not known."""
    try:
        return await stored_source(environment.api(), environment.settings.shared.kubernetes.namespace)
    except KubeError:
        return None


async def _source(environment: Environment) -> list[Finding]:
    settings, memory = environment.settings.collector, environment.settings.shared.load.memory
    has_profiles = settings.source == "prometheus"
    subject = settings.prometheus.shown_url if has_profiles else settings.source
    chosen = settings.prometheus.profile if has_profiles else settings.source
    if environment.prometheus_problem:
        return [Finding("error", "Prometheus", environment.prometheus_problem)]
    if environment.unconfirmed_url:
        return [Finding("unknown", settings.source, environment.unconfirmed_url, UNCONFIRMED_FIX)]
    try:
        async with environment.open_source() as source:
            begun = environment.clock.monotonic()
            await source.time()
            seconds = environment.clock.monotonic() - begun
            nodes = await _nodes(environment)
            load, interval = environment.settings.shared.load, settings.scrape_interval
            matched = match_profile(source, nodes, load, interval) if has_profiles else match_current(source, nodes)
            profiles = {chosen: await matched}
    except ConfigurationError as error:
        return [Finding("error", subject, str(error), "correct the configuration")]
    except KubeError as error:
        return [Finding("unknown", subject, f"not checked: {error}")]
    except SourceError as error:
        if environment.unused_credentials:
            credentials = ", ".join(environment.unused_credentials)
            message = f"not checked, because only the collectors have {credentials}: {error}"
            return [Finding("unknown", subject, message, CREDENTIALS_FIX)]
        return [Finding("error", subject, f"cannot be queried: {error}", QUERY_FIXES[settings.source])]
    if has_profiles and not profiles[chosen].matches:
        profiles |= await _other_profiles(environment, nodes)
    return [response_finding(subject, seconds), profile_finding(subject, chosen, profiles, memory)]


def response_finding(subject: str, seconds: float) -> Finding:
    """How fast the source responded to its simplest query."""
    if seconds < SLOW_SECONDS:
        return Finding("ok", subject, "responds")
    return Finding("warning", subject, f"responds slowly: {seconds:.1f} s for the simplest query", SLOW_FIX)


async def _nodes(environment: Environment) -> list[Node] | None:
    """The nodes of the cluster; None if they are unknown."""
    try:
        return await environment.nodes()
    except KubeError:
        return None


async def _other_profiles(environment: Environment, nodes: Sequence[Node] | None) -> dict[str, ProfileMatch]:
    settings, load = environment.settings.collector, environment.settings.shared.load
    try:
        return await match_profiles(
            settings, nodes, load=load, clock=environment.clock, without=(settings.prometheus.profile,)
        )
    except SourceError:
        return {}  # unlikely: Prometheus has just responded


def profile_finding(
    subject: str, chosen: str, profiles: Mapping[str, ProfileMatch], memory: MemoryKind = "workingSet"
) -> Finding:
    """The finding for the chosen profile, or for a source without profiles. It names another profile that matches."""
    match = profiles[chosen]
    name = chosen if chosen in _POLLED_FIXES else f"profile {chosen}"
    counts = ", ".join(
        f"{resource} of {match.nodes[resource]} nodes"
        if resource in match.nodes
        else f"{resource} of nodes is not measured"
        for resource in RESOURCES
    )
    if match.matches:
        if not all(match.nodes.values()):
            message = f"{name} has series of {min(match.sampled.values())} nodes, and measures none: {match.unknown}"
            return Finding("warning", subject, message, "see the nodes below")
        message = f"{name} matches: {counts}, usage of {match.pods} pods"
        if match.unknown_pods:
            message += f" of {match.sampled_pods}: {match.unknown_pods}"
            return Finding("warning", subject, message, PODS_FIX)
        if match.pods:
            return Finding("ok", subject, message)
        fix = f"measure the pods too ({'; '.join(match.unsupported)})" if match.unsupported else "scrape the pods too"
        fix += ": without it the usage of a pod is unknown"
        return Finding("warning", subject, message, fix)
    if match.problem:
        message = f"{name} cannot be queried: {match.problem}"
    elif match.foreign_series:
        message = f"{name}: no series has a node of this cluster; one has {match.foreign_series}"
    else:
        message = f"{name} has no metrics: {counts}"
    if (best := best_profile(profiles)) is not None:
        fix = f"set collector.prometheus.profile to {best}, which matches"
    elif chosen in _POLLED_FIXES:
        fix = _POLLED_FIXES[chosen]
    elif match.foreign_series:
        fix = LABEL_FIX
    else:
        shipped = {name: profiles[name] for name in profiles if name != "custom"}
        problem, fix = no_profile_problem(shipped, memory)
        fix = fix if match.problem else f"{problem}: {fix}"
    return Finding("error", subject, message, fix)
