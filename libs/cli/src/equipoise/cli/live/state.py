"""The state of the live views, folded from the messages of the bus. No I/O; time is an argument; memory is bounded."""

from array import array
from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator
from operator import attrgetter

import msgspec

from equipoise.cli.live.nodes import KnownNode
from equipoise.cli.live.rows import (
    Changes,
    ClusterSummary,
    Connection,
    Frame,
    LimitsRow,
    Move,
    NodeRow,
    PlanRow,
    PodRow,
    ServiceRow,
    SpreadPoint,
    Unknown,
)
from equipoise.cli.report.figures import without_overlap
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.coverage import SHARD_LIFETIME
from equipoise.contracts.load.latest import is_acceptable, supersedes_measurement
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import DRY_RUN, REAL, Heartbeat
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.resources import Resources
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle

MAX_NODES = 20_000
"""More are not shown: nobody can make the view use all memory by publishing names."""

MAX_MOVES = 500
MAX_PROCESSES = 200
MAX_SHARDS = 200
MAX_STRATEGIES = 20

POINT_SECONDS, MAX_POINTS = 60.0, 24 * 60
"""The spread: one point a minute, for a day."""

FRAME_SECONDS, MAX_FRAMES = 300.0, 72
"""Loads of all nodes for the comparison with before: one frame in five minutes, for six hours."""

MAX_REVIEW_AGE = 86_400.0
"""The age in seconds up to which hourly reviews of scorers show the spread before the view began."""

HEARTBEAT_LIFETIME = 35.0
"""Seconds: every process publishes one every 10 s."""

NODE_LIFETIME = 3_600.0
"""Seconds without any message about a node, while collectors measure, after which it no longer exists."""

OUTCOME_DELAY = 60.0
"""Seconds after the expiry of an intent in which its outcome may still arrive."""

NAMED_NODES = 20
"""Nodes that are named for each reason why loads are unknown."""

_UNKNOWN = 0xFFFF
_PERMILLE = 1_000


class LiveState:
    """Apply messages in the order of their arrival, call `tick` about once a second, and take the changes."""

    def __init__(self, load: LoadSettings) -> None:
        self._max_age: float = load.lifetime(load.shortest)
        self._shard_lifetime: float = SHARD_LIFETIME * load.freshness.score
        self._nodes: dict[str, KnownNode] = {}
        self._rows: dict[str, NodeRow] = {}
        self._stale: set[str] = set()
        """Nodes whose row must be computed again."""

        self._changed: dict[str, NodeRow] = {}
        self._removed: set[str] = set()
        self._moves: OrderedDict[str, Move] = OrderedDict()
        self._changed_moves: dict[str, Move] = {}
        self._cycles: dict[str, UtilizationCycle] = {}
        self._heartbeats: dict[str, tuple[float, Heartbeat]] = {}
        self._classified: dict[str, set[str]] = {}
        """The nodes that each strategy classified last."""

        self._evaluated_at: float | None = None
        self._reviews: dict[tuple[float, float], ClusterReview] = {}
        self._points: deque[SpreadPoint] = deque(maxlen=MAX_POINTS)
        self._new_points: list[SpreadPoint] = []
        self._frames: deque[tuple[float, tuple[str, ...], array[int]]] = deque(maxlen=MAX_FRAMES)
        self._ticked_at = 0.0
        self._summary: ClusterSummary | None = None
        self._summary_is_stale = True
        self._parts: dict[str, PlanRow | LimitsRow | Connection] = {}
        self._changed_parts: set[str] = set()
        self.ignored_nodes = 0
        """Messages about nodes beyond `MAX_NODES`."""

    # -- messages

    def apply(self, message: msgspec.Struct, now: float) -> None:
        """Messages of other kinds change nothing."""
        match message:
            case NodeUtilization() | UtilizationCycle() if not is_acceptable(message, now):
                return
            case NodeUtilization():
                if (node := self._node(message.node, now)) is not None and node.measure(message, now):
                    self._stale.add(message.node)
            case NodePlacement():
                self._place(message, now)
            case UtilizationCycle():
                self._end_cycle(message, now)
            case EvictionIntent():
                self._propose(message)
            case EvictionOutcome():
                self._settle(message)
            case DescheduleDecision():
                self._evaluate(message, now)
            case Heartbeat():
                self._beat(message, now)
            case ClusterReview():
                self._review(message)

    def _node(self, name: str, now: float) -> KnownNode | None:
        node = self._nodes.get(name)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                self._summary_is_stale = self._summary_is_stale or not self.ignored_nodes
                self.ignored_nodes += 1
                return None
            node = self._nodes[name] = KnownNode(name, now)
            self._removed.discard(name)
        return node

    def _place(self, message: NodePlacement, now: float) -> None:
        if message.removed:
            if (existing := self._nodes.get(message.node)) is not None and existing.is_removed_by(message):
                self._drop(message.node)
        elif (node := self._node(message.node, now)) is not None and node.place(message, now):
            self._stale.add(message.node)

    def _drop(self, name: str) -> None:
        del self._nodes[name]
        self._stale.discard(name)
        self._changed.pop(name, None)
        if self._rows.pop(name, None) is not None:
            self._removed.add(name)
        self._summary_is_stale = True

    def _end_cycle(self, message: UtilizationCycle, now: float) -> None:
        before = self._cycles.get(message.shard)
        if not supersedes_measurement(message, before) or (before is None and len(self._cycles) >= MAX_SHARDS):
            return
        self._cycles[message.shard] = message
        for name in message.missing if before is None else {**before.missing, **message.missing}:
            node = self._node(name, now)  # an expected node that was never measured is unknown, not absent
            if node is not None:
                node.expect(message.missing.get(name, ""))
                self._stale.add(name)
        self._summary_is_stale = True

    def _propose(self, intent: EvictionIntent) -> None:
        if intent.id in self._moves:
            return
        self._keep(
            Move(
                id=intent.id,
                namespace=intent.namespace,
                pod=intent.pod,
                workload=str(intent.workload or ""),
                node=intent.node,
                target=intent.target,
                strategy=intent.strategy,
                reason=intent.reason,
                decided_at=intent.decided_at,
                expires_at=intent.expires_at,
            )
        )

    def _settle(self, outcome: EvictionOutcome) -> None:
        before = self._moves.get(outcome.intent_id) or Move(
            id=outcome.intent_id,
            namespace=outcome.namespace,
            pod=outcome.pod,
            workload=str(outcome.workload or ""),
            node=outcome.node,
            target=outcome.target,
            reason=outcome.reason,
            decided_at=outcome.decided_at,
        )
        self._keep(
            msgspec.structs.replace(
                before,
                outcome=outcome.outcome.value,
                detail=outcome.detail,
                limit=outcome.limit,
                settled_at=outcome.settled_at,
                retry_at=outcome.retry_at,
            )
        )

    def _keep(self, move: Move) -> None:
        if self._moves.get(move.id) == move:
            return
        self._moves[move.id] = self._changed_moves[move.id] = move
        while len(self._moves) > MAX_MOVES:
            oldest, _ = self._moves.popitem(last=False)
            self._changed_moves.pop(oldest, None)

    def _evaluate(self, decision: DescheduleDecision, now: float) -> None:
        before = self._classified.get(decision.strategy)
        if before is None and len(self._classified) >= MAX_STRATEGIES:
            return
        for move in decision.moves:
            if (known := self._moves.get(move.intent_id)) is None:
                self._keep(
                    Move(
                        id=move.intent_id,
                        namespace=move.namespace,
                        pod=move.pod,
                        workload=str(move.workload or ""),
                        node=move.node,
                        target=move.target,
                        strategy=decision.strategy,
                        reason=move.reason,
                        decided_at=decision.evaluated_at,
                        expires_at=move.expires_at,
                    )
                )
            elif not known.strategy:
                self._keep(msgspec.structs.replace(known, strategy=decision.strategy))
        for placed in decision.replacements:
            if (known := self._moves.get(placed.intent_id)) is not None:
                self._keep(msgspec.structs.replace(known, replacement=placed.replacement, placed_on=placed.placed_on))
        for reduction in decision.load_reductions:
            for intent in reduction.intents:
                if (known := self._moves.get(intent)) is not None:
                    self._keep(msgspec.structs.replace(known, reduced=reduction.reduced))
        if self._evaluated_at is not None and decision.evaluated_at < self._evaluated_at - 1.0 and before is not None:
            return  # repeated or late: what happened to moves stays true, the classification does not
        classified: set[str] = set()
        for each in decision.nodes:
            if (node := self._node(each.node, now)) is not None:
                node.classify(decision.strategy, each)
                classified.add(each.node)
        for gone in (before or set()) - classified:
            if (left := self._nodes.get(gone)) is not None:
                left.classify(decision.strategy, None)
        self._stale.update(classified, (before or set()) & self._nodes.keys())
        self._classified[decision.strategy] = classified
        self._evaluated_at = max(self._evaluated_at or 0.0, decision.evaluated_at)
        self._summary_is_stale = True

    def _beat(self, heartbeat: Heartbeat, now: float) -> None:
        before = self._heartbeats.get(heartbeat.id)
        if before is None and len(self._heartbeats) >= MAX_PROCESSES:
            return
        self._heartbeats[heartbeat.id] = (now, heartbeat)
        same = before is not None and msgspec.structs.replace(before[1], at=heartbeat.at) == heartbeat
        self._summary_is_stale = self._summary_is_stale or not same

    def _review(self, review: ClusterReview) -> None:
        self._reviews[(review.since // 3_600, review.since)] = review
        newest = max(each.until for each in self._reviews.values())
        self._reviews = {key: each for key, each in self._reviews.items() if newest - each.until <= MAX_REVIEW_AGE}
        self._summary_is_stale = True

    def show(self, part: PlanRow | LimitsRow | Connection) -> None:
        """What is read, not published."""
        name = _PARTS[type(part)]
        if self._parts.get(name) != part:
            self._parts[name] = part
            self._changed_parts.add(name)
            self._summary_is_stale = True

    # -- time

    def tick(self, now: float) -> None:
        """Apply what only time changes: samples become too old, points and frames are due, processes are silent."""
        forgettable = now - NODE_LIFETIME if self._measuring(now) else -1.0
        for node in list(self._nodes.values()):
            if node.received_at < forgettable or not node.exists:
                self._drop(node.name)
            elif node.expired_between(self._ticked_at, now, self._max_age):
                self._stale.add(node.name)
        self._ticked_at = now
        for name in self._stale:
            row = self._nodes[name].row(now, self._max_age)
            if row != self._rows.get(name):
                self._rows[name] = self._changed[name] = row
                self._summary_is_stale = True
        self._stale.clear()
        for move in [move for move in self._moves.values() if not move.outcome and move.expires_at is not None]:
            if now > (move.expires_at or now) + OUTCOME_DELAY:
                why = "the intent has expired, and no outcome was received"
                self._keep(msgspec.structs.replace(move, outcome="unknown", detail=why))
        silent = [id for id, (at, _) in self._heartbeats.items() if now - at > HEARTBEAT_LIFETIME]
        for id in silent:
            del self._heartbeats[id]
        old = [shard for shard, cycle in self._cycles.items() if now - cycle.queried_at > self._shard_lifetime]
        for shard in old:
            del self._cycles[shard]
        self._summary_is_stale = self._summary_is_stale or bool(silent or old)
        self._record(now)

    def _measuring(self, now: float) -> bool:
        return any(now - cycle.queried_at <= self._max_age for cycle in self._cycles.values())

    def _record(self, now: float) -> None:
        if not self._rows:
            return
        if not self._points or now - self._points[-1].at >= POINT_SECONDS:
            cpu_spread, cpu_mean = _spread(row.cpu for row in self._rows.values())
            memory_spread, memory_mean = _spread(row.memory for row in self._rows.values())
            point = SpreadPoint(round(now, 1), cpu_spread, memory_spread, cpu_mean, memory_mean)
            self._points.append(point)
            self._new_points.append(point)
        if not self._frames or now - self._frames[-1][0] >= FRAME_SECONDS:
            rows = self._rows.values()
            names = tuple(self._rows)
            if self._frames and self._frames[-1][1] == names:
                names = self._frames[-1][1]  # one tuple for all frames with the same nodes
            loads = array("H", (_permille(load) for row in rows for load in (row.cpu, row.memory)))
            self._frames.append((now, names, loads))

    # -- views

    def take_changes(self) -> Changes | None:
        """What changed since the last call; None if nothing did."""
        summary = self._new_summary()
        parts = {name: self._parts[name] for name in self._changed_parts}
        if not (self._changed or self._removed or self._changed_moves or self._new_points or summary or parts):
            return None
        changes = Changes(
            nodes=list(self._changed.values()),
            removed=sorted(self._removed),
            moves=list(self._changed_moves.values()),
            points=self._new_points,
            summary=summary,
            **parts,  # type: ignore[arg-type]  # each name has its own type
        )
        self._changed_parts = set()
        self._changed, self._removed, self._changed_moves, self._new_points = {}, set(), {}, []
        return changes

    def everything(self) -> Changes:
        """The whole view, as changes of an empty one; what `take_changes` returns next does not depend on it."""
        return Changes(
            nodes=list(self._rows.values()),
            moves=list(self._moves.values()),
            points=[*self._earlier_points(), *self._points],
            summary=self._make_summary(),
            **self._parts,  # type: ignore[arg-type]  # each name has its own type
        )

    @property
    def is_complete(self) -> bool:
        """The load of every node is known that collectors expect, and they have reported how many that is."""
        expected = sum(cycle.expected for cycle in self._cycles.values())
        return 0 < expected <= len(self._rows) and not any(row.unknown for row in self._rows.values())

    def frame(self, at: float) -> Frame | None:
        """The last frame at or before `at`, else the oldest; None if there is none."""
        chosen = next((each for each in reversed(self._frames) if each[0] <= at), None)
        if chosen is None and self._frames:
            chosen = self._frames[0]
        if chosen is None:
            return None
        at, names, loads = chosen
        shares = [None if value == _UNKNOWN else value / _PERMILLE for value in loads]
        return Frame(at=at, loads=dict(zip(names, zip(shares[::2], shares[1::2], strict=True), strict=True)))

    def node(self, name: str) -> KnownNode | None:
        return self._nodes.get(name)

    def row(self, name: str) -> NodeRow | None:
        return self._rows.get(name)

    @property
    def rows(self) -> Iterable[NodeRow]:
        return self._rows.values()

    @property
    def moves(self) -> Iterable[Move]:
        """Oldest first."""
        return self._moves.values()

    def pods_of(self, workload: str) -> Iterator[PodRow]:
        """`workload`: as in the rows, KIND/NAMESPACE/NAME. Reads all pods."""
        for node in self._nodes.values():
            for pod in node.pods():
                if pod.workload == workload:
                    yield pod

    def _earlier_points(self) -> list[SpreadPoint]:
        """The hourly averages of scorers before the first own point."""
        first = self._points[0].at if self._points else float("inf")
        return [
            SpreadPoint(round((each.since + each.until) / 2, 1), each.spread.cpu, each.spread.memory)
            for each in sorted(without_overlap(self._reviews.values()), key=attrgetter("since"))
            if (each.since + each.until) / 2 < first
        ]

    def _new_summary(self) -> ClusterSummary | None:
        if not self._summary_is_stale:
            return None
        self._summary_is_stale = False
        summary = self._make_summary()
        if summary == self._summary:
            return None
        self._summary = summary
        return summary

    def _make_summary(self) -> ClusterSummary:
        cpu_spread, cpu_mean = _spread(row.cpu for row in self._rows.values())
        memory_spread, memory_mean = _spread(row.memory for row in self._rows.values())
        review = max(self._reviews.values(), key=attrgetter("until"), default=None)
        cycles = self._cycles.values()
        return ClusterSummary(
            nodes=len(self._rows),
            known=sum(not row.unknown for row in self._rows.values()),
            expected=sum(cycle.expected for cycle in cycles) if cycles else None,
            hot=sum(row.state == "hot" for row in self._rows.values()),
            spread=Resources(cpu=cpu_spread, memory=memory_spread),
            mean=Resources(cpu=cpu_mean, memory=memory_mean),
            high=Resources() if review is None else review.high,
            evictions=self._evictions(),
            measured_at=max((cycle.queried_at for cycle in cycles), default=None),
            evaluated_at=self._evaluated_at,
            services=[
                ServiceRow(
                    service=each.service,
                    id=each.id,
                    version=each.version,
                    ready=each.ready,
                    leading=each.leading,
                    problems=each.problems,
                )
                for _, each in sorted(self._heartbeats.values(), key=lambda item: (item[1].service, item[1].id))
            ],
            unknown=list(self._unknown()),
        )

    def _evictions(self) -> str:
        """If binders differ, real evictions win."""
        modes = {each.evictions for _, each in self._heartbeats.values() if each.service == "binder"} - {""}
        return next((mode for mode in (REAL, DRY_RUN) if mode in modes), "; ".join(sorted(modes)))

    def _unknown(self) -> Iterator[Unknown]:
        reasons: dict[str, list[str]] = {}
        for row in self._rows.values():
            if row.unknown:
                reasons.setdefault(row.unknown, []).append(row.node)
        for why, nodes in sorted(reasons.items(), key=lambda item: -len(item[1])):
            yield Unknown(what="load of nodes", why=why, nodes=sorted(nodes)[:NAMED_NODES], count=len(nodes))
        unnamed: Counter[str] = Counter()
        for cycle in self._cycles.values():
            if cycle.problem:
                yield Unknown(what=f"measurement of shard {cycle.shard}", why=cycle.problem)
            if len(cycle.missing) < sum(cycle.reasons.values()):
                unnamed.update(cycle.reasons)
        for why, count in unnamed.items():
            yield Unknown(what="load of expected nodes", why=f"{why} (the collector's count)", count=count)
        if not self._cycles:
            yield Unknown(what="how many nodes are expected", why="no collector has reported a cycle yet")
        requests = [row.node for row in self._rows.values() if row.pods is None]
        if requests:
            why = "their placement was not received yet: it is published with each change, and every five minutes"
            yield Unknown(
                what="pods and requests of nodes", why=why, nodes=sorted(requests)[:NAMED_NODES], count=len(requests)
            )
        if not self._evictions():
            yield Unknown(what="whether evictions are real", why="no heartbeat of a binder was received")
        if self._evaluated_at is None:
            yield Unknown(what="which nodes are hot", why="no evaluation of a descheduler was received")
        for part, what in ((self._parts.get("plan"), "the plan"), (self._parts.get("limits"), "the limits in use")):
            if isinstance(part, PlanRow | LimitsRow) and part.problem:
                yield Unknown(what=what, why=part.problem)
        if self.ignored_nodes:
            yield Unknown(what="further nodes", why=f"only {MAX_NODES} nodes are shown")


_PARTS = {PlanRow: "plan", LimitsRow: "limits", Connection: "connection"}


def _spread(loads: Iterable[float | None]) -> tuple[float | None, float | None]:
    """Highest minus lowest, and the mean; None with fewer than two known loads."""
    known = [load for load in loads if load is not None]
    if len(known) < 2:
        return None, None
    return round(max(known) - min(known), 4), round(sum(known) / len(known), 4)


def _permille(load: float | None) -> int:
    return _UNKNOWN if load is None else min(_UNKNOWN - 1, round(load * _PERMILLE))
