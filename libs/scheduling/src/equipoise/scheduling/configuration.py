"""Reads a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), with the defaults of kube-scheduler 1.37.

What concerns the program and not its decisions is accepted and left out: leaderElection, clientConnection,
parallelism, profiling, delayCacheUntilActive.
"""

from collections.abc import Mapping, Set
from typing import Any

import msgspec

from equipoise.scheduling.plugins.table import NOT_BUILT, PLUGINS
from equipoise.scheduling.settings.document import Fields, InvalidConfiguration, read_yaml, show
from equipoise.scheduling.settings.extenders import HttpExtender, ignored_resources, read_extenders
from equipoise.scheduling.settings.plugin_arguments import (
    API_VERSION,
    ARGUMENTS,
    NodeResourcesFitArgs,
    read_arguments,
)
from equipoise.scheduling.settings.plugin_sets import PluginSets, read_plugin_sets, unknown_plugin

KIND = "KubeSchedulerConfiguration"
DEFAULT_SCHEDULER = "default-scheduler"

REMOVED = ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits")
"""Plugins of earlier versions, whose arguments kube-scheduler refuses as well."""

Arguments = Mapping[str, Any]
"""The arguments of plugins, by name."""


class SchedulerProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of the pods with this `schedulerName`."""

    scheduler_name: str
    percentage_of_nodes_to_score: int | None = None
    """None: that of the configuration."""

    plugins: PluginSets
    arguments: Arguments = {}
    """The arguments as in `settings.plugin_arguments`. Those of other plugins are as in the document, or missing."""


class SchedulerConfiguration(msgspec.Struct, frozen=True, kw_only=True):
    profiles: tuple[SchedulerProfile, ...]
    percentage_of_nodes_to_score: int = 0
    """0: it depends on the number of nodes, see `feasible_nodes_to_find`."""

    initial_backoff: float = 1.0
    """Seconds that a pod waits after its first failed attempt."""

    max_backoff: float = 10.0
    """Seconds."""

    extenders: tuple[HttpExtender, ...] = ()
    """The extenders, in the order of calls."""

    def profile(self, scheduler_name: str) -> SchedulerProfile | None:
        """The profile with this `schedulerName`; None: pods with this name are not scheduled by this scheduler."""
        return next((each for each in self.profiles if each.scheduler_name == scheduler_name), None)

    def percentage_of(self, profile: SchedulerProfile) -> int:
        """The percentageOfNodesToScore of its pods."""
        own = profile.percentage_of_nodes_to_score
        return self.percentage_of_nodes_to_score if own is None else own


def read_configuration(document: Mapping[str, Any] | str, registered: Set[str] = frozenset()) -> SchedulerConfiguration:
    """`document`: a mapping, or YAML. `registered`: names of plugins that the program has in addition.

    Raises InvalidConfiguration, which names all faults.
    """
    faults: list[str] = []
    section = Fields(read_yaml(document) if isinstance(document, str) else document, "", faults)
    for name, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if section.text(name, allowed=(expected,)) != expected and section.value(name) is None:
            section.wrong(name, None, expected)
    extenders = read_extenders(section)
    configuration = SchedulerConfiguration(
        profiles=_profiles(section, registered, ignored_resources(extenders)),
        percentage_of_nodes_to_score=section.integer("percentageOfNodesToScore", 0, lowest=0, highest=100),
        initial_backoff=float(section.integer("podInitialBackoffSeconds", 1, lowest=1)),
        max_backoff=float(section.integer("podMaxBackoffSeconds", 10, lowest=1)),
        extenders=extenders,
    )
    if configuration.max_backoff < configuration.initial_backoff:
        expected = f"podInitialBackoffSeconds ({configuration.initial_backoff:.0f}) or more"
        section.wrong("podMaxBackoffSeconds", int(configuration.max_backoff), expected)
    section.integer("parallelism", 16, lowest=1)
    section.ignore("leaderElection", "clientConnection", "delayCacheUntilActive")
    section.ignore("enableProfiling", "enableContentionProfiling")
    section.end()
    if faults:
        raise InvalidConfiguration(faults)
    return configuration


def document_with_plugins(weights: Mapping[str, int]) -> dict[str, Any]:
    """The default configuration with these plugins in addition. `weights`: the weights of their scores, by name."""
    enabled = [{"name": name, "weight": weight} for name, weight in weights.items()]
    return {"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"plugins": {"multiPoint": {"enabled": enabled}}}]}


def default_configuration() -> SchedulerConfiguration:
    """The configuration of a kube-scheduler that was started without one."""
    return read_configuration({"apiVersion": API_VERSION, "kind": KIND})


def _profiles(section: Fields, registered: Set[str], ignored: tuple[str, ...]) -> tuple[SchedulerProfile, ...]:
    known = known_plugins(registered)
    places = section.sections("profiles") or [Fields({}, "profiles[0]", section.faults)]
    found: dict[str, SchedulerProfile] = {}
    for place in places:
        name = place.text("schedulerName", DEFAULT_SCHEDULER if len(places) == 1 else "")
        if not name:
            place.wrong("schedulerName", place.value("schedulerName"), "a name, as there are several profiles")
        elif name in found:
            place.fault("schedulerName", f"{show(name)} is the name of two profiles")
        plugins = read_plugin_sets(place.section("plugins"), known)
        found[name] = SchedulerProfile(
            scheduler_name=name,
            percentage_of_nodes_to_score=place.optional_integer("percentageOfNodesToScore", lowest=0, highest=100),
            plugins=plugins,
            arguments=_arguments(place, ignored),
        )
        place.end()
    return tuple(found.values())


def known_plugins(registered: Set[str] = frozenset()) -> Set[str]:
    """Names that a configuration may enable."""
    return PLUGINS.keys() | NOT_BUILT | registered


def _arguments(profile: Fields, ignored: tuple[str, ...]) -> Arguments:
    """The arguments of all plugins that have some, and of others that are in the document."""
    found: dict[str, Any] = {}
    for each in profile.sections("pluginConfig"):
        name = each.text("name")
        if not name:
            each.wrong("name", name, "the name of a plugin")
        elif name in found:
            each.fault("name", f"{show(name)} has two sets of arguments")
        elif name in REMOVED:
            each.fault("name", unknown_plugin(name, known_plugins()))
        value = each.value("args")
        found[name] = read_arguments(name, each.section("args")) if name in ARGUMENTS else value
        each.end()
    for name in ARGUMENTS:
        found.setdefault(name, read_arguments(name, Fields({}, "", profile.faults)))
    if ignored:
        # As kube-scheduler does: they replace those of the document.
        fit = found["NodeResourcesFit"]
        assert isinstance(fit, NodeResourcesFitArgs)
        found["NodeResourcesFit"] = msgspec.structs.replace(fit, ignored_resources=ignored)
    return found
