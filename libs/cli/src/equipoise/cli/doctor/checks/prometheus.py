"""The metrics source responds and has the metrics of the configured profile."""

from collections.abc import Collection, Mapping

from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.prometheus.profiles import (
    LABEL_FIX,
    ProfileMatch,
    best_profile,
    match_profile,
    match_profiles,
    no_profile_problem,
)
from equipoise.collector.decisions.profiles.query_profile import MemoryKind
from equipoise.collector.decisions.query import SourceError
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


async def prometheus(environment: Environment) -> list[Finding]:
    settings, memory = environment.settings.collector, environment.settings.shared.load.memory
    has_profiles = settings.source == "prometheus"
    subject, chosen = (
        (settings.prometheus.shown_url, settings.prometheus.profile) if has_profiles else (settings.source,) * 2
    )
    if environment.prometheus_problem:
        return [Finding("error", "Prometheus", environment.prometheus_problem)]
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
        profiles |= await _other_profiles(environment, names)
    return [Finding("ok", subject, "responds"), profile_finding(subject, chosen, profiles, memory)]


async def _node_names(environment: Environment) -> frozenset[str] | None:
    """None if they are unknown."""
    try:
        return frozenset(node.metadata.name for node in await environment.nodes())
    except KubeError:
        return None


async def _other_profiles(environment: Environment, names: Collection[str] | None) -> dict[str, ProfileMatch]:
    settings, memory = environment.settings.collector.prometheus, environment.settings.shared.load.memory
    try:
        return await match_profiles(
            settings, names, memory=memory, clock=environment.clock, without=(settings.profile,)
        )
    except SourceError:
        return {}  # it has just responded


def profile_finding(
    subject: str, chosen: str, profiles: Mapping[str, ProfileMatch], memory: MemoryKind = "workingSet"
) -> Finding:
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
    if (best := best_profile(profiles)) is not None:
        fix = f"set collector.prometheus.profile to {best}, which matches"
    elif chosen in _POLLED_FIXES:
        fix = _POLLED_FIXES[chosen]
    elif match.foreign_series:
        fix = LABEL_FIX
    else:
        shipped = {name: each for name, each in profiles.items() if name != "custom"}
        problem, fix = no_profile_problem(shipped, memory)
        fix = fix if match.problem else f"{problem}: {fix}"
    return Finding("error", subject, message, fix)
