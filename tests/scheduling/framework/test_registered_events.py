"""Which events may help a pod that was refused."""

from scheduling.pods import a_pod

from equipoise.scheduling.configuration import default_configuration
from equipoise.scheduling.framework.events import ClusterEvent, QueueingHint
from equipoise.scheduling.framework.registered_events import REGISTERED, RegisteredEvents
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.table import PLUGINS
from equipoise.scheduling.profile import build_framework


def hint(plugin: str) -> RegisteredEvents:
    return RegisteredEvents(events=REGISTERED[plugin])


def test_every_plugin_that_refuses_nodes_has_registered_events() -> None:
    """Except that of devices, which is helped by every event: what it waits for is not watched."""
    framework = build_framework(default_configuration().profiles[0], Handle())
    plugins = [plugin for point in ("preFilter", "filter") for plugin in framework.plugins(point)]
    without = {plugin.name for plugin in plugins if not isinstance(plugin, QueueingHint)}

    assert {"DynamicResources"} == without - REGISTERED.keys()
    assert REGISTERED.keys() - {"SchedulingGates"} <= without
    assert REGISTERED.keys() <= PLUGINS.keys()


def test_a_pod_that_is_gone_does_not_help_with_zones() -> None:
    deleted, added = (ClusterEvent(kind="Pod", action="delete"), ClusterEvent(kind="Node", action="add"))

    assert not hint("VolumeZone").may_help(a_pod(), deleted)
    assert hint("VolumeZone").may_help(a_pod(), added)
    assert hint("VolumeRestrictions").may_help(a_pod(), deleted)
    assert not hint("VolumeRestrictions").may_help(a_pod(), ClusterEvent(kind="Pod", action="add"))


def test_a_change_of_a_pod_that_waits_helps_this_pod_only() -> None:
    event = ClusterEvent(kind="UnscheduledPod", action="update", new=a_pod("one"))

    assert hint("VolumeZone").may_help(a_pod("one"), event)
    assert not hint("VolumeZone").may_help(a_pod("two"), event)
