"""Finds the nodes that the cluster can do without.

The nodes that save the most per moved pod come first. For a number of them, all the others are targets: each pod goes
to the node that is then the farthest below its thresholds, in its worst hour, so no pod is moved twice and the nodes
stay level. Several numbers are tried, and the one with which the most nodes can go is the answer. Of that, a node stays
whose pods bring a target closer to a threshold than the margin. Neither the numbers nor the targets depend on the
margin, so that a larger margin never has more nodes (docs/decisions/0076).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import msgspec

from equipoise.contracts.messages.consolidation import Bound
from equipoise.contracts.numeric import Array, Flags, np
from equipoise.descheduler.decisions.cluster import ClusterView
from equipoise.descheduler.decisions.cluster_node import ClusterNode, MovablePod, Resource
from equipoise.descheduler.decisions.consolidation.candidates import (
    count_of_pods_to_move,
    is_being_emptied,
    permanent_obstacle,
    pod_obstacle,
    pods_to_move,
    removal_obstacle,
)
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.decisions.consolidation.plan import ConsolidationPlan, EmptiedNode, NodeObstacle
from equipoise.descheduler.decisions.planning.node_arrays import REQUEST_TOLERANCE
from equipoise.descheduler.decisions.planning.thresholds import shares_of
from equipoise.descheduler.state.consolidation.expected_days import HOURS, ExpectedDays
from equipoise.descheduler.state.consolidation.trial import EmptyingTrial, NodeToEmpty, requests_of
from equipoise.descheduler.state.projection import Projection

ALL_NUMBERS = 24
"""Up to this many candidates, every number of them is tried."""

MOST_PODS = 12_000
"""The number of pods that a plan moves at most, so that it takes seconds in the largest clusters. Further nodes are
found once these have gone. If there are fewer pods, more numbers of nodes are tried."""

MOST_WITHOUT_ROOM = 100
"""The number of candidates in a row, without room for their pods, after which the others are not examined: what their
pods use and request, and whether each may move, takes as long as everything else in a large cluster."""

FEWEST_TRIES = 3

ROUNDING = 1e-9

MORE_NODES = 3
"""How many nodes more the answer about requests is for."""

NOT_EXAMINED = "not examined: the nodes before it in the order have too little room for their pods already"
ENOUGH_PODS = f"not examined: {MOST_PODS:,} pods would move already, and further nodes are found once those have gone"
WITH_MORE = "fewer nodes could go with it: the others need its room"

_Order = tuple[bool, bool, float, int, str]

_BOUNDS: Sequence[Bound] = ("requests", "load", "constraints", "pods")


def consolidation_plan(cluster: ClusterView, settings: Consolidation) -> ConsolidationPlan:
    """The nodes that can be emptied, those that are being emptied first, and why the others stay."""
    return _Planner(cluster, settings).plan()


class _Found(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one try."""

    nodes: tuple[EmptiedNode, ...] = ()
    obstacles: Mapping[str, NodeObstacle] = {}
    forecast: Array
    """Nodes × columns: the loads with the moves."""


class _Planner:
    def __init__(self, cluster: ClusterView, settings: Consolidation) -> None:
        self._cluster = cluster
        self._settings = settings
        production = shares_of(cluster.thresholds.prod_high)
        projection = Projection(cluster, cluster.windows[0], production=bool(production))
        self._days = ExpectedDays(cluster, projection)
        self._room: Array = projection.fit.room
        self._staying: dict[str, NodeObstacle] = {}
        self._examined: list[ClusterNode] = []
        """The nodes all of whose pods may move."""

        self._targets: Flags = self._days.known & np.array(
            [not (node.target_refusal or is_being_emptied(node)) for node in cluster.nodes], dtype=np.bool_
        )
        self._candidates = sorted(self._fitting(), key=_order)

    def plan(self) -> ConsolidationPlan:
        unchanged = _Found(forecast=self._days.forecast)
        found, last = unchanged, unchanged
        for number in self._numbers():
            last = self._attempt(number)
            if len(last.nodes) > len(found.nodes):
                found = last
        staying = {**self._staying, **last.obstacles, **found.obstacles}
        for each in found.nodes:
            staying.pop(each.node.name, None)
        others = {candidate.node.name for candidate in self._candidates} - {each.node.name for each in found.nodes}
        staying |= {name: NodeObstacle(why=WITH_MORE, bound="load") for name in others - staying.keys()}
        remaining = self._days.known & ~self._are(found.nodes)
        everywhere = np.ones(len(self._cluster.nodes), dtype=np.bool_)
        bound = _most_frequent(staying)
        return ConsolidationPlan(
            nodes=found.nodes,
            staying=staying,
            hottest_before=self._days.hottest(self._days.forecast, everywhere),
            hottest_after=self._days.hottest(found.forecast, remaining),
            above=self._above(),
            bound=bound,
            requests=self._requests(found.nodes) if bound == "requests" else {},
            unrecorded=self._days.unrecorded,
        )

    # which nodes are tried

    def _ordered(self) -> list[int]:
        """The indexes of all nodes: those that are being emptied, then those without a pod to move, then those that
        save the most per pod."""
        nodes, price_of = self._cluster.nodes, self._settings.prices.price_of

        def order(index: int) -> _Order:
            node = nodes[index]
            return _rank(node, 0 if node.unknown else count_of_pods_to_move(node), price_of(node.labels))

        return sorted(range(len(nodes)), key=order)

    def _candidate(self, index: int, node: ClusterNode) -> NodeToEmpty | NodeObstacle:
        now = self._cluster.now
        being_emptied = is_being_emptied(node)
        settled = permanent_obstacle if being_emptied else partial(removal_obstacle, settings=self._settings, now=now)
        if why := settled(node):
            return NodeObstacle(why=why)
        if not self._days.known[index]:
            return NodeObstacle(why=self._days.why_unknown(index), unknown=True)
        pods = list(pods_to_move(node))
        if why := pod_obstacle(node, pods):
            return NodeObstacle(why=why, bound="pods")
        measured: list[tuple[MovablePod, tuple[Array, Array]]] = []
        for pod in pods:
            of_pod = self._days.of_pod(pod)
            if isinstance(of_pod, str):
                return NodeObstacle(why=f"{pod.namespace}/{pod.name}: {of_pod}", bound="pods")
            measured.append((pod, of_pod))
        # The largest pods first: they have the fewest targets.
        shares = [float(self._days.loads(amounts[1], index)[:HOURS].max()) for _, amounts in measured]
        order = sorted(range(len(measured)), key=lambda place: (-shares[place], measured[place][0].uid))
        return NodeToEmpty(
            node=node,
            index=index,
            pods=[measured[place][0] for place in order],
            amounts=[measured[place][1] for place in order],
            price=self._settings.prices.price_of(node.labels),
            groups=[
                number for number, group in enumerate(self._settings.groups) if group.node_selector.matches(node.labels)
            ],
        )

    def _numbers(self) -> list[int]:
        """How many candidates are tried to be emptied together, ascending."""
        most = len(self._candidates)
        if most <= ALL_NUMBERS:
            return list(range(1, most + 1))
        pods = sum(len(candidate.pods) for candidate in self._candidates)
        tries = max(FEWEST_TRIES, min(ALL_NUMBERS, 2 * MOST_PODS // max(pods, 1)))
        return sorted({most * number // tries for number in range(1, tries + 1)} | {1, 2, 4, 8})

    def _fitting(self) -> list[NodeToEmpty]:
        """The candidates for whose pods the nodes that would remain have room in total, by requests and in every hour.
        Why the others stay is recorded."""
        room = np.where(self._targets[:, np.newaxis], np.maximum(self._room, 0.0), 0.0)
        headroom = self._days.headroom(self._targets)
        free, below = room.sum(axis=0) + REQUEST_TOLERANCE, headroom.sum(axis=0) * (1.0 + ROUNDING)
        fitting: list[NodeToEmpty] = []
        without_room = moved = 0
        for index in self._ordered():
            node = self._cluster.nodes[index]
            if without_room >= MOST_WITHOUT_ROOM or moved >= MOST_PODS:
                why = NOT_EXAMINED if without_room >= MOST_WITHOUT_ROOM else ENOUGH_PODS
                self._staying[node.name] = NodeObstacle(why=why)
                continue
            candidate = self._candidate(index, node)
            if isinstance(candidate, NodeObstacle):
                self._staying[node.name] = candidate
                continue
            self._examined.append(node)
            requests = sum(map(requests_of, candidate.pods), start=np.zeros(len(free)))
            amounts = sum((amount for _, amount in candidate.amounts), start=np.zeros(len(below)))
            free_after = free - room[candidate.index] - requests
            below_after = below - headroom[candidate.index] - amounts
            if (free_after >= 0.0).all() and (below_after >= 0.0).all():
                free, below = free_after, below_after
                fitting.append(candidate)
                without_room, moved = 0, moved + len(candidate.pods)
            else:
                bound: Bound = "load" if (free_after >= 0.0).all() else "requests"
                lacking = "free requests" if bound == "requests" else "room below their thresholds in every hour"
                why = f"the other nodes have too little {lacking} for its pods, besides those of the nodes that go"
                self._staying[node.name] = NodeObstacle(why=why, bound=bound)
                without_room += 1
        return fitting

    def _attempt(self, number: int) -> _Found:
        """The first candidates are emptied, as far as all others have room for their pods."""
        targets = self._targets.copy()
        chosen = self._candidates[:number]
        targets[[candidate.index for candidate in chosen]] = False
        trial = EmptyingTrial(self._cluster, self._days, targets, self._spare())
        emptied: list[EmptiedNode] = []
        obstacles: dict[str, NodeObstacle] = {}
        for candidate in chosen:
            result = trial.empty(candidate)
            if isinstance(result, NodeObstacle):
                obstacles[candidate.node.name] = result
            else:
                emptied.append(result)
        kept = [each for each in emptied if self._with_margin(each)]
        why = f"its pods would bring a node closer to a threshold than {self._settings.margin:g} points (margin)"
        obstacles |= {
            each.node.name: NodeObstacle(why=why, bound="load") for each in emptied if not self._with_margin(each)
        }
        forecast = trial.forecast
        if len(kept) < len(emptied):
            forecast = self._with_moves(kept)
        return _Found(nodes=tuple(kept), obstacles=obstacles, forecast=forecast)

    def _with_margin(self, emptied: EmptiedNode) -> bool:
        """Whether its targets stay below their thresholds as far as they must. A node that is being emptied was chosen
        with the margin, and is not given up before it is used up."""
        return is_being_emptied(emptied.node) or emptied.excess <= -self._settings.margin / 100

    def _with_moves(self, nodes: Sequence[EmptiedNode]) -> Array:
        forecast = self._days.forecast.copy()
        positions = {node.name: index for index, node in enumerate(self._cluster.nodes)}
        amounts = {
            pod.uid: amount
            for candidate in self._candidates
            for pod, (amount, _) in zip(candidate.pods, candidate.amounts, strict=True)
        }
        for each in nodes:
            for pod, target in each.moves:
                row = positions[target.name]
                forecast[row] += self._days.loads(amounts[pod.uid], row)
        return forecast

    def _spare(self) -> list[int]:
        """How many nodes each group can do without."""
        return [
            sum(group.node_selector.matches(node.labels) for node in self._cluster.nodes) - group.min_nodes
            for group in self._settings.groups
        ]

    # what is answered

    def _are(self, nodes: Sequence[EmptiedNode]) -> Flags:
        names = {each.node.name for each in nodes}
        return np.array([node.name in names for node in self._cluster.nodes], dtype=np.bool_)

    def _above(self) -> dict[str, str]:
        excess = self._days.excess(np.nan_to_num(self._days.forecast, nan=-np.inf))
        return {
            self._cluster.nodes[index].name: self._days.highest_text(self._days.forecast[index])
            for index in np.flatnonzero(self._days.known & (excess > 0.0)).tolist()
        }

    def _requests(self, emptied: Sequence[EmptiedNode]) -> Mapping[Resource, tuple[float, float]]:
        """See `ConsolidationPlan.requests`."""
        gone = {each.node.name for each in emptied}
        remaining = [node for node in self._cluster.nodes if node.name not in gone]
        more = [node for node in self._examined if node.name not in gone][:MORE_NODES]
        if len(more) < MORE_NODES:
            return {}
        moved = [pod for each in emptied for pod, _ in each.moves]
        result: dict[Resource, tuple[float, float]] = {}
        resources: Sequence[tuple[Resource, float]] = (("cpu", 1_000.0), ("memory", 1.0))
        for resource, unit in resources:
            requested = sum(node.requested.get(resource, 0.0) for node in remaining)
            requested += sum(pod.info.request(resource) for pod in moved) / unit
            offered = sum(node.allocatable.get(resource, 0.0) for node in remaining)
            lost = sum(node.allocatable.get(resource, 0.0) for node in more)
            if offered > lost:
                result[resource] = (requested, requested * (offered - lost) / offered)
        return result


def _order(candidate: NodeToEmpty) -> _Order:
    return _rank(candidate.node, len(candidate.pods), candidate.price)


def _rank(node: ClusterNode, pods: int, price: float | None) -> _Order:
    return not is_being_emptied(node), pods > 0, -(price or 0.0) / max(pods, 1), pods, node.name


def _most_frequent(staying: Mapping[str, NodeObstacle]) -> Bound:
    counts = Counter(_bounds(staying))
    return max(_BOUNDS, key=lambda bound: counts[bound]) if counts else ""


def _bounds(staying: Mapping[str, NodeObstacle]) -> Iterator[Bound]:
    return (obstacle.bound for obstacle in staying.values() if obstacle.bound)
