"""The list of pods, and its text. Pure."""

import msgspec
from rich.console import Console
from rich.text import Text

from equipoise.cli.cluster_access.kubeconfig import ClusterName
from equipoise.cli.cluster_now.pods import NOT_MEASURED, PodNow, pods_by_usage, pods_table, sort_key
from equipoise.cli.cluster_now.reading import ClusterNow
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.terminal import amounts, count, day_and_time, listed, percentages
from equipoise.contracts.load.correction import load_of
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings
from equipoise.descheduler.state.cluster_builder import ClusterBuilder

MAX_ROWS = 100
"""Maximum number of pods in the table, except with -o wide."""


class NodeOfPods(msgspec.Struct, frozen=True, kw_only=True):
    """The node whose pods are listed."""

    node: str
    load: Resources
    """Usage of the whole node, 0..1 of what is allocatable, as `equipoise nodes` shows it."""

    measured: Resources
    """The part of the load that is measured. The rest is expected of pods that have just started."""

    system: Resources
    """Usage that belongs to no pod, cores and bytes."""

    unknown: str = ""
    """Why its load is not known."""


class PodList(msgspec.Struct, frozen=True, kw_only=True):
    """Pods, those with the largest share of their node first."""

    cluster: ClusterName
    at: float
    window: str
    pods: list[PodNow]
    of: NodeOfPods | None = None
    """None if the list has the pods of all nodes."""


def pod_list(cluster: ClusterName, now: ClusterNow, settings: EvaluationSettings, *, node: str | None) -> PodList:
    """The pods of one node or of all nodes, with their usage in the shortest window.

    Raises CommandFailed if there is no such node.
    """
    if node is not None and node not in now.placements:
        names = listed(sorted(now.placements), 5) or "none"
        raise CommandFailed(f"there is no node {node} (there are: {names}): `equipoise nodes` lists them")
    utilization = now.snapshot.nodes
    chosen = now.placements if node is None else {node: now.placements[node]}
    pods = [pod for name, placement in chosen.items() for pod in pods_by_usage(placement, utilization.get(name))]
    return PodList(
        cluster=cluster,
        at=now.snapshot.now,
        window=settings.load.shortest.name,
        pods=sorted(pods, key=sort_key),
        of=None if node is None else _node_of_pods(node, now, settings),
    )


def _node_of_pods(node: str, now: ClusterNow, settings: EvaluationSettings) -> NodeOfPods:
    measured, window = now.snapshot.nodes.get(node), settings.load.shortest.name
    usage = None if measured is None else measured.windows.get(window)
    why = now.unknown[node].text if node in now.unknown else now.not_expected.get(node, "")
    if measured is None or usage is None:
        unknown = why or f"no mean of {window}"
        return NodeOfPods(node=node, load=Resources(), measured=Resources(), system=Resources(), unknown=unknown)
    load = load_of(usage.mean, measured.base)
    rows = ClusterBuilder(now.snapshot, settings).cluster().nodes
    corrected = next((row.load(window) for row in rows if row.name == node), load)
    return NodeOfPods(node=node, load=corrected, measured=load, system=measured.system, unknown=why)


def show(result: PodList, to: Console, *, wide: bool) -> None:
    """Print the cluster, the node, and a row per pod."""
    to.print(Text(f"{result.cluster}, mean of the last {result.window}, at {day_and_time(result.at)}"))
    node = result.of
    if node is not None:
        to.print(Text(f"{node.node}: {percentages(node.load)}; outside of pods {amounts(node.system)}"))
        if percentages(node.measured) != percentages(node.load):
            to.print(
                Text(f"measured: {percentages(node.measured)}; the rest is expected of pods that have just started")
            )
        if node.unknown:
            to.print(Text(f"unknown: {node.unknown}", style="yellow"))
    unmeasured = sum(pod.state.endswith(NOT_MEASURED) for pod in result.pods)
    not_known = f", the usage of {unmeasured:,} is not known" if unmeasured else ""
    shown = result.pods if wide else result.pods[:MAX_ROWS]
    only_first = f" (first {MAX_ROWS}, -o wide has all)" if len(shown) < len(result.pods) else ""
    to.print(Text(f"{count(len(result.pods), 'pod')}{not_known}{only_first}", style="yellow" if unmeasured else ""))
    to.print()
    to.print(pods_table(shown, of_one_node=node is not None, wide=wide))
