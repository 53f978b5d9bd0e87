"""What every pod in question would change on every node, as one table that is kept up to date while a plan is made.

How unlevel a fleet is: the sum over its nodes of the squared distance of their load from the fleet's, as weighted mean
over the hours of the coming day and the present, cpu and memory by their weights. A pod of day p that comes to a node
of base b which is d away from the fleet changes that by Σ 2·d·p/b + (p/b)²; one that leaves by Σ −2·d·p/b + (p/b)². So
a table for all pods and nodes is a product of matrices.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.descheduler.decisions.planning.node_arrays import REQUEST_TOLERANCE, Array, Flags
from equipoise.descheduler.state.cluster import MovablePod

Places = npt.NDArray[np.int64]

_BLOCK = 64
"""Pods that are looked at together: what is worked out for all nodes then stays in the processor's cache."""

_ROUNDING = 1e-12
"""Squared shares by which sums may be off."""


class Single(msgspec.Struct, frozen=True, kw_only=True):
    """A move that needs no other."""

    pod: int
    target: int
    gain: float


class Chain(msgspec.Struct, frozen=True, kw_only=True):
    """`first` leaves `target` for `elsewhere`; then `second`, for which there was no room, comes to `target`."""

    first: int
    elsewhere: int
    second: int
    target: int
    gain: float
    """Of both moves together."""


class DayTable:
    """Pods are known by their row, nodes by their place in the fleet. Gains are in squared shares."""

    def __init__(self, used: Array, base: Array, room: Array, *, slots: Array, resources: Array) -> None:
        """`used`: nodes × resources × slots, cores and bytes, NaN for a node of unknown day, which is left alone;
        `base`: nodes × resources; `room`: nodes × (cores, bytes, pods) nobody has asked for.

        `slots`, `resources`: how much each counts; those of the slots add up to 1.
        """
        self.known: Flags = ~np.isnan(
            np.concatenate([used.reshape(len(used), math.prod(used.shape[1:])), base], axis=1)
        ).any(axis=1)
        self.base = np.where(self.known[:, np.newaxis], base, 1.0)
        self.used = np.where(self.known[:, np.newaxis, np.newaxis], used, 0.0)
        self._room = room.copy()
        self._slots, self._resources = slots, resources
        whole = self.base[self.known].sum(axis=0)
        self.mean: Array = self.used[self.known].sum(axis=0) / np.where(whole > 0, whole, 1.0)[:, np.newaxis]
        """resources × slots: where every node would be in a level fleet."""

        self.pods: list[MovablePod] = []
        nodes = len(base)
        self.home: Places = np.zeros(0, dtype=np.int64)
        """Per pod: its node."""

        self._workload: Places = np.zeros(0, dtype=np.int64)
        self._workloads: dict[Workload | None, int] = {}
        self.day = np.zeros((0, *used.shape[1:]))
        """Pods × resources × slots: cores and bytes."""

        self._asks = np.zeros((0, room.shape[1]))
        self._squares = np.zeros((0, base.shape[1]))
        self._gain = np.zeros((0, nodes))
        """Pods × nodes: what the move would level."""

        self._shut = np.zeros((0, nodes), dtype=np.bool_)
        """Pods × nodes: for reasons that moves do not change."""

        self._best: Places = np.zeros(0, dtype=np.int64)
        self._best_gain = np.zeros(0)

    @property
    def distance(self) -> Array:
        """Nodes × resources × slots: how far each is above (below: negative) the fleet; 0 for an unknown one."""
        shares = self.used / self.base[:, :, np.newaxis]
        distance: Array = np.where(self.known[:, np.newaxis, np.newaxis], shares - self.mean, 0.0)
        return distance

    def add(self, pods: Sequence[MovablePod], homes: Sequence[int], days: Array, open_nodes: Flags) -> None:
        """Rows for pods, with their days (pods × resources × slots); `open_nodes`: per node, whether it takes pods."""
        if not pods:
            return
        asks = [(ask.get("cpu", 0.0), ask.get("memory", 0.0), 1.0) for ask in (pod.fit.requests for pod in pods)]
        self.pods += pods
        self.home = np.concatenate([self.home, np.array(homes, dtype=np.int64)])
        numbers = [self._workloads.setdefault(pod.workload, len(self._workloads)) for pod in pods]
        self._workload = np.concatenate([self._workload, np.array(numbers, dtype=np.int64)])
        self.day = np.concatenate([self.day, days])
        self._asks = np.concatenate([self._asks, np.array(asks)])
        self._squares = np.concatenate([self._squares, (days * days) @ self._slots])
        shut = np.repeat(~(open_nodes & self.known)[np.newaxis], len(pods), axis=0)
        shut[np.arange(len(pods)), homes] = True
        self._shut = np.concatenate([self._shut, shut])
        new = np.arange(len(self.pods) - len(pods), len(self.pods))
        everywhere = np.arange(len(self.base))
        self._gain = np.concatenate([self._gain, self._gains(new, everywhere)])
        self._best = np.concatenate([self._best, np.zeros(len(pods), dtype=np.int64)])
        self._best_gain = np.concatenate([self._best_gain, np.zeros(len(pods))])
        self._find_best(new)

    def wanted(self, rows: Places) -> Array:
        """Per node: the most that one of these pods would level by coming, room or not; −∞ where none may."""
        if not len(rows):
            return np.full(len(self.base), -np.inf)
        gains: Array = np.where(self._shut[rows], -np.inf, self._gain[rows]).max(axis=0)
        return gains

    def shut(self, pod: int, nodes: Flags | int) -> None:
        """These nodes do not take the pod, whatever moves."""
        self._shut[pod, nodes] = True
        self._find_best(np.array([pod]))

    def holds(self, chain: Chain) -> bool:
        """Is the way of a chain still open, after nodes were shut?"""
        return (
            bool(self._best[chain.first] == chain.elsewhere and np.isfinite(self._best_gain[chain.first]))
            and not (self._shut[chain.second, chain.target])
        )

    def retire(self, pod: int) -> None:
        """The pod stays where it is for the rest of the plan."""
        self._shut[pod] = True
        self._find_best(np.array([pod]))

    def best_single(self, rows: Places) -> Single | None:
        """Of these pods the move that levels most among those that have room."""
        if not len(rows):
            return None
        row = int(rows[self._best_gain[rows].argmax()])
        gain = float(self._best_gain[row])
        return Single(pod=row, target=int(self._best[row]), gain=gain) if gain > 0 else None

    def hopeful(self, rows: Places) -> Places:
        """Of these pods those that would level somewhere if there were room, the most hopeful first."""
        hoped = np.where(self._shut[rows], -np.inf, self._gain[rows]).max(axis=1, initial=-np.inf)
        ordered: Places = rows[np.argsort(-hoped, kind="stable")]
        return ordered[: int((hoped > 0).sum())]

    def best_chains(self, seconds: Places, *, most: int, least: float) -> list[Chain]:
        """Pairs of moves, best first: one of these pods, and one that makes room for it at its target.

        Only pairs that gain more than `least` are told, at most so many.
        """
        seconds, firsts = self._likely_pairs(seconds, least)
        if not len(seconds):
            return []
        there = self.home[firsts]
        at = np.ix_(seconds, there)
        alone = np.where(self._shut[at], -np.inf, self._gain[at])
        gains = alone + self._best_gain[firsts]
        gains[self._pointless(seconds, there, self._asks[firsts], alone)] = -np.inf
        gains[self._workload[seconds][:, np.newaxis] == self._workload[firsts]] = -np.inf
        # What both use in the same hours counts once more where one takes the other's place.
        back = np.nonzero(np.isfinite(gains) & (self._best[firsts] == self.home[seconds][:, np.newaxis]))
        for resource, weight in enumerate(self._resources):
            common = (self.day[seconds, resource] * self._slots) @ self.day[firsts, resource].T
            gains += common * (2.0 * weight / self.base[there, resource] ** 2)
            gains[back] += common[back] * (2.0 * weight / self.base[self.home[seconds[back[0]]], resource] ** 2)
        flat = gains.ravel()
        places = np.flatnonzero(flat > least)
        if len(places) > most:
            places = places[np.argpartition(-flat[places], most)[:most]]
        return [
            Chain(
                first=int(firsts[first]),
                elsewhere=int(self._best[firsts[first]]),
                second=int(seconds[second]),
                target=int(there[first]),
                gain=float(flat[place]),
            )
            for place in places[np.argsort(-flat[places], kind="stable")]
            for second, first in (divmod(int(place), len(firsts)),)
        ]

    def _likely_pairs(self, seconds: Places, least: float) -> tuple[Places, Places]:
        """Of these pods those that may gain more than `least` in a pair with another, and the others it may be with.

        Asked of nodes instead of pods, of which each has many. By Cauchy and Schwarz what two pods use in the same
        hours is at most the root of the product of their squares.
        """
        firsts = np.flatnonzero(np.isfinite(self._best_gain))
        targets, place = np.unique(self.home[firsts], return_inverse=True)
        if not len(seconds) or not len(firsts):
            return seconds[:0], firsts[:0]
        most = np.full(len(targets), -np.inf)
        np.maximum.at(most, place, self._best_gain[firsts])
        sizes = np.zeros((len(targets), len(self._resources)))
        np.maximum.at(sizes, place, np.sqrt(self._squares[firsts]))
        asked = np.zeros((len(targets), self._asks.shape[1]))
        np.maximum.at(asked, place, self._asks[firsts])
        back = np.zeros((len(self.base), len(targets)), dtype=np.bool_)
        back[self._best[firsts], place] = True
        at, homes = np.ix_(seconds, targets), self.home[seconds]
        alone = np.where(self._shut[at], -np.inf, self._gain[at])
        bound = alone + most
        for resource, weight in enumerate(self._resources):
            common = 2.0 * weight * np.outer(np.sqrt(self._squares[seconds, resource]), sizes[:, resource])
            bound += common / self.base[targets, resource] ** 2
            bound += np.where(back[homes], common / self.base[homes, resource, np.newaxis] ** 2, 0.0)
        likely = (bound > least - _ROUNDING) & ~self._pointless(seconds, targets, asked, alone)
        return seconds[likely.any(axis=1)], firsts[likely.any(axis=0)[place]]

    def _pointless(self, seconds: Places, nodes: Places, freed: Array, alone: Array) -> Flags:
        """seconds × nodes: what is `freed` there (nodes × resources) is too little for the pod, or nobody has to leave.

        `alone`: what the pod gains by coming; who has room already and levels by that needs no other to go.
        """
        short, needless = np.zeros(alone.shape, dtype=np.bool_), alone > 0
        for column, asked in enumerate(self._asks[seconds].T):
            room = self._room[nodes, column] + REQUEST_TOLERANCE[column]
            short |= asked[:, np.newaxis] > room + freed[:, column]
            needless &= asked[:, np.newaxis] <= room
        pointless: Flags = short | needless
        return pointless

    def move(self, pod: int, target: int) -> None:
        """The pod goes there, and stays there for the rest of the plan."""
        source = int(self.home[pod])
        for node, sign in ((source, -1.0), (target, 1.0)):
            self.used[node] += sign * self.day[pod]
            self._room[node] -= sign * self._asks[pod]
        self.home[pod] = target
        self._shut[pod] = True
        changed = np.array([source, target])
        everyone = np.arange(len(self.pods))
        on_them = np.flatnonzero(np.isin(self.home, changed))
        self._gain[:, changed] = self._gains(everyone, changed)
        self._gain[on_them] = self._gains(on_them, np.arange(len(self.base)))
        self._find_best_after(source, target)

    def _gains(self, pods: Places, nodes: Places) -> Array:
        """pods × nodes, as one product of matrices: what depends on both, on the node, and on the pod."""
        base, home = self.base, self.home[pods]
        along = self.distance / base[:, :, np.newaxis]
        days = self.day[pods] * (self._slots * self._resources[:, np.newaxis])
        squares = self._squares[pods] * self._resources
        leaving = (squares / base[home] ** 2).sum(axis=1) - 2.0 * np.einsum("prs,prs->p", days, along[home])
        flat = math.prod(days.shape[1:])
        left = np.concatenate([2.0 * days.reshape(len(pods), flat), squares, leaving[:, np.newaxis]], axis=1)
        ones = np.ones((len(nodes), 1))
        right = np.concatenate([along[nodes].reshape(len(nodes), flat), base[nodes] ** -2.0, ones], axis=1)
        gains: Array = -left @ right.T
        return gains

    def _find_best_after(self, *changed: int) -> None:
        """As `_find_best` for every pod, after a move between these nodes: elsewhere all is as it was."""
        lost = np.isin(self._best, changed) | np.isin(self.home, changed)
        self._find_best(np.flatnonzero(lost))
        others = np.flatnonzero(~lost)
        for node in changed:
            fits = ~self._shut[others, node] & (self._asks[others] <= self._room[node] + REQUEST_TOLERANCE).all(axis=1)
            gains = np.where(fits, self._gain[others, node], -np.inf)
            # Of nodes that are as good the first one is the best.
            best = self._best_gain[others]
            better = (gains > best) | ((gains == best) & (node < self._best[others]))
            self._best[others[better]] = node
            self._best_gain[others[better]] = gains[better]

    def _find_best(self, pods: Places) -> None:
        """Per pod: the node with room at which it levels most."""
        for begin in range(0, len(pods), _BLOCK):
            some = pods[begin : begin + _BLOCK]
            gains = np.where(self._shut[some], -np.inf, self._gain[some])
            best = gains.argmax(axis=1)
            # Mostly there is room at the best of all; only for the others all nodes are asked.
            crowded = np.flatnonzero(~(self._asks[some] <= self._room[best] + REQUEST_TOLERANCE).all(axis=1))
            for column in range(self._room.shape[1]) if len(crowded) else ():
                room = self._room[np.newaxis, :, column] + REQUEST_TOLERANCE[column]
                gains[crowded] = np.where(
                    self._asks[some[crowded], column, np.newaxis] <= room, gains[crowded], -np.inf
                )
            best[crowded] = gains[crowded].argmax(axis=1)
            self._best[some] = best
            self._best_gain[some] = gains[np.arange(len(some)), best]
