"""The responses to prioritize and filter requests, from the state of the cluster.

Without sufficient data, the responses are neutral (`neutral_scores`). No I/O; times are arguments.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import msgspec

from equipoise.contracts.colocation.bands import OFFERED_BANDS
from equipoise.contracts.configuration.settings import FurtherThresholds, LoadSettings, ResourceThresholds
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.load.emptying import Emptying
from equipoise.contracts.load.node_coverage import coverage_problem
from equipoise.contracts.messages.placement import NodePlacement, PlacedPod
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.score import ScoreDecision, ShadowResult
from equipoise.contracts.messages.utilization import UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources
from equipoise.contracts.numeric import Array, Rows, np
from equipoise.scorer.decisions.arrays import BandRoom, CandidateNodes, Demand, resources
from equipoise.scorer.decisions.filtering import FilteredNodes, above_thresholds, without_refused
from equipoise.scorer.decisions.neutral_scores import MAX_SCORE, ExtenderScores, NeutralReason, neutral
from equipoise.scorer.decisions.ranking import Ranking, best_nodes, rank
from equipoise.scorer.decisions.scoring_settings import ScoringSettings
from equipoise.scorer.state.known_demands import KnownDemands
from equipoise.scorer.state.node_table import NodeTable
from equipoise.scorer.state.placement_hints.expected_replacements import ExpectedReplacements
from equipoise.scorer.state.reservations import NegativeReservation, PodReservation, Reservations
from equipoise.scorer.state.shadow import Shadow


class Prioritized(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a prioritize request; `ranking` is None if the nodes were not scored."""

    scores: ExtenderScores
    reason: NeutralReason = ""
    ranking: Ranking | None = None
    shadow: ShadowResult | None = None


class NewPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """A pod that is new on `node`, with its reservation if that had not expired."""

    node: str
    pod: PlacedPod
    reservation: PodReservation | None

    @property
    def followed(self) -> bool:
        """The node is one of the best nodes of the response."""
        return self.reservation is not None and self.node in self.reservation.best


class ScoringState:
    """The nodes of the cluster, their reservations, the recent evictions, and the responses computed from them."""

    def __init__(
        self,
        load: LoadSettings,
        settings: ScoringSettings,
        *,
        max_score: int = MAX_SCORE,
        limits: Mapping[str, FurtherThresholds] = MappingProxyType({}),
    ) -> None:
        """`limits`: the thresholds of further resources, which the filter checks."""
        self.load = load
        self.settings = settings
        self.policy = settings.policy
        self.max_score = max_score
        self._limits = {name: threshold.high for name, threshold in limits.items()}
        self.shadow = None if settings.shadow is None else Shadow(settings.shadow, settings)
        policies = [policy for policy in (settings.policy, settings.shadow) if policy is not None]
        self.nodes = NodeTable(
            load,
            self.policy.demand_chain,
            statistics=tuple(dict.fromkeys(name for policy in policies for name in policy.statistics)),
            placement_spans=tuple(span for policy in policies for span in policy.placement_spans),
            daily_loads=any(policy.uses_daily_loads for policy in policies),
            further=tuple(dict.fromkeys([*(name for policy in policies for name in policy.further), *limits])),
            reclaimed_lifetime=settings.reclaimed.lifetime if settings.reclaimed.enabled else None,
        )
        self._demands = KnownDemands(self.nodes, self.policy.demand_chain)
        self.reservations = Reservations(settings.reservation_timeout)
        self._band_reservations = Reservations(settings.reservation_timeout)
        """Reservations of amounts that are bands × resources, instead of windows × resources."""

        self.replacements = ExpectedReplacements(settings.replacement_hint_duration)
        self.emptying = Emptying()

    def on_cycle(self, message: UtilizationCycle, now: float) -> bool:
        """False if the message is outdated."""
        return self.nodes.messages.on_cycle(message, now)

    def on_placement(self, message: NodePlacement, now: float) -> list[NewPlacement] | None:
        """Ends the reservations of the pods that are new on the node; None for an outdated message."""
        pods = self.nodes.on_placement(message, now)
        if pods is None:
            return None
        self.replacements.on_placed(pods, now)
        return [NewPlacement(node=message.node, pod=pod, reservation=self._release(pod.uid)) for pod in pods]

    def prune(self, now: float) -> None:
        """Remove what is no longer used, so that memory does not grow over the years."""
        self.nodes.prune(now)
        self.replacements.prune(now)
        self.reservations.prune(now)
        self._band_reservations.prune(now)

    def coverage_problem(self, now: float) -> str:
        """Why every score is neutral now; empty when coverage is sufficient."""
        cycles, known = self.nodes.messages.cycles.current(now), self.nodes.fresh_count(now)
        return coverage_problem(cycles, known=known, load=self.load, use="score", now=now)

    def prioritize(self, pod: PodDemand, names: Sequence[str], now: float, *, rows: Rows | None = None) -> Prioritized:
        """Score the nodes for the pod, and reserve its usage on the best ones. `rows`: those of the names."""
        if why := self.coverage_problem(now):
            return Prioritized(scores=neutral(len(names), why), reason="coverage")
        if not names:
            return Prioritized(scores=neutral(0, "the request names no node"), reason="no_nodes")
        hint = self.replacements.assign(pod.uid, pod.workload, names, now)
        self._release(pod.uid)
        demand, nodes, rows = self.inputs(pod, names, now, rows=rows)
        ranking = rank(self.policy, nodes, demand, hint, self.settings, self.max_score)
        self._reserve(pod, ranking, rows, now)
        return Prioritized(
            scores=ranking.scores,
            reason="alike" if ranking.scores.neutral else "",
            ranking=ranking,
            shadow=self._shadow_result(ranking, pod, rows, now),
        )

    def filter(self, pod: PodDemand, names: Sequence[str], high: ResourceThresholds, now: float) -> FilteredNodes:
        """Refuse nodes that are too hot for the pod; none if coverage is insufficient."""
        if not names or self.coverage_problem(now):
            return FilteredNodes(nodes=list(names))
        self.replacements.assign(pod.uid, pod.workload, names, now)
        demand, nodes, _ = self.inputs(pod, names, now)
        refused = self.policy.refuse(nodes, demand)
        return without_refused(
            names, above_thresholds(nodes, demand, high, self._limits) if refused is None else refused
        )

    def decision(self, prioritized: Prioritized, pod: PodDemand, count: int, now: float) -> ScoreDecision:
        """The decision to publish for a request with `count` candidates."""
        scores, ranking = prioritized.scores, prioritized.ranking
        sources = {} if ranking is None else ranking.demand.sources
        return ScoreDecision(
            pod=pod,
            policy=self.policy.policy_name(),
            demand=Resources() if ranking is None else resources(ranking.demand.usage[0]),
            demand_source="; ".join(f"{resource}: {source}" for resource, source in sources.items()),
            level=Resources() if ranking is None else self.policy.level(ranking.nodes),
            best=[] if ranking is None else best_nodes(ranking, lambda node: self.nodes.why_unknown(node, now)),
            considered=count,
            neutral=scores.neutral,
            why=scores.why,
            decided_at=now,
            shadow=prioritized.shadow,
        )

    def inputs(
        self,
        pod: PodDemand,
        names: Sequence[str],
        now: float,
        *,
        rows: Rows | None = None,
        without: NegativeReservation | None = None,
    ) -> tuple[Demand, CandidateNodes, Rows]:
        """The arrays that policies score, and the row of each node. The pod's own reservation does not count."""
        demand = self._demands.demand(pod, now)
        rows = self.nodes.rows(names) if rows is None else rows
        reserved, spans = self.reserved(now, without=pod.uid), self.policy.placement_spans
        nodes = self.nodes.candidates(names, rows, now, reserved, spans=spans, without=without)
        if demand.band is not None:
            bands = self.band_room(rows, now, uid=pod.uid, without=without)
            nodes = msgspec.structs.replace(nodes, bands=bands)
        if emptied := self.emptied(now):
            nodes = msgspec.structs.replace(nodes, emptied=emptied)
        return demand, nodes, rows

    def emptied(self, now: float) -> dict[str, str]:
        """The nodes that consolidation is emptying, by name, with a text that states why."""
        placements = self.nodes.messages.placements
        return {
            node.node: f"it is {node.text}"
            for uid, node in self.emptying.nodes(now).items()
            if (placement := placements.get(node.node)) is not None and placement.uid == uid
        }

    def band_room(
        self, rows: Rows, now: float, *, uid: str = "", without: NegativeReservation | None = None
    ) -> BandRoom | None:
        """The amounts that are left of each band on these rows. None without co-location.

        Reservations of the pod `uid` are not subtracted.
        """
        reserved = self._band_reservations.total(self.nodes.capacity, now, without=uid)
        return self.nodes.band_room(rows, now, reserved, without)

    def reserved(self, now: float, *, without: str) -> Array | None:
        """The reserved usage: rows × windows × resources.

        It contains the reservations, and the expected replacements that have no reservation, except those of the pod
        `without`.
        """
        reserved = self.reservations.total(self.nodes.capacity, now, without=without)
        unplaced = self.replacements.reserved(now, without=without, reservations=self.reservations)
        if not unplaced:
            return reserved
        if reserved is None:
            reserved = np.zeros((self.nodes.capacity, len(self.nodes.windows), len(RESOURCES)))
        else:
            reserved = reserved.copy()
        rows = self.nodes.rows([node for node, _ in unplaced])
        for row, (_, usage) in zip(rows, unplaced, strict=True):
            if row >= 0:
                reserved[row] += [usage.cpu or 0.0, usage.memory or 0.0]
        return reserved

    def _reserve(self, pod: PodDemand, ranking: Ranking, rows: Rows, now: float) -> None:
        """A request without a UID reserves nothing: no such pod will be placed."""
        best = ranking.scores.best
        best_rows = rows[best]
        best_rows = best_rows[best_rows >= 0]
        if not pod.uid or not len(best_rows):
            return
        demand, names = ranking.demand, frozenset(map(ranking.names.__getitem__, best.tolist()))
        chance = len(best) / len(ranking.names)
        usage = demand.usage
        if demand.batch_work:  # a placed pod counts with this weight, too
            weight = self.load.batch_work_weight
            usage = usage * (weight.cpu, weight.memory)
        self.reservations.reserve(pod.uid, rows=best_rows, usage=usage, best=names, chance=chance, now=now)
        if demand.band is not None and ranking.nodes.bands is not None:
            requests = np.zeros((len(OFFERED_BANDS), len(RESOURCES)))
            requests[OFFERED_BANDS.index(demand.band)] = np.nan_to_num(demand.band_requests)
            self._band_reservations.reserve(pod.uid, rows=best_rows, usage=requests, best=names, chance=chance, now=now)

    def _release(self, uid: str) -> PodReservation | None:
        self._band_reservations.release(uid)
        return self.reservations.release(uid)

    def _shadow_result(self, ranking: Ranking, pod: PodDemand, rows: Rows, now: float) -> ShadowResult | None:
        if self.shadow is None:
            return None
        placements = self.nodes.recent_placements(rows, self.shadow.policy.placement_spans, now)
        workload, daily = self.nodes.workload_usage(pod.workload, now), self.nodes.daily_profile(pod.workload)
        return self.shadow.result(ranking, placements, pod, workload, daily)
