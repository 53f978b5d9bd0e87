"""Builds the framework with its plugins from a profile of the configuration.

Source: `NewFramework` and `expandMultiPointPlugins` of pkg/scheduler/framework/runtime.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.scheduling.configuration import SchedulerConfiguration, SchedulerProfile, known_plugins
from equipoise.scheduling.framework.framework import POINTS, Framework
from equipoise.scheduling.framework.plugin import Bind, Permit, Plugin, PostBind, PreBind
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import NOT_BUILT, PLUGINS, Factory
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scheduling.settings.plugin_sets import ALL, MULTI_POINT, EnabledPlugin, unknown_plugin

PROTOCOLS: Mapping[str, tuple[type, ...]] = {
    **POINTS,
    "permit": (Permit,),
    "preBind": (PreBind,),
    "bind": (Bind,),
    "postBind": (PostBind,),
}
"""The protocols of each extension point. A plugin at the point implements at least one of them."""

_NONE: Mapping[str, Factory] = {}


class ProfilePlugins(msgspec.Struct, frozen=True, kw_only=True):
    """The plugins of a profile, created for one framework."""

    points: Mapping[str, Sequence[Plugin]]
    """The plugins by extension point, in the order of calls, including those of the binding cycle."""

    weights: Mapping[str, int]
    """The weights of the scores, by plugin."""


def build_framework(
    profile: SchedulerProfile,
    handle: Handle,
    registered: Mapping[str, Factory] = _NONE,
    *,
    measure: Callable[[str, str, Callable[[], Any]], Any] | None = None,
) -> Framework:
    """The framework of a profile. `registered`: plugins of the program that the profile may enable. `measure`: see
    Framework.

    Raises InvalidConfiguration for plugins that cannot be used as the profile requires.
    """
    built: list[Framework] = []  # filled below: plugins request the framework only later
    plugins = build_plugins(profile, msgspec.structs.replace(handle, framework=lambda: built[0]), registered)
    built.append(Framework(plugins.points, plugins.weights, measure=measure))
    return built[0]


def build_frameworks(
    configuration: SchedulerConfiguration,
    handle: Handle,
    registered: Mapping[str, Factory] = _NONE,
    *,
    measure: Callable[[str, str, Callable[[], Any]], Any] | None = None,
) -> Mapping[str, Framework]:
    """The frameworks, by `schedulerName`. Raises InvalidConfiguration, also if the profiles order the queue
    differently."""
    frameworks = {
        profile.scheduler_name: build_framework(profile, handle, registered, measure=measure)
        for profile in configuration.profiles
    }
    orders = {name: framework.plugins("queueSort")[0].name for name, framework in frameworks.items()}
    if len(set(orders.values())) > 1:
        listed = ", ".join(f"{name}: {order}" for name, order in orders.items())
        raise InvalidConfiguration([f"profiles: all pods are in one queue, which one plugin must order ({listed})"])
    return frameworks


def build_plugins(
    profile: SchedulerProfile, handle: Handle, registered: Mapping[str, Factory] = _NONE
) -> ProfilePlugins:
    """The plugins of a profile, from which `build_framework` creates a framework."""
    if taken := sorted(registered.keys() & known_plugins()):
        raise InvalidConfiguration(
            [f"the plugin {name} exists already: register yours by another name" for name in taken]
        )
    factories = {**PLUGINS, **registered}
    faults: list[str] = []
    instances: dict[str, Plugin] = {}
    for name in dict.fromkeys(plugin.name for plugins in profile.plugins.values() for plugin in plugins.enabled):
        if name in factories:
            instances[name] = factories[name](profile.arguments.get(name), handle)
        elif name not in NOT_BUILT:
            faults.append(unknown_plugin(name, known_plugins(registered.keys())))
    points = {point: _at_point(point, profile, instances, faults) for point in PROTOCOLS}
    if len(points["queueSort"]) != 1:
        names = [plugin.name for plugin in points["queueSort"]]
        faults.append(
            f"plugins.queueSort: one plugin orders the queue, not {len(names)} ({', '.join(names) or 'none'})"
        )
    if faults:
        raise InvalidConfiguration([f"profile {profile.scheduler_name}: {fault}" for fault in faults])
    return ProfilePlugins(points=points, weights=_weights(profile, instances))


def _at_point(
    point: str, profile: SchedulerProfile, instances: Mapping[str, Plugin], faults: list[str]
) -> Sequence[Plugin]:
    """The plugins at an extension point: first those that both the point and MULTI_POINT enable, then those that only
    MULTI_POINT enables, then those that only the point enables."""
    custom = profile.plugins[point]
    own = [plugin.name for plugin in custom.enabled if plugin.name in instances]
    for name in own:
        if not _implements(instances[name], point):
            faults.append(f"plugins.{point}: the plugin {name} has no {point}")
    if ALL in custom.disabled:
        return [instances[name] for name in own]
    multi_point = [
        plugin.name
        for plugin in profile.plugins[MULTI_POINT].enabled
        if plugin.name in instances
        and plugin.name not in custom.disabled
        and _implements(instances[plugin.name], point)
    ]
    first = [name for name in own if name in multi_point]
    then = [name for name in multi_point if name not in own]
    last = [name for name in own if name not in multi_point]
    return [instances[name] for name in (*first, *then, *last)]


def _implements(plugin: Plugin, point: str) -> bool:
    """Whether the plugin has the methods of the extension point.

    The class is checked, for which Python keeps the result: with the plugins themselves, all points take milliseconds.
    """
    return issubclass(type(plugin), PROTOCOLS[point])


def _weights(profile: SchedulerProfile, instances: Mapping[str, Plugin]) -> Mapping[str, int]:
    """The weights by plugin. A weight at the extension point score takes precedence."""
    weights: dict[str, int] = {}
    enabled: Sequence[EnabledPlugin] = (*profile.plugins["score"].enabled, *profile.plugins[MULTI_POINT].enabled)
    for plugin in enabled:
        instance = instances.get(plugin.name)
        if instance is not None and _implements(instance, "score"):
            weights.setdefault(instance.name, plugin.weight or 1)
    return weights
