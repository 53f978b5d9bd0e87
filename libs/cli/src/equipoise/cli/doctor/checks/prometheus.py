"""The metrics source responds and has the metrics of the configured profile."""

from collections.abc import Mapping

import msgspec

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.query import MetricQuery, ResourceName, Sample, SourceError, Subject
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import KubeError

UNREACHABLE_FIXES: Mapping[str, str] = {
    "prometheus": "check collector.prometheus.url (or --prometheus URL) from this machine, and its authentication",
    "load-watcher": "check collector.loadWatcher.url from this machine, and the metrics source of load-watcher",
    "metrics-server": "check that metrics-server is installed and `kubectl top nodes` works for this user",
}

_POLLED_FIXES: Mapping[str, str] = {
    "load-watcher": "check the metrics source of load-watcher: /watcher must have the nodes by their Kubernetes names",
    "metrics-server": "check that `kubectl top nodes` has the nodes; the log of metrics-server names failing kubelets",
}
"""For sources without profiles."""


class ProfileMatch(msgspec.Struct, frozen=True, kw_only=True):
    """The metrics of a profile that the source has."""

    nodes: Mapping[str, int] = {}
    """Nodes with a live series, by resource that the profile measures."""

    foreign_series: str = ""
    """Labels of a series of an unknown node, if no series belongs to a known one."""

    pods: int = 0
    """Pods with live series of cpu and memory; 0 if one of them is not measured."""

    unsupported: tuple[str, ...] = ()
    """Why queries were skipped that this profile does not support."""

    problem: str = ""
    """Why nothing is known."""

    @property
    def matches(self) -> bool:
        return not self.problem and not self.foreign_series and bool(self.nodes) and all(self.nodes.values())


async def prometheus(environment: Environment) -> list[Finding]:
    settings = environment.settings.collector
    has_profiles = settings.source == "prometheus"
    subject, chosen = (settings.prometheus.url, settings.prometheus.profile) if has_profiles else (settings.source,) * 2
    try:
        async with environment.open_source() as source:
            at = await source.time()
            names = await _node_names(environment)
            profiles: dict[str, ProfileMatch] = {chosen: await match_profile(source, names, at)}
    except ConfigurationError as error:
        return [Finding("error", subject, str(error), "correct the configuration")]
    except KubeError as error:
        return [Finding("unknown", subject, f"not checked: {error}")]
    except SourceError as error:
        return [Finding("error", subject, f"does not respond: {error}", UNREACHABLE_FIXES[settings.source])]
    if has_profiles and not profiles[chosen].matches:
        profiles |= await _other_profiles(environment, names, at)
    return [Finding("ok", subject, "responds"), profile_finding(subject, chosen, profiles)]


async def _node_names(environment: Environment) -> frozenset[str] | None:
    """None if they are unknown."""
    try:
        return frozenset(node.metadata.name for node in await environment.nodes())
    except KubeError:
        return None


async def _other_profiles(environment: Environment, names: frozenset[str] | None, at: float) -> dict[str, ProfileMatch]:
    settings, load = environment.settings.collector, environment.settings.shared.load
    found: dict[str, ProfileMatch] = {}
    for name in PROFILES:
        if name in (settings.prometheus.profile, "custom"):  # custom has no queries unless it is configured
            continue
        try:
            async with environment.open_source(*with_profile(name, settings, load)) as source:
                found[name] = await match_profile(source, names, at)
        except ConfigurationError:
            continue  # it needs settings that are missing
    return found


def with_profile(name: str, settings: CollectorSettings, load: LoadSettings) -> tuple[CollectorSettings, LoadSettings]:
    """The settings with this profile, and with a kind of memory that it measures."""
    changed = msgspec.structs.replace(settings.prometheus, profile=name, custom=CustomQueries())
    kinds = PROFILES[name](changed.custom).memory
    memory = load.memory if load.memory in kinds else next(iter(kinds))
    return msgspec.structs.replace(settings, prometheus=changed), msgspec.structs.replace(load, memory=memory)


async def match_profile(source: MetricSource, names: frozenset[str] | None, at: float) -> ProfileMatch:
    """`names`: the nodes of the cluster; None if they are unknown, then any node counts."""
    nodes: dict[str, int] = {}
    foreign_series = ""
    pods: list[set[tuple[str, str]]] = []
    unsupported: list[str] = []

    async def live(subject: Subject, resource: ResourceName) -> list[Sample] | None:
        query = MetricQuery(subject=subject, resource=resource, aggregate="newest", length=0.0, at=at)
        if reason := source.unsupported(query):
            unsupported.append(reason)
            return None
        return await source.query(query)

    try:
        for resource in RESOURCES:
            if (samples := await live("node", resource)) is not None:
                known = {sample.node for sample in samples if names is None or sample.node in names}
                nodes[resource] = len(known)
                if samples and not known:
                    foreign_series = samples[0].series
            samples = await live("pod", resource)
            pods.append({(sample.namespace, sample.pod) for sample in samples or ()})
    except SourceError as error:
        return ProfileMatch(problem=str(error))
    return ProfileMatch(
        nodes=nodes,
        foreign_series=foreign_series,
        pods=len(set.intersection(*pods)),
        unsupported=tuple(dict.fromkeys(unsupported)),
    )


def profile_finding(subject: str, chosen: str, profiles: Mapping[str, ProfileMatch]) -> Finding:
    """Of the chosen profile, or of a source without profiles; with another profile that matches, if there is one."""
    match = profiles[chosen]
    name = chosen if chosen in _POLLED_FIXES else f"profile {chosen}"
    counts = ", ".join(
        f"{resource} of {match.nodes[resource]} nodes"
        if resource in match.nodes
        else f"{resource} of nodes is not measured"
        for resource in RESOURCES
    )
    if match.matches:
        message = f"{name} matches: {counts}, usage of {match.pods} pods"
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
    others = [name for name, other in profiles.items() if other.matches]
    if others:
        fix = f"set collector.prometheus.profile to {others[0]}, which matches"
    elif chosen in _POLLED_FIXES:
        fix = _POLLED_FIXES[chosen]
    elif match.foreign_series:
        fix = (
            "add the label that has the node's name to collector.prometheus.nodeLabels, or to the scrape job; check "
            "that this Prometheus has this cluster (collector.prometheus.matchers)"
        )
    else:
        fix = f"no profile matches ({', '.join(profiles)}): scrape the kubelets' /metrics/resource with a node label"
    return Finding("error", subject, message, fix)
