"""Levels the coming day: moves pods so that every node's day, cpu and memory, comes to lie on the fleet's.

Where `low_node_load` cools nodes that are hot now, this one looks at what the daily profiles of the workloads say of
all hours to come, and at the present as far as profiles cannot be trusted. A move counts by what it takes off the sum
of the nodes' squared distances from the fleet. Where memory is nearly full single moves get stuck: then two are
planned, one pod makes room for the other. The first is proposed at once, the second once the first has left.

Planned on a trace of 100 nodes (Alibaba 2018, memory requested to 82 %) with 10 % of the pods moved: single moves
leave 60 points of spread, chains of two 25 to 30.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import cache, partial
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from equipoise.contracts.configuration.settings import Percent, Section, Share
from equipoise.contracts.fit import capacity_refusal, constraint_refusal, neighbour_refusal
from equipoise.contracts.load.correction import RESOURCES, amounts
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.descheduling import NodeClassification
from equipoise.descheduler.decisions.planning.day_gain_table import Chain, DayTable, Single
from equipoise.descheduler.decisions.planning.draft import Draft, name_of_pod
from equipoise.descheduler.decisions.planning.node_arrays import MEASURED, Array, Flags
from equipoise.descheduler.decisions.planning.projection import Projection
from equipoise.descheduler.decisions.planning.selection import Selector
from equipoise.descheduler.state.cluster import Fleet, FleetNode, MovablePod, Plan

_CELLS = 4_000_000
"""Pods times nodes that a plan looks at: in a big fleet the worst nodes are levelled first."""

_SECONDS = 200
"""Pods for which room is sought at a time, and ways that are tried for them."""

_FULL = 0.95
"""Load (0..1) to which no levelling brings a node beyond its high mark."""

Weight = Annotated[float, Meta(ge=0)]


class Weights(Section, frozen=True, kw_only=True):
    """How much a squared point of each counts."""

    cpu: Weight = 1.0
    memory: Weight = 0.1

    def __post_init__(self) -> None:
        if not self.cpu and not self.memory:
            raise ValueError("weights needs at least one above 0")


class LevelDay(Section, frozen=True, kw_only=True, tag_field="name", tag="level_day"):
    """Its fields are its settings."""

    windows: tuple[str, ...] = ()
    """What counts as the present; the first one predicts. Default: the shortest."""

    node_selector: Selector = Selector()
    """The pool that is levelled: other nodes neither give nor take, and do not count."""

    tolerance: Percent = 3.0
    """A node is hot when its day lies so many points above the fleet's: root mean square over hours and resources."""

    present: Share = 0.0
    """How much the present counts beside the day that profiles foretell. Where days do not resemble one another it
    should count half or more; where they do it follows the load up and down the day, with three times the moves.
    """

    least_gain: Annotated[float, Meta(ge=0)] = 15.0
    """What a move must at least take off the sum of squared distances, in squared points of percent: 11 is what a node
    loses that comes from 6 to 5 points above the fleet.
    """

    reach: Percent = 15.0
    """Points above the fleet to which a node may be filled in some hour where that is above its high mark: a busy fleet
    is levelled too. Never above 95 %, and always as high as the node that is relieved.
    """

    make_room: bool = True
    """May one pod be moved so that another has room?"""

    weights: Weights = Weights()

    def windows_of(self, fleet: Fleet) -> Sequence[str]:
        """The windows that decide."""
        return self.windows or (fleet.windows[0],)

    def verdicts(self, fleet: Fleet) -> list[NodeClassification]:
        """Every node of the pool as hot, idle, between or unknown, with its load over the first window."""
        picture = _Picture(self, fleet, Projection(fleet, self.windows_of(fleet)[0]))
        return [picture.verdict(place) for place, node in enumerate(fleet.nodes) if self.takes(node)]

    def takes(self, node: FleetNode) -> bool:
        """Is the node of the pool?"""
        return self.node_selector.takes(node.fit.labels)

    def plan(self, fleet: Fleet, abnormal: Collection[str]) -> Plan:
        """The moves that level most, from hot nodes among `abnormal`, best first; and what makes room for them."""
        fleet = msgspec.structs.replace(fleet, nodes=sorted(fleet.nodes, key=lambda node: node.name))
        draft = Draft(fleet, self.windows_of(fleet))
        picture = _Picture(self, fleet, draft.projection)
        hot = [place for place in picture.hot() if fleet.nodes[place].name in abnormal]
        if not hot:
            return Plan(why="no node's day has been above the fleet's for long enough")
        return _Planning(self, draft, picture, hot).made()


class _Picture:
    """The fleet's days, and which lie above it."""

    def __init__(self, strategy: LevelDay, fleet: Fleet, projection: Projection) -> None:
        """`projection`: with no move in it yet; it is only read here."""
        self._strategy = strategy
        self.fleet = fleet
        self.window = strategy.windows_of(fleet)[0]
        self.slots = np.append(np.full(SLOTS, (1.0 - strategy.present) / SLOTS), strategy.present)
        self.resources = np.array([strategy.weights.cpu, strategy.weights.memory])
        base = projection.base[:, : len(RESOURCES)]
        used, room = self._used(projection), self._room(projection)
        self.table = DayTable(used, base, room, slots=self.slots, resources=self.resources)
        self._distance = self.table.distance
        above = np.maximum(self._distance, 0.0) ** 2 @ self.slots @ self.resources
        below = np.minimum(self._distance, 0.0) ** 2 @ self.slots @ self.resources
        self.above: Array = 100.0 * np.sqrt(above / self.resources.sum())
        """Per node, points: how far its day is above the fleet's, where it is."""

        self._below: Array = 100.0 * np.sqrt(below / self.resources.sum())

    def _room(self, projection: Projection) -> Array:
        """nodes × (cores, bytes, pods): what may still be asked for, the mark on the number of pods counted."""
        room = projection.room.copy()
        mark = self.fleet.thresholds.high.pods
        if mark is not None:
            column = MEASURED.index("pods")
            allowed = mark / 100 * projection.base[:, column] - projection.amounts[:, column]
            room[:, column] = np.minimum(room[:, column], np.nan_to_num(allowed))
        return room

    def _used(self, projection: Projection) -> Array:
        """nodes × resources × (slots and the present)."""
        nodes = self.fleet.nodes
        used = np.full((len(nodes), len(RESOURCES), SLOTS + 1), np.nan)
        taken = [place for place, node in enumerate(nodes) if not node.unknown and self._strategy.takes(node)]
        if taken and self.fleet.days is not None:
            used[taken, :, :SLOTS] = self.fleet.days.of_nodes([nodes[place].name for place in taken])
            used[taken, :, SLOTS] = projection.amounts[taken, : len(RESOURCES)]
        return used

    def day_of(self, pod: MovablePod) -> Array | None:
        """resources × (slots and the present); None when what it uses is not known."""
        day = None if self.fleet.days is None else self.fleet.days.of_pod(pod.workload, pod.usage)
        now = np.array(amounts(pod.usage))
        if day is None or np.isnan(now).any():
            return None
        whole: Array = np.empty((len(RESOURCES), SLOTS + 1))
        whole[:, :SLOTS], whole[:, SLOTS] = day, now
        return whole

    def hot(self) -> list[int]:
        """Places of the hot nodes, the worst first."""
        places = np.flatnonzero(self.table.known & (self.above > self._strategy.tolerance))
        return [int(place) for place in sorted(places, key=lambda place: (-self.above[place], place))]

    def verdict(self, place: int) -> NodeClassification:
        node = self.fleet.nodes[place]
        load = node.load(self.window)
        if node.unknown or not self.table.known[place]:
            return NodeClassification(
                node=node.name, state="unknown", load=load, why=node.unknown or "its day is not known"
            )
        if self.above[place] > self._strategy.tolerance:
            return NodeClassification(node=node.name, state="hot", load=load, why=self.text(place))
        idle = self._below[place] > self._strategy.tolerance
        return NodeClassification(node=node.name, state="idle" if idle else "between", load=load)

    def text(self, place: int) -> str:
        """`its day is 12.3 points above the fleet's, most in cpu at 14:00 UTC: 78.1% where the fleet has 51.0%`."""
        weighted = self._distance[place] * self.resources[:, np.newaxis]
        resource, slot = np.unravel_index(int(weighted.argmax()), weighted.shape)
        when = f"at {slot:02}:00 UTC" if slot < SLOTS else "now"
        fleet = self.table.mean[resource, slot]
        there = fleet + self._distance[place, resource, slot]
        return (
            f"its day is {self.above[place]:.1f} points above the fleet's, most in {RESOURCES[resource]} {when}: "
            f"{there:.1%} where the fleet has {fleet:.1%}"
        )


class _Planning:
    """One plan in the making: the table says what would level most, the draft whether it may be."""

    def __init__(self, strategy: LevelDay, draft: Draft, picture: _Picture, hot: Sequence[int]) -> None:
        fleet = draft.fleet
        self._strategy = strategy
        self._picture = picture
        self._table = picture.table
        self._nodes = fleet.nodes
        self._draft = draft
        self._least = strategy.least_gain / 1e4
        marks = np.array([_share(fleet.thresholds.high.cpu), _share(fleet.thresholds.high.memory)])
        reach = np.minimum(self._table.mean + strategy.reach / 100, _FULL)
        self._ceiling = np.maximum(marks[:, np.newaxis], reach)
        """resources × slots: no higher does a target come, unless the node that is relieved is as high then."""

        self._open = np.array([not (node.target_refusal or node.unknown) for node in fleet.nodes], dtype=np.bool_)
        self._standing: dict[tuple[object, ...], Flags] = {}
        self._left: set[int] = set()
        """Nodes that pods leave by this plan: what they set free is not there yet."""

        self._as_it_is: Callable[[], Projection] = cache(partial(Projection, fleet, strategy.windows_of(fleet)[0]))
        """Everybody where they are, whatever is planned; seldom asked for."""

        pods = max(1, _CELLS // max(1, len(fleet.nodes)))
        self._ask(hot, pods // 2 if strategy.make_room else pods)
        self._hot_rows = np.arange(len(self._table.pods))
        if strategy.make_room:
            self._ask(self._wanted_targets(), pods - len(self._table.pods))

    def made(self) -> Plan:
        while self._draft.room > 0 and self._take_best():
            pass
        return self._draft.plan(
            f"no move of their pods would level the day by {self._strategy.least_gain:g} squared points"
        )

    # who may leave

    def _ask(self, places: Sequence[int], most: int) -> None:
        """Take the pods of these nodes into the table, as long as there is room for them."""
        asked: list[MovablePod] = []
        days: list[Array] = []
        homes: list[int] = []
        known = set(self._table.home.tolist())
        for place in places:
            node = self._nodes[place]
            if place in known or node.unknown:
                continue
            if node.source_refusal:
                self._draft.refuse(node, node.source_refusal)
                continue
            pods, theirs = self._movable(node)
            if asked and len(asked) + len(pods) > most:
                break
            asked += pods
            days += theirs
            homes += [place] * len(pods)
        # All at once: to add to a table is to copy it.
        self._table.add(asked, homes, np.array(days), self._open)

    def _movable(self, node: FleetNode) -> tuple[list[MovablePod], list[Array]]:
        pods, days = [], []
        for pod in sorted(node.pods, key=lambda pod: (pod.namespace, pod.name, pod.uid)):
            day = None if pod.protection else self._picture.day_of(pod)
            if day is None:
                self._draft.stays(pod, pod.protection or "its usage is not known")
            else:
                pods.append(pod)
                days.append(day)
        return pods, days

    def _wanted_targets(self) -> list[int]:
        """Nodes to which pods of the hot ones would like to go, room or not, the most wanted first."""
        gains = self._table.wanted(self._hot_rows)
        ordered = np.argsort(-gains, kind="stable")
        return [int(place) for place in ordered if gains[place] > self._least]

    # what is taken

    def _take_best(self) -> bool:
        """Plan what gains most for each pod that moves; False when nothing is left that is worth it."""
        single = self._best_single()
        least = 2.0 * max(self._least, single.gain if single is not None else 0.0)
        if self._strategy.make_room and self._draft.room > 1 and self._take_chain(least):
            return True
        if single is None:
            return False
        source, target = self._home(single.pod), self._nodes[single.target]
        self._draft.take(self._table.pods[single.pod], source, target, self._text_of(single.pod))
        self._move(single.pod, single.target)
        return True

    def _best_single(self) -> Single | None:
        while (single := self._table.best_single(self._hot_rows)) is not None and single.gain > self._least:
            if self._may_go(single.pod, single.target, single.pod):
                return single
        return None

    def _take_chain(self, least: float) -> bool:
        """Plan the best pair of moves that gains more than `least`."""
        for chain in self._chains(least):
            first, second, target = chain.first, chain.second, chain.target
            if not (self._table.holds(chain) and self._may_go(first, chain.elsewhere, second)):
                continue
            after = self._table.used[target] - self._table.day[first] + self._table.day[second]
            # Its room was looked at with the first away; its ports cannot be.
            if self._table.pods[second].fit.host_ports or not self._may_leave(second):
                self._table.retire(second)
                continue
            if self._refuses(second, target, after, self._highest(second)):
                continue
            pod, why = self._table.pods[second], self._text_of(second)
            name, there = name_of_pod(pod), self._nodes[target]
            self._draft.take(
                self._table.pods[first],
                there,
                self._nodes[chain.elsewhere],
                f"makes room on {there.name} for {name} of {pod.node}: {why}",
                makes_room_for=name,
            )
            self._draft.follow(pod, self._home(second), there, why)
            self._move(first, chain.elsewhere)
            self._move(second, target)
            return True
        return False

    def _move(self, row: int, target: int) -> None:
        self._left.add(int(self._table.home[row]))
        self._table.move(row, target)

    def _chains(self, least: float) -> Iterator[Chain]:
        """Those of the most hopeful pods first; the others are asked only when those find no way."""
        hopeful = self._table.hopeful(self._hot_rows)
        for begin in range(0, len(hopeful), _SECONDS):
            seconds = hopeful[begin : begin + _SECONDS]
            yield from self._table.best_chains(seconds, most=_SECONDS, least=least)

    # what may be

    def _may_go(self, row: int, target: int, relieved: int) -> bool:
        """Checked against the plan so far, which earlier looks did not know. Whatever says no shuts the way.

        `relieved`: the pod for whose node all this is done.
        """
        if not self._may_leave(row):
            return False
        if self._refuses(row, target, self._table.used[target] + self._table.day[row], self._highest(relieved)):
            return False
        pod = self._table.pods[row]
        if capacity_refusal(pod.fit, self._draft.projection.fits[target]) or (
            target in self._left and self._as_it_is().refusal(pod, self._nodes[target], self._as_it_is().around(pod))
        ):
            self._table.shut(row, target)
            return False
        return True

    def _may_leave(self, row: int) -> bool:
        pod, node = self._table.pods[row], self._home(row)
        if self._draft.room_from(node) <= 0:
            for other in np.flatnonzero(self._table.home == self._table.home[row]):
                self._table.retire(int(other))
            self._draft.refuse(node, "as many moves as allowed are proposed or under way")
            return False
        if self._draft.busy(pod):
            self._table.retire(row)
            self._draft.refuse(node, "another pod of its workload is on the move", pod)
            return False
        return True

    def _refuses(self, row: int, target: int, after: Array, highest: Array) -> bool:
        """Would the node come too high, or does it refuse the pod for other reasons than room? Then it is shut."""
        projection, pod = self._draft.projection, self._table.pods[row]
        if (after / self._table.base[target][:, np.newaxis] > highest).any():
            self._table.shut(row, target)
            return True
        around = projection.around(pod)
        if not constraint_refusal(pod.fit, projection.fits[target]) and not neighbour_refusal(
            projection.fits[target], around
        ):
            return False
        # Where one node refuses it more may, and there are thousands.
        refusing = self._standing_refusals(pod)
        refusing |= np.array([bool(neighbour_refusal(fit, around)) for fit in projection.fits], dtype=np.bool_)
        self._table.shut(row, refusing)
        return True

    def _standing_refusals(self, pod: MovablePod) -> Flags:
        """Per node: cordon, taints, labels, volumes. Pods of a workload ask for the same."""
        fit = pod.fit
        key = tuple(map(repr, (fit.tolerations, fit.node_selector, fit.node_affinity, fit.volume_nodes)))
        if key not in self._standing:
            told = [bool(constraint_refusal(fit, node)) for node in self._draft.projection.fits]
            self._standing[key] = np.array(told, dtype=np.bool_)
        return self._standing[key].copy()

    def _highest(self, row: int) -> Array:
        """resources × slots: how high a node may come so that the pod's node is relieved."""
        source = self._table.home[row]
        here: Array = self._table.used[source] / self._table.base[source][:, np.newaxis]
        highest: Array = np.maximum(self._ceiling, here)
        return highest

    def _home(self, row: int) -> FleetNode:
        return self._nodes[int(self._table.home[row])]

    def _text_of(self, row: int) -> str:
        return self._picture.text(int(self._table.home[row]))


def _share(mark: float | None) -> float:
    return np.inf if mark is None else mark / 100
