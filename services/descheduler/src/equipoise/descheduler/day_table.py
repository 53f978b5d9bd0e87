"""What every pod in question would change on every node, as one table that is kept up to date while a plan is made.

How unlevel a fleet is: the sum over its nodes of the squared distance of their load from the fleet's, as weighted mean
over the hours of the coming day and the present, cpu and memory by their weights. A pod of day p that comes to a node
of base b which is d away from the fleet changes that by Σ 2·d·p/b + (p/b)²; one that leaves by Σ −2·d·p/b + (p/b)². So
a table for all pods and nodes is two products of matrices.
"""

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from equipoise.contracts.workload import Workload
from equipoise.descheduler.fleet import MovablePod
from equipoise.descheduler.loads import Array, Flags

Places = npt.NDArray[np.int64]

_TINY = np.array([1e-9, 1.0, 0.0])
"""Cores, bytes and pods that a request may be short of: requests are sums of decimal fractions."""


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
        firsts = np.flatnonzero(np.isfinite(self._best_gain))
        if not len(seconds) or not len(firsts):
            return []
        there = self.home[firsts]
        alone = np.where(self._shut[seconds], -np.inf, self._gain[seconds])[:, there]
        gains = alone + self._best_gain[firsts]
        # Who has room already and levels by coming needs nobody to leave.
        needless = alone > 0
        for column, asked in enumerate(self._asks[seconds].T):
            room = self._room[there, column] + _TINY[column]
            gains[asked[:, np.newaxis] > room + self._asks[firsts, column]] = -np.inf
            needless &= asked[:, np.newaxis] <= room
        gains[needless] = -np.inf
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
        self._find_best(everyone)

    def _gains(self, pods: Places, nodes: Places) -> Array:
        """pods × nodes."""
        distance, base = self.distance, self.base
        cost = np.zeros((len(pods), len(nodes)))
        home = self.home[pods]
        for resource, weight in enumerate(self._resources):
            day = self.day[pods, resource] * self._slots
            along, squares = distance[:, resource] / base[:, resource, np.newaxis], self._squares[pods, resource]
            arriving = 2.0 * day @ along[nodes].T + np.outer(squares, base[nodes, resource] ** -2.0)
            leaving = -2.0 * (day * along[home]).sum(axis=1) + squares / base[home, resource] ** 2
            cost += weight * (arriving + leaving[:, np.newaxis])
        return -cost

    def _find_best(self, pods: Places) -> None:
        """Per pod: the node with room at which it levels most."""
        fits = ~self._shut[pods]
        for column in range(self._room.shape[1]):
            fits &= self._asks[pods, column, np.newaxis] <= self._room[np.newaxis, :, column] + _TINY[column]
        gains = np.where(fits, self._gain[pods], -np.inf)
        self._best[pods] = gains.argmax(axis=1)
        self._best_gain[pods] = gains[np.arange(len(pods)), self._best[pods]]
