"""The plugins that are enabled at each extension point: the defaults of kube-scheduler 1.37, and changes to them.

Sources: `getDefaultPlugins` and `mergePluginSet` of pkg/scheduler/apis/config/v1.
"""

from collections.abc import Mapping, Set

import msgspec

from equipoise.scheduling.settings.document import Fields, near, show

MULTI_POINT = "multiPoint"
"""The name of the section that enables a plugin at every extension point that it implements."""

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
"""The extension points of groups of pods. The feature gate for them is off in 1.37."""

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
    plugin_sets = {}
    for point in (*POINTS, MULTI_POINT):
        default = PluginSet(enabled=DEFAULT_PLUGINS) if point == MULTI_POINT else PluginSet()
        plugin_sets[point] = merged(default, _read(section.section(point), known))
    section.ignore(*GROUP_POINTS)
    section.end()
    return plugin_sets


def merged(default: PluginSet, custom: PluginSet) -> PluginSet:
    """Default plugins that are not disabled keep their order, with a custom weight if there is one. Other plugins
    follow."""
    disabled = default.disabled | custom.disabled
    custom_by_name = {plugin.name: plugin for plugin in custom.enabled}
    kept = [plugin for plugin in default.enabled if ALL not in disabled and plugin.name not in disabled]
    kept_names = {plugin.name for plugin in kept}
    added = [plugin for plugin in custom.enabled if plugin.name not in kept_names]
    return PluginSet(enabled=(*(custom_by_name.get(plugin.name, plugin) for plugin in kept), *added), disabled=disabled)


def unknown_plugin(name: object, known: Set[str]) -> str:
    return f"{show(name)} is not a plugin: {near(name, known)}known are {', '.join(sorted(known))}"


def _read(section: Fields, known: Set[str]) -> PluginSet:
    enabled: dict[str, EnabledPlugin] = {}
    for entry in section.sections("enabled"):
        name = entry.text("name")
        if name not in known:
            entry.fault("name", unknown_plugin(name, known))
        elif name in enabled:
            entry.fault("name", f"{show(name)} is enabled twice at this extension point")
        enabled[name] = EnabledPlugin(name=name, weight=entry.integer("weight", 0, lowest=0))
        entry.end()
    disabled = set()
    for entry in section.sections("disabled"):
        disabled.add(entry.text("name"))
        entry.ignore("weight")
        entry.end()
    section.end()
    return PluginSet(enabled=tuple(enabled.values()), disabled=frozenset(disabled))
