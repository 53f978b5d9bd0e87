"""The nodes that kube-scheduler would allow for the replacement of a running pod, and those that it would prefer."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.scheduling.configuration import default_configuration
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.diagnosis import FilterDiagnosis, passed_all
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.plugin import Plugin, Refusal
from equipoise.scheduling.framework.plugin_calls import PluginFailed
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.arrays import Flags, Ints, Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.model.volumes import Volumes
from equipoise.scheduling.plugins.handle import Handle
from equipoise.scheduling.plugins.node_name import NodeName
from equipoise.scheduling.plugins.node_ports import NodePorts
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.volumes.volume_restrictions import VolumeRestrictions
from equipoise.scheduling.profile import ProfilePlugins, build_plugins
from equipoise.scheduling.scheduler import excluded_by_name

OCCUPIED = frozenset({NodePorts.name, NodeResourcesFit.name})
"""Filters that depend on what the pods of a node occupy."""

_BETWEEN_PODS = frozenset({NodePorts.name, InterPodAffinity.name, PodTopologySpread.name, VolumeRestrictions.name})
"""Filters that need the pods themselves, and not only the sums of their requests."""

_BOUND = frozenset({NodeName.name})
"""Filters that do not apply to a replacement, which has no node yet."""


class ReplacementFilters:
    """The filters of the default profile, applied to the replacement of a pod. Preemption is not considered.

    The pod is gone by then. Only in a move without a gap it still runs while its replacement is placed, and is
    `detached`: without the label of its template.
    """

    def __init__(
        self,
        volumes: Volumes | None = None,
        *,
        unknown_resources: Sequence[str] = (),
        pods_known: bool = True,
        default_selector: Callable[[PodInfo], LabelSelector | None] = lambda pod: None,
    ) -> None:
        """`unknown_resources`: resources whose amount on the nodes is unknown. They are not checked. `pods_known`:
        False if the snapshot contains only sums of requests. Rules between pods are then not checked.
        `default_selector`: see `Handle`. Only scores depend on it."""
        handle = Handle(volumes=volumes or Volumes(), default_selector=default_selector)
        plugins = build_plugins(default_configuration().profiles[0], handle)
        without = _BOUND if pods_known else _BOUND | _BETWEEN_PODS
        self._all = _with(plugins, NodeResourcesFit(unknown_resources=unknown_resources), without=without)
        self._constraints = _with(plugins, without=_BOUND | OCCUPIED)

    def refusals(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        rows: Rows,
        *,
        current: int | None,
        constraints: bool = False,
        detached: PodInfo | None = None,
    ) -> FilterDiagnosis:
        """The refusals of these nodes. `current`: the row of the node of the pod; None if the snapshot does not contain
        the pod.

        `constraints`: whether to leave out the filters OCCUPIED. `detached`: the pod as it is while its replacement is
        placed. A node must then pass twice: with it, or kube-scheduler chooses another one, and without the pod, or a
        constraint is violated when the pod has left.
        """
        framework = self._constraints if constraints else self._all
        with _without_pod(pod, snapshot, current):
            diagnosis = _filtered(framework, CycleState(), pod, snapshot, rows)
            if detached is not None:
                with _with_pod(detached, snapshot, current):
                    meanwhile = _filtered(framework, CycleState(), pod, snapshot, rows)
                for plugin, refusal in meanwhile.refusals:
                    diagnosis.add(plugin, [refusal])
        return diagnosis

    def totals(
        self,
        pod: PodInfo,
        snapshot: ClusterSnapshot,
        rows: Rows,
        *,
        current: int | None,
        detached: PodInfo | None = None,
    ) -> tuple[Rows, Ints]:
        """The feasible nodes among `rows`, and the total score of each by the plugins of kube-scheduler, which decides
        while a `detached` pod runs.

        In clusters of more than 100 nodes, kube-scheduler may score only some of them.
        """
        state = CycleState()
        with _without_pod(pod, snapshot, current), _with_pod(detached, snapshot, current):
            feasible = rows[_filtered(self._all, state, pod, snapshot, rows).passed]
            if len(feasible) < 2:
                return feasible, np.zeros(len(feasible), dtype=np.int64)
            try:
                return feasible, self._all.score(state, pod, snapshot, feasible).total
            except PluginFailed:  # kube-scheduler would not place the pod either
                return feasible[:0], np.zeros(0, dtype=np.int64)


def violated_rules(pod: PodInfo, node: str, others: Iterable[PodInfo], snapshot: ClusterSnapshot) -> str:
    """Which rules between pods a pod that was placed violates on its node; empty if none, or if the node is unknown.

    `others`: the other pods of its namespace that have a node. `snapshot`: the nodes, with sums of requests only.
    Affinity to pods of further namespaces is not checked.
    """
    row = snapshot.row(node)
    if row is None:
        return ""
    placed = snapshot.clone()
    for other in others:
        other_row = placed.row(other.pod.spec.node_name)
        if other_row is not None:
            placed.add_pod(other, other_row)
    own = {PodTopologySpread.name}
    if all(term.namespaces == {pod.namespace} and not term.namespace_selector for term in pod.shape.required_affinity):
        own.add(InterPodAffinity.name)
    plugins = build_plugins(default_configuration().profiles[0], Handle())
    names = {plugin.name for point in plugins.points.values() for plugin in point}
    rules = _with(plugins, without=names - own)
    return "; ".join(_filtered(rules, CycleState(), pod, placed, np.array([row])).reasons())


def _with(plugins: ProfilePlugins, *replacing: Plugin, without: Collection[str]) -> Framework:
    """A framework of these plugins. `replacing`: plugins that replace those of the same name. `without`: names to leave
    out."""
    others = {plugin.name: plugin for plugin in replacing}
    points = {
        point: [others.get(plugin.name, plugin) for plugin in plugins.points[point] if plugin.name not in without]
        for point in ("preFilter", "filter", "preScore", "score")
    }
    return Framework(points, plugins.weights)


@contextmanager
def _without_pod(pod: PodInfo, snapshot: ClusterSnapshot, row: int | None) -> Iterator[None]:
    if row is None:
        yield
        return
    removed = snapshot.remove_pod(pod, row)
    try:
        yield
    finally:
        snapshot.add_pod(removed, row)  # not `pod`, which may have another size than on its node


@contextmanager
def _with_pod(pod: PodInfo | None, snapshot: ClusterSnapshot, row: int | None) -> Iterator[None]:
    if pod is None or row is None:
        yield
        return
    snapshot.add_pod(pod, row)
    try:
        yield
    finally:
        snapshot.remove_pod(pod, row)


def _filtered(
    framework: Framework, state: CycleState, pod: PodInfo, snapshot: ClusterSnapshot, rows: Rows
) -> FilterDiagnosis:
    """The refusals of the nodes. If a plugin fails, all nodes are refused."""
    try:
        status, names = framework.pre_filter(state, pod, snapshot)
        if not status.is_success:
            return _all_refused(rows, status)
        if names is None:
            return framework.filter(state, pod, snapshot, rows)
        named = [row for row in map(snapshot.row, names) if row is not None]
        diagnosis = framework.filter(state, pod, snapshot, rows)
        _refuse(diagnosis, ~np.isin(rows, named), excluded_by_name(state))
    except PluginFailed as error:
        return _all_refused(rows, PluginStatus(code=Code.ERROR, reasons=(str(error),), plugin=error.plugin))
    return diagnosis


def _all_refused(rows: Rows, status: PluginStatus) -> FilterDiagnosis:
    diagnosis = passed_all(rows)
    _refuse(diagnosis, np.ones(len(rows), dtype=np.bool_), status)
    return diagnosis


def _refuse(diagnosis: FilterDiagnosis, nodes: Flags, status: PluginStatus) -> None:
    reasons = status.reasons or (f"node(s) were refused by plugin {status.plugin}",)
    diagnosis.add(status.plugin, [Refusal(nodes=nodes, reason=reason, code=status.code) for reason in reasons])
