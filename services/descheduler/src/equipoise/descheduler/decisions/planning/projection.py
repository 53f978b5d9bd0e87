"""How the fleet would look once the moves planned so far, and those under way, are done."""

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from equipoise.contracts.fit import FitNode, Neighbours, PodIndex, neighbour_refusal, neighbours, node_refusal
from equipoise.descheduler.decisions.planning.node_arrays import (
    MEASURED,
    Array,
    amount_of,
    amounts,
    bases,
    production_amounts,
)
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod, Resource


class Saved(msgspec.Struct, frozen=True, kw_only=True):
    """A projection at one moment."""

    amounts: Array
    production: Array
    fits: list[FitNode]
    room: Array | None


class Projection:
    """The working copy of one plan. Requests move with the pods: what left sets room free, what came takes it."""

    def __init__(self, fleet: Fleet, window: str, *, production: bool = False) -> None:
        """`production`: whether what production pods use is followed too."""
        self.positions = {node.name: place for place, node in enumerate(fleet.nodes)}
        """By name, the row of each node."""

        self.base = bases(fleet.nodes)
        self.amounts = amounts(fleet.nodes, window, projected=True)
        """Nodes × resources: cores, bytes and pods; NaN where unknown."""

        if production:
            self.production, self.production_whole = production_amounts(fleet.nodes)
        else:
            self.production = np.full(self.base.shape, np.nan)
            self.production_whole = np.zeros(len(fleet.nodes), dtype=np.bool_)
        self.fits = [node.fit for node in fleet.nodes]
        self._census: PodIndex | None = None
        self._room: Array | None = None

    def load(self, node: FleetNode) -> dict[Resource, float]:
        """Expected load (0..1) of the resources that are known."""
        return known_loads(self._loads(node))

    def load_with(self, node: FleetNode, pod: MovablePod) -> dict[Resource, float]:
        """Expected load with one more pod."""
        place = self.positions[node.name]
        return known_loads((self.amounts[place] + amount_of(pod)) / self.base[place])

    def production_load(self, node: FleetNode) -> dict[Resource, float]:
        """Expected load (0..1) of production, as far as it is known."""
        place = self.positions[node.name]
        return known_loads(self.production[place] / self.base[place])

    def _loads(self, node: FleetNode) -> Array:
        place = self.positions[node.name]
        loads: Array = self.amounts[place] / self.base[place]
        return loads

    @property
    def room(self) -> Array:
        """Nodes × (cores, bytes, pods) that nobody has asked for yet."""
        if self._room is None:
            self._room = np.array([_room(fit) for fit in self.fits]).reshape(-1, len(MEASURED))
        return self._room

    @property
    def requested(self) -> Array:
        """Nodes × (cpu, memory): share (0..1) of what the node offers that its pods ask for."""
        offered = np.array([_offered(fit) for fit in self.fits]).reshape(-1, 2)
        return requested_share(offered, self.room[:, :2])

    def around(self, pod: MovablePod) -> Neighbours:
        """What the other pods mean to this one: gathered once, asked for every target."""
        if self._census is None:
            self._census = PodIndex(self.fits)
        return neighbours(pod.fit, self.fits, self._census)

    def refusal(self, pod: MovablePod, target: FleetNode, around: Neighbours) -> str:
        """ "" when kube-scheduler's filters would let the replacement in, else why not."""
        fit = self.fits[self.positions[target.name]]
        return node_refusal(pod.fit, fit) or neighbour_refusal(fit, around)

    def move(self, pod: MovablePod, target: str) -> None:
        source, there, amount = self.positions[pod.node], self.positions[target], amount_of(pod)
        for values in (self.amounts, self.production) if pod.production else (self.amounts,):
            values[source] = np.maximum(values[source] - amount, 0.0)
            values[there] += amount
        self._put(source, _without(self.fits[source], pod))
        self._put(there, _with(self.fits[there], pod))
        if self._census is not None:
            self._census.move(pod.fit, pod.node, target)

    def saved(self) -> "Saved":
        """To come back to, when moves were only tried."""
        return Saved(
            amounts=self.amounts.copy(),
            production=self.production.copy(),
            fits=list(self.fits),
            room=None if self._room is None else self._room.copy(),
        )

    def restore(self, saved: "Saved", tried: Sequence[tuple[MovablePod, str]]) -> None:
        """As it was when `saved`; `tried`: the moves since then, and where each went."""
        self.amounts, self.production, self.fits, self._room = (
            saved.amounts,
            saved.production,
            saved.fits,
            saved.room,
        )
        for pod, target in reversed(tried):
            if self._census is not None:
                self._census.move(pod.fit, target, pod.node)

    def _put(self, place: int, fit: FitNode) -> None:
        self.fits[place] = fit
        if self._room is not None:
            self._room[place] = _room(fit)


def known_loads(loads: Array) -> dict[Resource, float]:
    """One row by the names of its columns, without what is unknown."""
    told: Mapping[Resource, float] = dict(zip(MEASURED, loads.tolist(), strict=True))
    return {resource: load for resource, load in told.items() if not math.isnan(load)}


def requested_share(offered: Array, room: Array) -> Array:
    """What is asked for of what is offered; all of it where nothing is offered."""
    with np.errstate(divide="ignore", invalid="ignore"):
        shares: Array = np.where(offered > 0, 1.0 - room / offered, 1.0)
    return shares


def _offered(node: FitNode) -> tuple[float, float]:
    return node.allocatable.get("cpu", 0.0), node.allocatable.get("memory", 0.0)


def _room(node: FitNode) -> tuple[float, float, float]:
    free, taken = node.allocatable, node.requested
    return (
        free.get("cpu", 0.0) - taken.get("cpu", 0.0),
        free.get("memory", 0.0) - taken.get("memory", 0.0),
        free.get("pods", 0.0) - len(node.pods),
    )


def _with(node: FitNode, pod: MovablePod) -> FitNode:
    return msgspec.structs.replace(node, pods=[*node.pods, pod.fit])


def _without(node: FitNode, pod: MovablePod) -> FitNode:
    return msgspec.structs.replace(node, pods=[other for other in node.pods if other.uid != pod.uid])
