"""Everything that one look at the cluster stands on, and what follows from it. Nothing in it changes any more.

So a thread can work on it while the service goes on hearing: at 5,000 nodes a look takes seconds.
"""

from collections.abc import Collection, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.eviction.protection import Rules
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.correction import skew_of
from equipoise.contracts.load.coverage import coverage_problem
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle, WorkloadUtilization
from equipoise.descheduler.decisions.evaluation.annotation_check import misread_annotations
from equipoise.descheduler.decisions.evaluation.cluster_builder import (
    Picture,
    Remembered,
    Watched,
    arrivals_of,
    pods_of,
    touched,
)
from equipoise.descheduler.decisions.evaluation.forecast import ProfileDays, working
from equipoise.descheduler.decisions.evaluation.node_usage import Measures
from equipoise.descheduler.decisions.strategies import Strategy, readings
from equipoise.descheduler.state import dry_run_moves as assumptions
from equipoise.descheduler.state.abnormal_counts import Reading
from equipoise.descheduler.state.cluster import Fleet, IntentLimits, Move
from equipoise.descheduler.state.cool_downs import CoolDowns
from equipoise.descheduler.state.daily_usage import Days, NodeParts
from equipoise.descheduler.state.dry_run_moves import Assumptions, Place
from equipoise.descheduler.state.pending_moves import Arrival, Flights, busy_workloads, unsettled
from equipoise.descheduler.state.pod_lifetimes import PodStays, takes_room


class Configured(msgspec.Struct, frozen=True, kw_only=True):
    """What the configuration says of it."""

    load: LoadSettings
    thresholds: Thresholds
    rules: Rules
    limits: IntentLimits


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """What was watched, heard and remembered at one time."""

    now: float
    watched: Watched
    nodes: Mapping[str, NodeUtilization]
    workloads: Mapping[Workload, WorkloadUtilization]
    cycles: Collection[UtilizationCycle]
    stays: PodStays
    flights: Flights = {}
    cool_downs: CoolDowns = {}
    assumptions: Assumptions = {}


class Changes(msgspec.Struct, frozen=True, kw_only=True):
    """What has become of what was remembered."""

    arrivals: Sequence[Arrival]
    places: Mapping[str, Place]
    """By UID, of the assumed pods that run on and are not leaving."""

    nodes: Collection[str]
    misread: str
    """Opt-out annotations that somebody may have meant otherwise."""


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """What a strategy says of every node."""

    verdicts: Sequence[NodeClassification]
    readings: Sequence[Reading]


def changes(watched: Watched, waiting: Collection[Workload], assumed: Assumptions) -> Changes:
    """`waiting`: the workloads of which a replacement is looked for."""
    places = {
        pod.metadata.uid: Place(node=pod.spec.node_name, workload=watched.workload_of(pod))
        for pod in (watched.pods if assumed else ())
        if pod.metadata.uid in assumed and takes_room(pod) and pod.metadata.deletion_timestamp is None
    }
    return Changes(
        arrivals=arrivals_of(watched, waiting),
        places=places,
        nodes={node.metadata.name for node in watched.nodes},
        misread=misread_annotations(watched),
    )


class Look:
    """One look at the cluster: what was there is put together once, whatever is proposed meanwhile."""

    def __init__(self, moment: Moment, configured: Configured) -> None:
        load = configured.load
        measures = Measures(
            nodes=moment.nodes,
            workloads=moment.workloads,
            stays=moment.stays,
            settings=load,
            skew=skew_of(moment.cycles),
        )
        remembered = Remembered(flights=moment.flights, cool_downs=moment.cool_downs)
        self._moment = moment
        self._configured = configured
        self._picture = Picture(moment.watched, measures, remembered, configured.rules, now=moment.now)
        self._days = Days(ProfileDays(moment.workloads), self._working(self._picture, moment.assumptions))
        self.fleet = self._fleet(self._picture, self._days, moment.assumptions)
        """The cluster as strategies judge it, moves under way and assumed ones included."""

    def after(self, flights: Flights, assumed: Assumptions) -> Fleet:
        """The same cluster with these moves under way, and these assumed."""
        picture, changed = self._picture.after(flights)
        changed |= touched(self._moment.assumptions, assumed)
        return self._fleet(picture, self._days.changed(changed, self._working(picture, assumed)), assumed)

    def _working(self, picture: Picture, assumed: Assumptions) -> NodeParts:
        moment = self._moment
        return working(picture, nodes=moment.nodes, workloads=moment.workloads, assumptions=assumed)

    def _fleet(self, picture: Picture, days: Days, assumed: Assumptions) -> Fleet:
        configured, moment = self._configured, self._moment
        nodes = picture.nodes(settling=configured.load.coverage.node_settling_period)
        return Fleet(
            now=moment.now,
            nodes=assumptions.applied(nodes, assumed),
            thresholds=configured.thresholds,
            windows=[window.name for window in configured.load.windows],
            limits=configured.limits,
            days=days,
            busy_workloads=busy_workloads(picture.flights),
            in_flight=unsettled(picture.flights),
        )


def blindness_of(fleet: Fleet, moment: Moment, load: LoadSettings, *, unwatched: str) -> str:
    """Why nothing may be moved at present; "" when enough is seen. `unwatched`: what is wrong with the watches."""
    if unwatched:
        return f"the API server is not followed: {unwatched}"
    known = sum(not node.unknown for node in fleet.nodes)
    return coverage_problem(moment.cycles, known=known, load=load, use="eviction", now=moment.now)


def judged(strategy: Strategy, fleet: Fleet) -> Judged:
    """The verdicts, each with the sample it stands on, and how they count."""
    verdicts = strategy.verdicts(fleet)
    read = readings(strategy, fleet, verdicts)
    sampled_at = {each.node: each.sampled_at for each in read}
    return Judged(
        verdicts=[
            msgspec.structs.replace(verdict, sampled_at=sampled_at.get(verdict.node, 0.0)) for verdict in verdicts
        ],
        readings=read,
    )


def siblings(watched: Watched, moves: Sequence[Move]) -> dict[Workload, list[str]]:
    """UIDs of the pods that there are of the workloads of these moves: none of them will be a replacement."""
    found = pods_of(watched, [move.pod.workload for move in moves if move.pod.workload is not None])
    return {workload: [pod.metadata.uid for pod in pods] for workload, pods in found.items()}
