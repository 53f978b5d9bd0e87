"""Where usage is measured: does it answer, and has it the metrics of the configured profile?"""

from collections.abc import Mapping

import msgspec

from equipoise.cli.doctor.finding import Finding
from equipoise.cli.doctor.surroundings import Surroundings
from equipoise.collector.questions import Ask, SourceError
from equipoise.collector.rounds import RESOURCES
from equipoise.collector.settings import CollectorSettings, CustomQueries
from equipoise.collector.sources import MetricSource
from equipoise.collector.sources.profiles import PROFILES
from equipoise.contracts.settings import LoadSettings
from equipoise.runtime.kube import KubeError
from equipoise.runtime.settings import ConfigurationError


class Fit(msgspec.Struct, frozen=True, kw_only=True):
    """What a profile's metrics show."""

    nodes: Mapping[str, int] = {}
    """By resource: how many nodes have a live series."""

    strangers: str = ""
    """The labels of a series whose node this cluster does not have, where no series names one that it has."""

    pods: int = 0
    """Pods with live series of cpu and memory."""

    problem: str = ""
    """Why nothing can be said."""

    @property
    def fits(self) -> bool:
        return not self.problem and not self.strangers and all(self.nodes.get(each) for each in RESOURCES)


async def prometheus(around: Surroundings) -> list[Finding]:
    settings = around.configured.collector
    profiled = settings.source == "prometheus"
    where, chosen = (settings.prometheus.url, settings.prometheus.profile) if profiled else (settings.source,) * 2
    try:
        source = around.open_source()
    except ConfigurationError as error:
        return [Finding(state="error", where=where, what=str(error), to_do="correct the configuration")]
    except KubeError as error:
        return [Finding(state="unknown", where=where, what=f"not looked at: {error}")]
    try:
        at = await source.time()
        names = await _names(around)
        fits: dict[str, Fit] = {chosen: await fit_of(source, names, at)}
    except SourceError as error:
        return [unreachable(where, error)]
    finally:
        source.close()
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
            source = around.open_source(*as_profile(name, settings, load))
        except ConfigurationError:
            continue  # it needs settings that are not there
        try:
            found[name] = await fit_of(source, names, at)
        finally:
            source.close()
    return found


def as_profile(name: str, settings: CollectorSettings, load: LoadSettings) -> tuple[CollectorSettings, LoadSettings]:
    """The same, but for the profile and, where it has no such metrics, what memory is counted."""
    changed = msgspec.structs.replace(settings.prometheus, profile=name, custom=CustomQueries())
    kinds = PROFILES[name](changed).memory
    memory = load.memory if load.memory in kinds else next(iter(kinds))
    return msgspec.structs.replace(settings, prometheus=changed), msgspec.structs.replace(load, memory=memory)


async def fit_of(source: MetricSource, names: frozenset[str] | None, at: float) -> Fit:
    """What its metrics show at this moment. `names`: the nodes there are; None: not known, any counts."""
    nodes: dict[str, int] = {}
    strangers = ""
    pods: list[set[tuple[str, str]]] = []
    try:
        for resource in RESOURCES:
            live = await source.ask(Ask(subject="node", resource=resource, what="newest", length=0.0, at=at))
            known = {sample.node for sample in live if names is None or sample.node in names}
            nodes[resource] = len(known)
            if live and not known:
                strangers = ", ".join(f'{label}="{value}"' for label, value in sorted(live[0].series))
            live = await source.ask(Ask(subject="pod", resource=resource, what="newest", length=0.0, at=at))
            pods.append({(sample.namespace, sample.pod) for sample in live})
    except SourceError as error:
        return Fit(problem=str(error))
    return Fit(nodes=nodes, strangers=strangers, pods=len(set.intersection(*pods)))


def judged(where: str, chosen: str, fits: Mapping[str, Fit]) -> Finding:
    """Of the chosen profile, and which other one to choose."""
    fit = fits[chosen]
    shown = ", ".join(f"{resource} of {fit.nodes.get(resource, 0)} nodes" for resource in RESOURCES)
    if fit.fits:
        what = f"profile {chosen} fits: {shown}, usage of {fit.pods} pods"
        if fit.pods:
            return Finding(state="ok", where=where, what=what)
        to_do = "scrape the pods' metrics too: without them nobody knows what a pod would bring"
        return Finding(state="warning", where=where, what=what, to_do=to_do)
    if fit.problem:
        what = f"profile {chosen} cannot be asked: {fit.problem}"
    elif fit.strangers:
        what = f"profile {chosen}: no series names a node of this cluster; one has {fit.strangers}"
    else:
        what = f"profile {chosen} has no metrics here: {shown}"
    others = [name for name, other in fits.items() if other.fits]
    if others:
        to_do = f"set collector.prometheus.profile: {others[0]}, whose metrics are here"
    elif fit.strangers:
        to_do = (
            "name the label that holds the node's name in collector.prometheus.nodeLabels, or give the scrape job one; "
            "is it this cluster's Prometheus (collector.prometheus.matchers)?"
        )
    else:
        to_do = f"no profile fits ({', '.join(fits)}): scrape the kubelets' /metrics/resource with the node in a label"
    return Finding(state="error", where=where, what=what, to_do=to_do)


def unreachable(where: str, error: SourceError) -> Finding:
    return Finding(
        state="error",
        where=where,
        what=f"does not answer: {error}",
        to_do="is collector.prometheus.url right, seen from here (--prometheus URL), with its authentication?",
    )
