"""Which plugins are enabled at which extension point: the defaults of kube-scheduler 1.37, and how they are changed.

Sources: `getDefaultPlugins` and `mergePluginSet` of pkg/scheduler/apis/config/v1.
"""

from collections.abc import Mapping, Set

import msgspec

from equipoise.scheduling.settings.document import Fields, near, show

MULTI_POINT = "multiPoint"
"""Enables a plugin at every extension point that it implements."""

POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
)
"""The extension points, by their names in a KubeSchedulerConfiguration."""

GROUP_POINTS = ("placementGenerate", "placementScore", "podGroupPostFilter")
"""The extension points of groups of pods, which are behind a gate that is off in 1.37."""

ALL = "*"


class EnabledPlugin(msgspec.Struct, frozen=True, kw_only=True):
    """A plugin that is enabled. `weight`: the weight of its scores; 0 means 1."""

    name: str
    weight: int = 0


class PluginSet(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of an extension point. `disabled` may contain ALL."""

    enabled: tuple[EnabledPlugin, ...] = ()
    disabled: frozenset[str] = frozenset()


PluginSets = Mapping[str, PluginSet]
"""The plugins of each point, by POINTS and MULTI_POINT."""

DEFAULT_PLUGINS = (
    EnabledPlugin(name="SchedulingGates"),
    EnabledPlugin(name="PrioritySort"),
    EnabledPlugin(name="NodeName"),
    EnabledPlugin(name="NodeUnschedulable"),
    EnabledPlugin(name="TaintToleration", weight=3),
    EnabledPlugin(name="NodeAffinity", weight=2),
    EnabledPlugin(name="NodePorts"),
    EnabledPlugin(name="NodeResourcesFit", weight=1),
    EnabledPlugin(name="VolumeRestrictions"),
    EnabledPlugin(name="NodeVolumeLimits"),
    EnabledPlugin(name="VolumeBinding"),
    EnabledPlugin(name="VolumeZone"),
    EnabledPlugin(name="PodTopologySpread", weight=2),
    EnabledPlugin(name="InterPodAffinity", weight=2),
    EnabledPlugin(name="DynamicResources", weight=2),
    EnabledPlugin(name="DefaultPreemption"),
    EnabledPlugin(name="NodeResourcesBalancedAllocation", weight=1),
    EnabledPlugin(name="ImageLocality", weight=1),
    EnabledPlugin(name="DefaultBinder"),
    EnabledPlugin(name="NodeDeclaredFeatures"),
)
"""The default plugins at MULTI_POINT, in the order of calls."""


def read_plugin_sets(section: Fields, known: Set[str]) -> PluginSets:
    """The plugin sets with the defaults. `known`: names of all plugins that may be enabled."""
    found = {}
    for point in (*POINTS, MULTI_POINT):
        default = PluginSet(enabled=DEFAULT_PLUGINS) if point == MULTI_POINT else PluginSet()
        found[point] = merged(default, _read(section.section(point), known))
    section.ignore(*GROUP_POINTS)
    section.end()
    return found


def merged(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Default plugins that are not disabled keep their place, with the weight that is given; the others follow."""
    disabled = default.disabled | custom.disabled
    given = {plugin.name: plugin for plugin in custom.enabled}
    kept = [plugin for plugin in default.enabled if ALL not in disabled and plugin.name not in disabled]
    replaced = {plugin.name for plugin in kept}
    added = [plugin for plugin in custom.enabled if plugin.name not in replaced]
    return PluginSet(enabled=(*(given.get(plugin.name, plugin) for plugin in kept), *added), disabled=disabled)


def unknown_plugin(name: object, known: Set[str]) -> str:
    return f"{show(name)} is not a plugin: {near(name, known)}known are {', '.join(sorted(known))}"


def _read(section: Fields, known: Set[str]) -> PluginSet:
    enabled: dict[str, EnabledPlugin] = {}
    for each in section.sections("enabled"):
        name = each.text("name")
        if name not in known:
            each.fault("name", unknown_plugin(name, known))
        elif name in enabled:
            each.fault("name", f"{show(name)} is enabled twice at this extension point")
        enabled[name] = EnabledPlugin(name=name, weight=each.integer("weight", 0, lowest=0))
        each.end()
    disabled = set()
    for each in section.sections("disabled"):
        disabled.add(each.text("name"))
        each.ignore("weight")
        each.end()
    section.end()
    return PluginSet(enabled=tuple(enabled.values()), disabled=frozenset(disabled))
