"""Which profile of queries fits a Prometheus: the one whose metrics it has, of nodes of this cluster."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.profiles.query_profile import MemoryKind, QueryProfile
from equipoise.collector.decisions.query import MetricQuery, ResourceName, Sample, SourceError, Subject
from equipoise.collector.settings import PrometheusSettings
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.configuration.env_overrides import overridden
from equipoise.runtime.configuration.loading import all_sections
from equipoise.runtime.process.clock import Clock

SCRAPE_FIX = (
    "let it scrape /metrics/resource of the kubelets with a label that has the node's name, or node-exporter, cAdvisor "
    "and kube-state-metrics as kube-prometheus-stack does (docs/metrics.md)"
)
LABEL_FIX = (
    "add the label that has the node's name to collector.prometheus.nodeLabels, or to the scrape job; check "
    "that this Prometheus has this cluster (collector.prometheus.matchers)"
)


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


async def match_profile(source: MetricSource, names: Collection[str] | None, at: float) -> ProfileMatch:
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


async def match_profiles(
    settings: PrometheusSettings,
    names: Collection[str] | None,
    *,
    memory: MemoryKind,
    clock: Clock,
    without: Collection[str] = (),
) -> dict[str, ProfileMatch]:
    """The match of every profile that measures this kind of memory, except those of `without`.

    Ends with one that has pods and all nodes: none is better. Not of `custom`, which has no queries of its own. Raises
    SourceError if Prometheus does not respond.
    """
    found: dict[str, ProfileMatch] = {}
    for name in PROFILES:
        if name == "custom" or name in without or memory not in _profile(name).memory:
            continue
        changed = msgspec.structs.replace(settings, profile=name, custom=CustomQueries())
        source = PrometheusSource(changed, memory=memory, clock=clock)
        try:
            found[name] = match = await match_profile(source, names, await source.time())
        finally:
            source.close()
        if match.matches and match.pods and names is not None and min(match.nodes.values()) == len(names):
            break
    return found


def best_profile(matches: Mapping[str, ProfileMatch]) -> str | None:
    """One that measures pods before one that does not, then one with more nodes, then the first; None: none fits."""
    fitting = [name for name, match in matches.items() if match.matches]
    return max(
        fitting, key=lambda name: (matches[name].pods > 0, min(matches[name].nodes.values())), default=None
    )  # of equal ones, max() takes the first


def no_profile_problem(matches: Mapping[str, ProfileMatch], memory: MemoryKind) -> tuple[str, str]:
    """Why no profile fits, in one sentence, and what to do."""
    foreign = next(((name, match.foreign_series) for name, match in matches.items() if match.foreign_series), None)
    if foreign is not None:
        return f"profile {foreign[0]}: no series has a node of this cluster; one has {foreign[1]}", LABEL_FIX
    problems = [
        f"profile {name} cannot be queried: {match.problem}" for name, match in matches.items() if match.problem
    ]
    if problems:
        return "; ".join(problems), "check the limits and the log of Prometheus"
    missing = (f"{' and '.join(_missing(name, match, memory))} ({name})" for name, match in matches.items())
    return f"no profile fits, because these series are missing: {', '.join(missing)}", SCRAPE_FIX


def _missing(name: str, match: ProfileMatch, memory: MemoryKind) -> list[str]:
    """The series of nodes that a profile reads and Prometheus does not have."""
    profile = _profile(name)
    of_nodes = {"cpu": profile.cpu["node"], "memory": profile.memory[memory]["node"]}
    return [of_nodes[resource].metric for resource in RESOURCES if not match.nodes.get(resource)]


def _profile(name: str) -> QueryProfile:
    return PROFILES[name](CustomQueries())


def configured_profile(document: Mapping[str, Any], environment: Mapping[str, str]) -> str | None:
    """The profile that the configuration or a variable names; None: only the default applies.

    Raises ConfigurationError.
    """
    section: Any = overridden(document, environment, all_sections(SERVICE_SETTINGS), ())
    for name in ("collector", "prometheus", "profile"):
        section = section.get(name) if isinstance(section, dict) else None
    return section if isinstance(section, str) else None
