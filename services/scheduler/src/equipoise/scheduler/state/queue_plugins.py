"""The plugins that the queue calls: which pods it holds back, in which order it is, and which events help a pod.

An error of a plugin is reported by a callback, because no attempt can report it.
"""

from collections.abc import Callable, Mapping

from equipoise.scheduling.framework.events import ClusterEvent, QueueingHint
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.plugin import Plugin, QueueSort
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.status import PluginStatus, failed
from equipoise.scheduling.model.pod_info import PodInfo


class QueuePlugins:
    """The plugins of all profiles. The order of the queue is that of the first profile."""

    def __init__(self, frameworks: Mapping[str, Framework], failure: Callable[[PluginFailed], None]) -> None:
        """`frameworks`: the framework of each profile, by name of the scheduler."""
        self._frameworks = frameworks
        self._failure = failure
        first = next(iter(frameworks.values()))
        (sort,) = first.plugins("queueSort")
        assert isinstance(sort, QueueSort)
        self._sort = sort

    def hold(self, pod: PodInfo) -> PluginStatus:
        try:
            return self._frameworks[pod.pod.spec.scheduler_name].pre_enqueue(pod)
        except PluginFailed as error:
            self._failure(error)
            return failed(str(error))

    def sort_key(self, pod: PodInfo, added_at: float) -> tuple[float, ...]:
        try:
            return self._sort.sort_key(pod, added_at)
        except Exception as error:
            self._failure(PluginFailed.by(self._sort, "queueSort", error))
            return -float(pod.priority), added_at

    def hints(self) -> Mapping[str, QueueingHint]:
        """The queueing hints by plugin. A plugin without an entry is helped by every event."""
        return {
            plugin.name: _GuardedHint(plugin, self._failure)
            for framework in self._frameworks.values()
            for point in ("preFilter", "filter", "reserve", "permit", "preEnqueue")
            for plugin in framework.plugins(point)
            if isinstance(plugin, QueueingHint)
        }


class _GuardedHint:
    """A queueing hint whose error means that the event may help, as in kube-scheduler."""

    def __init__(self, plugin: Plugin, failure: Callable[[PluginFailed], None]) -> None:
        self._plugin = plugin
        self._failure = failure

    def may_help(self, pod: PodInfo, event: ClusterEvent) -> bool:
        assert isinstance(self._plugin, QueueingHint)
        try:
            return self._plugin.may_help(pod, event)
        except Exception as error:
            self._failure(PluginFailed.by(self._plugin, "may_help", error))
            return True
