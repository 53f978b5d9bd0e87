"""Where usage is measured: does it answer, and has it the metrics of the configured profile?"""

from collections.abc import Mapping

import msgspec

from equipoise.cli.doctor.environment import Surroundings
from equipoise.cli.doctor.finding import Finding
from equipoise.collector.decisions.profiles import PROFILES
from equipoise.collector.decisions.profiles.custom import CustomQueries
from equipoise.collector.decisions.query import MetricQuery, ResourceName, Sample, SourceError, Subject
from equipoise.collector.settings import CollectorSettings
from equipoise.collector.sources import MetricSource
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import RESOURCES
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import KubeError

UNREACHABLE: Mapping[str, str] = {
    "prometheus": "is collector.prometheus.url right, seen from here (--prometheus URL), with its authentication?",
    "load-watcher": "is collector.loadWatcher.url right, seen from here, and has load-watcher a source of its own?",
    "metrics-server": "does `kubectl top nodes` work? metrics-server must be installed, and you be allowed to ask it",
}
"""What to do about a source that does not answer."""

_POLLED: Mapping[str, str] = {
    "load-watcher": "is load-watcher's own source this cluster's? Its /watcher must name the nodes as Kubernetes does",
    "metrics-server": "does `kubectl top nodes` show them? The log of metrics-server says which kubelets it cannot ask",
}
"""What to do about one without profiles that has no metrics of our nodes."""


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile's metrics show."""

    nodes: Mapping[str, int] = {}
    """By resource that is measured: how many nodes have a live series."""

    strangers: str = ""
    """The labels of a series whose node this cluster does not have, where no series names one that it has."""

    pods: int = 0
    """Pods with live series of cpu and memory; 0 where one of them is not measured."""

    unasked: tuple[str, ...] = ()
    """Why questions were left out that never have an answer here."""

    problem: str = ""
    """Why nothing can be said."""

    @property
    def fits(self) -> bool:
        return not self.problem and not self.strangers and bool(self.nodes) and all(self.nodes.values())


async def prometheus(around: Surroundings) -> list[Finding]:
    settings = around.configured.collector
    profiled = settings.source == "prometheus"
    where, chosen = (settings.prometheus.url, settings.prometheus.profile) if profiled else (settings.source,) * 2
    try:
        async with around.open_source() as source:
            at = await source.time()
            names = await _names(around)
            fits: dict[str, Fit] = {chosen: await fit_of(source, names, at)}
    except ConfigurationError as error:
        return [Finding(state="error", where=where, what=str(error), to_do="correct the configuration")]
    except KubeError as error:
        return [Finding(state="unknown", where=where, what=f"not looked at: {error}")]
    except SourceError as error:
        what, to_do = f"does not answer: {error}", UNREACHABLE[settings.source]
        return [Finding(state="error", where=where, what=what, to_do=to_do)]
    if profiled and not fits[chosen].fits:
        fits |= await _others(around, names, at)
    return [Finding(state="ok", where=where, what="answers"), judged(where, chosen, fits)]


async def _names(around: Surroundings) -> frozenset[str] | None:
    """Of the cluster's nodes; None: not known."""
    try:
        return frozenset(node.metadata.name for node in await around.nodes())
    except KubeError:
        return None


async def _others(around: Surroundings, names: frozenset[str] | None, at: float) -> dict[str, Fit]:
    """How the profiles fit that are not configured."""
    settings, load = around.configured.collector, around.configured.shared.load
    found: dict[str, Fit] = {}
    for name in PROFILES:
        if name in (settings.prometheus.profile, "custom"):  # nobody but the user knows what a custom one would ask
            continue
        try:
            async with around.open_source(*as_profile(name, settings, load)) as source:
                found[name] = await fit_of(source, names, at)
        except ConfigurationError:
            continue  # it needs settings that are not there
    return found


def as_profile(name: str, settings: CollectorSettings, load: LoadSettings) -> tuple[CollectorSettings, LoadSettings]:
    """The same, but for the profile and, where it has no such metrics, what memory is counted."""
    changed = msgspec.structs.replace(settings.prometheus, profile=name, custom=CustomQueries())
    kinds = PROFILES[name](changed.custom).memory
    memory = load.memory if load.memory in kinds else next(iter(kinds))
    return msgspec.structs.replace(settings, prometheus=changed), msgspec.structs.replace(load, memory=memory)


async def fit_of(source: MetricSource, names: frozenset[str] | None, at: float) -> Fit:
    """What its metrics show at this moment. `names`: the nodes there are; None: not known, any counts."""
    nodes: dict[str, int] = {}
    strangers = ""
    pods: list[set[tuple[str, str]]] = []
    unasked: list[str] = []

    async def live(subject: Subject, resource: ResourceName) -> list[Sample] | None:
        question = MetricQuery(subject=subject, resource=resource, aggregate="newest", length=0.0, at=at)
        if reason := source.unsupported(question):
            unasked.append(reason)
            return None
        return await source.query(question)

    try:
        for resource in RESOURCES:
            if (samples := await live("node", resource)) is not None:
                known = {sample.node for sample in samples if names is None or sample.node in names}
                nodes[resource] = len(known)
                if samples and not known:
                    strangers = samples[0].series
            samples = await live("pod", resource)
            pods.append({(sample.namespace, sample.pod) for sample in samples or ()})
    except SourceError as error:
        return Fit(problem=str(error))
    return Fit(
        nodes=nodes,
        strangers=strangers,
        pods=len(set.intersection(*pods)),
        unasked=tuple(dict.fromkeys(unasked)),
    )


def judged(where: str, chosen: str, fits: Mapping[str, Fit]) -> Finding:
    """Of the chosen profile, or source without profiles, and which other one to choose."""
    fit = fits[chosen]
    name = chosen if chosen in _POLLED else f"profile {chosen}"
    shown = ", ".join(
        f"{resource} of {fit.nodes[resource]} nodes"
        if resource in fit.nodes
        else f"{resource} of nodes is not measured"
        for resource in RESOURCES
    )
    if fit.fits:
        what = f"{name} fits: {shown}, usage of {fit.pods} pods"
        if fit.pods:
            return Finding(state="ok", where=where, what=what)
        to_do = "scrape the pods' metrics too"
        if fit.unasked:
            to_do = f"have the pods measured too ({'; '.join(fit.unasked)})"
        to_do += ": without that nobody knows what a pod would bring"
        return Finding(state="warning", where=where, what=what, to_do=to_do)
    if fit.problem:
        what = f"{name} cannot be asked: {fit.problem}"
    elif fit.strangers:
        what = f"{name}: no series names a node of this cluster; one has {fit.strangers}"
    else:
        what = f"{name} has no metrics here: {shown}"
    others = [name for name, other in fits.items() if other.fits]
    if others:
        to_do = f"set collector.prometheus.profile: {others[0]}, whose metrics are here"
    elif chosen in _POLLED:
        to_do = _POLLED[chosen]
    elif fit.strangers:
        to_do = (
            "name the label that holds the node's name in collector.prometheus.nodeLabels, or give the scrape job one; "
            "is it this cluster's Prometheus (collector.prometheus.matchers)?"
        )
    else:
        to_do = f"no profile fits ({', '.join(fits)}): scrape the kubelets' /metrics/resource with the node in a label"
    return Finding(state="error", where=where, what=what, to_do=to_do)
