"""Reads the snapshot of the cluster that a descheduler would evaluate. It is measured as the collector measures."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from equipoise.cli.cluster_now.objects import ListedObjects, list_nodes_and_pods
from equipoise.cli.cluster_now.open_moves import OpenMoves, before_its_move, open_moves
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.progress import Activity
from equipoise.cli.prometheus.access import PROMETHEUS_OPTION
from equipoise.cli.prometheus.counted_source import CountedPromql, CountedSource
from equipoise.cli.prometheus.profiles import best_profile, match_profiles, no_profile_problem
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.decisions.expected_nodes import not_yet_expected, unmeasurable
from equipoise.collector.decisions.pod_times import trimmed
from equipoise.collector.decisions.query import SourceError
from equipoise.collector.decisions.validation.usage import UnknownUsage
from equipoise.collector.settings import WHOLE_CLUSTER, CollectorSettings, PrometheusSettings
from equipoise.collector.shell.further_measurement import FurtherMeasurement
from equipoise.collector.shell.measurement import Measurement
from equipoise.collector.shell.profile_learning import ProfileLearning
from equipoise.collector.sources import MetricSource, PromqlSource, open_promql_source
from equipoise.collector.sources.prometheus.http import Refused
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.collector.state.placement import ClusterPlacement
from equipoise.contracts.configuration.settings import LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.state.latest_messages import LatestMessages, with_recent_pods
from equipoise.runtime.kubernetes.client import Kube
from equipoise.runtime.process.clock import Clock

ORDER = {"epoch": 1, "sequence": 1}


class ClusterNow(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster at one time."""

    snapshot: Snapshot
    placements: Mapping[str, NodePlacement]
    """All pods of each node. The snapshot has only the pods for which windows must be corrected."""

    unknown: Mapping[str, UnknownUsage]
    """Why the load of CPU or memory is unknown, by node."""

    not_expected: Mapping[str, str]
    """Why no load of a node is expected, by node."""

    missing: tuple[str, ...]
    """Resources that this user may not list; without them no move can be planned."""

    problem: str
    """Problems of the measurement, although it has values; empty if there were none."""

    hours: int
    """The number of hours of the past day for which the usage of a workload is known."""


class ClusterSources(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of a reading. `profile_detected`: whether the profile was detected, not configured."""

    source: MetricSource
    promql: PromqlSource | None = None
    """The source of further resources; None if there are none."""

    objects: ListedObjects
    moves: OpenMoves
    settings: AllSettings
    profile_detected: bool
    clock: Clock
    activity: Activity


@asynccontextmanager
async def connected(
    kube: Kube, settings: AllSettings, clock: Clock, activity: Activity, *, profile: str | None
) -> AsyncIterator[ClusterSources]:
    """The sources of a reading: the listed objects and Prometheus. `profile`: the configured profile; None: detect it.

    Raises CommandFailed if permissions are missing, Prometheus cannot be queried, or no profile fits.
    """
    activity.begin("reading nodes and pods from the API server")
    volumes = settings.shared.protection.persistent_volumes
    objects = await list_nodes_and_pods(kube, settings.descheduler.workloads, volumes=volumes)
    moves = await open_moves(kube, settings.shared.kubernetes.namespace)
    prometheus, memory = settings.collector.prometheus, settings.shared.load.memory
    detected = profile is None
    if detected:
        activity.begin("detecting the metrics of Prometheus")
        profile = await detected_profile(
            settings.collector, settings.shared.load, objects.watched.nodes, clock, activity
        )
        prometheus = msgspec.structs.replace(prometheus, profile=profile)
    collector = msgspec.structs.replace(settings.collector, prometheus=prometheus)
    source = CountedSource(PrometheusSource(prometheus, memory=memory, clock=clock), activity)
    opened = open_promql_source(collector, settings.shared.load, clock)
    promql = None if opened is None else CountedPromql(opened, activity)
    try:
        if not detected:
            await source.time()
    except SourceError as error:
        source.close()
        raise PrometheusUnusable(prometheus, error) from None
    try:
        yield ClusterSources(
            source=source, promql=promql, objects=objects, moves=moves, profile_detected=detected, clock=clock,
            activity=activity, settings=msgspec.structs.replace(settings, collector=collector),
        )  # fmt: skip
    finally:
        source.close()
        if promql is not None:
            promql.close()


class PrometheusUnusable(CommandFailed):
    """Prometheus cannot be queried. The message ends with what to do at the command line."""

    def __init__(self, prometheus: PrometheusSettings, error: SourceError) -> None:
        self.refused = isinstance(error, Refused)
        """Whether it requires other credentials."""

        self.problem = f"Prometheus at {prometheus.shown_url} cannot be queried ({error})"
        super().__init__(
            f"{self.problem}: check its address and credentials, or give another address with {PROMETHEUS_OPTION}"
        )


async def detected_profile(
    settings: CollectorSettings,
    load: LoadSettings,
    nodes: Sequence[Node],
    clock: Clock,
    activity: Activity | None = None,
) -> str:
    """The profile that fits Prometheus. Raises PrometheusUnusable, and CommandFailed if no profile fits."""
    prometheus = settings.prometheus
    try:
        matches = await match_profiles(settings, nodes, load=load, clock=clock, activity=activity)
    except SourceError as error:
        raise PrometheusUnusable(prometheus, error) from None
    best = best_profile(matches)
    if best is None:
        problem, fix = no_profile_problem(matches, load.memory)
        raise CommandFailed(f"Prometheus at {prometheus.shown_url}: {problem}. {fix[0].upper()}{fix[1:]}")
    return best


def evaluation_settings(settings: AllSettings) -> EvaluationSettings:
    """The settings of an evaluation, as the descheduler has them."""
    shared = settings.shared
    return settings.descheduler.evaluation(shared.load, shared.thresholds, shared.rules, shared.placement)


async def read_cluster(
    connection: ClusterSources, *, windows: tuple[Window, ...] = (), days: bool = False
) -> ClusterNow:
    """Measure the shortest window and these windows. `days`: whether to measure the daily profiles of workloads, too.

    Raises CommandFailed if nothing can be measured.
    """
    settings, load = connection.settings.collector, connection.settings.shared.load
    clock, activity = connection.clock, connection.activity
    placement = placement_of(settings, load, connection.objects, connection.moves, clock.now())
    measurement = Measurement(
        settings=settings, load=load, source=connection.source, placement=placement, clock=clock,
        known_nodes=lambda: (node.metadata.name for node in connection.objects.watched.nodes),
    )  # fmt: skip
    further = FurtherMeasurement(
        load=load, source=connection.promql, placement=placement, usage=measurement.further, now=measurement.source_now
    )
    for window in windows:
        if window != load.shortest:
            activity.begin(f"measuring the last {window.name}")
            await measurement.round(window)
            await further.round(window)
    if settings.profile.enabled and days:
        # The first round finds the scrape interval, without which no profile is measured.
        await measurement.round(load.shortest)
        learning = ProfileLearning(settings=settings, load=load, measurement=measurement, clock=clock)
        await _measure_days(learning, activity)
    # The shortest window is measured last, so that its samples are new when they are evaluated.
    activity.begin(f"measuring the last {load.shortest.name}")
    if load.resources:
        await measurement.round(load.shortest)  # it finds the difference of clocks
        await further.round(load.shortest)
    await measurement.round(load.shortest)
    if measurement.outage:
        raise CommandFailed(f"nothing can be measured: {measurement.outage}")
    return await _assembled(connection, measurement, placement, further.problem)


def placement_of(
    settings: CollectorSettings, load: LoadSettings, objects: ListedObjects, moves: OpenMoves, now: float
) -> ClusterPlacement:
    """What a collector would know by now if it had watched the pods before their moves."""
    placement = ClusterPlacement(
        windows=[window.length for window in load.windows], start_timeout=load.pod_start_timeout, owner_retention=0.0,
        owner_of=objects.owners.__getitem__, selector=settings.node_selector,
    )  # fmt: skip
    for node in objects.watched.nodes:
        placement.on_node(None, node)
    for pod in objects.watched.pods:
        if moves and (before := before_its_move(pod, moves)) is not None:
            placement.on_pod(None, trimmed(before), now)
        placement.on_pod(None, trimmed(pod), now)
    return placement


async def _measure_days(learning: ProfileLearning, activity: Activity) -> None:
    """Measure every hour of the past day, newest first, until Prometheus refuses one."""
    for number in range(SLOTS):
        slot = learning.next_slot()
        activity.begin(f"measuring the past day of workloads: hour {number + 1} of {SLOTS}")
        if slot is None or await learning.measure(slot):
            return


async def _assembled(
    connection: ClusterSources, measurement: Measurement, placement: ClusterPlacement, further_problem: str
) -> ClusterNow:
    load, names = connection.settings.shared.load, sorted(placement.nodes)
    cycle, unknown = await measurement.cycle(names, shard=WHOLE_CLUSTER, number=1)
    # `now` is the time for which values were requested. Reading the pods of a large cluster takes long, and the age of
    # samples must not depend on it.
    longest, now = load.longest, cycle.queried_at - cycle.skew
    latest = LatestMessages()
    begin = now - longest.length - load.lifetime(longest)
    placements = {name: node_placement for name in names if (node_placement := placement.placement(name)) is not None}
    for node_placement in placements.values():
        latest.on_placement(with_recent_pods(node_placement, begin), now)
    for message in measurement.node_messages(names, **ORDER):
        latest.on_utilization(message, now)
    store = measurement.workload_store
    for usage in store.messages(store.measured, measurement.source_now(), **ORDER):
        latest.on_workload(usage, now)
    latest.on_cycle(msgspec.structs.replace(cycle, **ORDER), now)
    snapshot = Snapshot(
        now=now,
        watched=connection.objects.watched,
        nodes=latest.utilizations,
        workloads=latest.workloads,
        cycles=latest.cycles.current(now),
        placements=latest.placements,
    )
    settling = load.coverage.node_settling_period
    unmeasured = connection.settings.collector.unmeasured_nodes
    not_expected = {
        name: why
        for name, node in placement.nodes.items()
        if (
            why := not_yet_expected(node, now, settling)
            or (name not in latest.utilizations and unmeasurable(node, unmeasured))
        )
    }
    return ClusterNow(
        snapshot=snapshot,
        placements=placements,
        unknown={**measurement.incomplete(name for name in names if name not in not_expected), **unknown},
        not_expected=not_expected,
        missing=connection.objects.missing,
        problem="; ".join(
            filter(
                None,
                (measurement.problem, measurement.pods_problem, measurement.clock_warning, further_problem),
            )
        ),
        hours=max((_known_hours(usage) for usage in latest.workloads.values()), default=0),
    )


def _known_hours(usage: WorkloadUtilization) -> int:
    return max((sum(hour is not None for hour in hours) for hours in usage.profile.values()), default=0)
