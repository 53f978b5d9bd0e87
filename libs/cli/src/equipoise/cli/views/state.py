"""The state of the live views, folded from the messages of the bus. No I/O; time is an argument; memory is bounded."""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from equipoise.cli.views.history import LoadHistory, spread_and_mean
from equipoise.cli.views.moves import KnownMoves
from equipoise.cli.views.nodes import KnownNode
from equipoise.cli.views.rows import (
    Changes,
    ClusterSummary,
    Connection,
    Frame,
    LimitsRow,
    MoveRow,
    NodeRow,
    PlanRow,
    PodRow,
    SavingsRow,
    ServiceRow,
    Unknown,
)
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.latest import is_acceptable, supersedes_measurement
from equipoise.contracts.load.node_coverage import SHARD_LIFETIME
from equipoise.contracts.messages.advice import ClusterReview
from equipoise.contracts.messages.descheduling import DescheduleDecision
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome
from equipoise.contracts.messages.health import DRY_RUN, HEARTBEAT_LIFETIME, REAL, Heartbeat
from equipoise.contracts.messages.message import converted
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.plan import PlannedNode, PlanResponse
from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.contracts.messages.values.resources import Resources

MAX_NODES = 20_000
"""The largest number of nodes that are shown. Without a limit, anyone who publishes names could fill the memory."""

MAX_PROCESSES = 200
MAX_SHARDS = 200
MAX_STRATEGIES = 20

MAX_PLANNED_NODES = 500
"""A plan with this many nodes may not have all nodes."""

NODE_LIFETIME = 3_600.0
"""Seconds without a message about a node, while collectors measure, after which the node is removed."""

NAMED_NODES = 20
"""The largest number of nodes that are named for each reason why loads are unknown."""


class LiveState:
    """The state of the live views.

    Callers apply messages in the order of their arrival, call `tick` about once a second, and take the changes.
    """

    def __init__(self, load: LoadSettings) -> None:
        self.use(load)
        self._nodes: dict[str, KnownNode] = {}
        self._rows: dict[str, NodeRow] = {}
        self._stale: set[str] = set()
        """Nodes whose row must be computed again."""

        self._changed: dict[str, NodeRow] = {}
        self._removed: set[str] = set()
        self._moves = KnownMoves()
        self._history = LoadHistory()
        self._cycles: dict[str, UtilizationCycle] = {}
        self._heartbeats: dict[tuple[str, str], tuple[float, Heartbeat]] = {}
        self._classified: dict[str, set[str]] = {}
        """The nodes that each strategy classified last."""

        self._evaluated_at: float | None = None
        self._ticked_at = 0.0
        self._summary: ClusterSummary | None = None
        self._summary_is_stale = True
        self._parts: dict[str, PlanRow | SavingsRow | LimitsRow | Connection] = {}
        self._changed_parts: set[str] = set()
        self.ignored_nodes = 0
        """The number of messages about nodes beyond `MAX_NODES`."""

    def use(self, load: LoadSettings) -> None:
        """Set for how long values are shown. These are the lifetimes with which the collector measures."""
        self._max_age: float = load.lifetime(load.shortest)
        self._shard_lifetime: float = SHARD_LIFETIME * load.freshness.score

    # -- messages

    def apply(self, message: msgspec.Struct, now: float) -> None:
        """Apply a message. Messages of other kinds change nothing."""
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
                self._moves.propose(message)
            case EvictionOutcome():
                self._moves.settle(message)
            case DescheduleDecision():
                self._evaluate(message, now)
            case Heartbeat():
                self._beat(message, now)
            case ClusterReview():
                self._history.add_review(message)
                self._summary_is_stale = True

    def _node(self, name: str, now: float) -> KnownNode | None:
        node = self._nodes.get(name)
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                self._summary_is_stale = self._summary_is_stale or not self.ignored_nodes
                self.ignored_nodes += 1
                return None
            node = self._nodes[name] = KnownNode(name, now)
        return node

    def _place(self, message: NodePlacement, now: float) -> None:
        if message.removed:
            if (existing := self._nodes.get(message.node)) is not None and existing.is_removed_by(message, now):
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
        reported = message.missing if before is None else {**before.missing, **message.missing}
        for name in reported:
            node = self._node(name, now)  # an expected node that was never measured is unknown, not absent
            if node is not None:
                node.expect(message.missing.get(name, ""))
                self._stale.add(name)
        self._summary_is_stale = True

    def _evaluate(self, decision: DescheduleDecision, now: float) -> None:
        before = self._classified.get(decision.strategy)
        if before is None and len(self._classified) >= MAX_STRATEGIES:
            return
        self._moves.evaluate(decision)
        if self._evaluated_at is not None and decision.evaluated_at < self._evaluated_at - 1.0 and before is not None:
            return  # repeated or late: its news about moves counts, its classification of nodes is outdated
        classified: set[str] = set()
        for each in decision.nodes:
            if (node := self._node(each.node, now)) is not None:
                node.classify(decision.strategy, each)
                classified.add(each.node)
        for name in (before or set()) - classified:
            if (node := self._nodes.get(name)) is not None:
                node.classify(decision.strategy, None)
        self._stale.update(classified, (before or set()) & self._nodes.keys())
        self._classified[decision.strategy] = classified
        self._evaluated_at = max(self._evaluated_at or 0.0, decision.evaluated_at)
        self._summary_is_stale = True

    def _beat(self, heartbeat: Heartbeat, now: float) -> None:
        process = heartbeat.service, heartbeat.id
        before = self._heartbeats.get(process)
        if before is None and sum(service == process[0] for service, _ in self._heartbeats) >= MAX_PROCESSES:
            return
        self._heartbeats[process] = (now, heartbeat)
        same = before is not None and msgspec.structs.replace(before[1], at=heartbeat.at) == heartbeat
        self._summary_is_stale = self._summary_is_stale or not same

    def plan(self, plan: PlanResponse) -> None:
        """Classify nodes as in this plan and take its loads, so that all parts of the view have the same numbers.

        Nodes of dry-run moves keep their loads, because the plan counts these moves as done.
        """
        strategies = {*plan.why, *(node.strategy for node in plan.nodes), *(move.strategy for move in plan.moves)}
        if plan.shortened or len(plan.nodes) >= MAX_PLANNED_NODES:
            strategies = set()  # nothing is known about nodes that the plan does not have
        plans_by_node: dict[str, list[PlannedNode]] = {}
        for planned in plan.nodes:
            plans_by_node.setdefault(planned.node, []).append(planned)
        dry_run = {name for move in plan.dry_run_moves for name in (move.node, move.target)}
        for name, node in self._nodes.items():
            plans = plans_by_node.get(name, [])
            load = plans[0].before if plans and name not in dry_run else Resources()
            node.plan(plan.planned_at, {each.strategy: each.state for each in plans}, strategies, load)
            self._stale.add(name)
        self._evaluated_at = max(self._evaluated_at or 0.0, plan.planned_at)
        self._summary_is_stale = True

    def show(self, part: PlanRow | SavingsRow | LimitsRow | Connection) -> None:
        """Show a part of the view that is read, not published."""
        name = _PARTS[type(part)]
        if self._parts.get(name) != part:
            self._parts[name] = part
            self._changed_parts.add(name)
            self._summary_is_stale = True

    # -- time

    def tick(self, now: float) -> None:
        """Apply the changes that time brings: old samples expire, points and frames are due, silent processes are
        dropped.
        """
        is_measuring = self._measuring(now)
        for node in list(self._nodes.values()):
            is_forgotten = is_measuring and node.received_at < now - NODE_LIFETIME
            if is_forgotten or not node.exists:
                self._drop(node.name)
            elif node.expired_between(self._ticked_at, now, self._max_age):
                self._stale.add(node.name)
        self._ticked_at = now
        for name in self._stale:
            row = self._nodes[name].row(now, self._max_age)
            if row != self._rows.get(name):
                self._rows[name] = self._changed[name] = row
                self._removed.discard(name)
                self._summary_is_stale = True
        self._stale.clear()
        self._moves.expire(now)
        silent = [id for id, (at, _) in self._heartbeats.items() if now - at > HEARTBEAT_LIFETIME]
        for id in silent:
            del self._heartbeats[id]
        old = [shard for shard, cycle in self._cycles.items() if now - cycle.queried_at > self._shard_lifetime]
        for shard in old:
            del self._cycles[shard]
        self._summary_is_stale = self._summary_is_stale or bool(silent or old)
        self._history.record(now, self._rows.values())

    def _measuring(self, now: float) -> bool:
        return any(now - cycle.queried_at <= self._max_age for cycle in self._cycles.values())

    # -- views

    def take_changes(self) -> Changes | None:
        """What changed since the last call; None if nothing did."""
        summary, moves, points = self._new_summary(), self._moves.take_changes(), self._history.take_points()
        parts = {name: self._parts[name] for name in self._changed_parts}
        if not (self._changed or self._removed or moves or points or summary or parts):
            return None
        changes = Changes(
            nodes=list(self._changed.values()),
            removed=sorted(self._removed),
            moves=moves,
            points=points,
            summary=summary,
            **parts,  # type: ignore[arg-type]  # each name has its own type
        )
        self._changed_parts = set()
        self._changed, self._removed = {}, set()
        return changes

    def everything(self) -> Changes:
        """The whole view, as changes of an empty view. It does not affect the next result of `take_changes`."""
        return Changes(
            nodes=list(self._rows.values()),
            moves=list(self._moves),
            points=self._history.points(),
            summary=self._make_summary(),
            **self._parts,  # type: ignore[arg-type]  # each name has its own type
        )

    @property
    def is_complete(self) -> bool:
        """Whether collectors have reported how many nodes they expect, and the load of all these nodes is known."""
        expected = sum(cycle.expected for cycle in self._cycles.values())
        return 0 < expected <= len(self._rows) and not any(row.unknown for row in self._rows.values())

    def frame(self, at: float) -> Frame | None:
        """The last frame at or before `at`, otherwise the oldest frame; None without any frame."""
        return self._history.frame(at)

    def node(self, name: str) -> KnownNode | None:
        return self._nodes.get(name)

    def row(self, name: str) -> NodeRow | None:
        return self._rows.get(name)

    @property
    def rows(self) -> Iterable[NodeRow]:
        return self._rows.values()

    @property
    def moves(self) -> Iterable[MoveRow]:
        """All moves, oldest first."""
        return self._moves

    def pods_of(self, workload: str) -> Iterator[PodRow]:
        """The pods of a workload, which is given as in the rows: KIND/NAMESPACE/NAME. Reads all pods; may run in a
        thread while messages arrive."""
        for node in list(self._nodes.values()):
            yield from node.pods(workload)

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
        spread, mean = spread_and_mean(self._rows.values())
        cycles = self._cycles.values()
        return ClusterSummary(
            nodes=len(self._rows),
            known=sum(not row.unknown for row in self._rows.values()),
            expected=sum(cycle.expected for cycle in cycles) if cycles else None,
            hot=sum(row.state == "hot" for row in self._rows.values()),
            spread=spread,
            mean=mean,
            high=self._history.high,
            evictions=self._evictions(),
            campaign=self._campaign(),
            measured_at=max((cycle.queried_at for cycle in cycles), default=None),
            evaluated_at=self._evaluated_at,
            services=[
                converted(each, ServiceRow)
                for _, each in sorted(self._heartbeats.values(), key=lambda item: (item[1].service, item[1].id))
            ],
            unknown=list(self._unknown()),
        )

    def _evictions(self) -> str:
        """The mode of the binders; if they differ, real evictions win."""
        modes = {each.evictions for _, each in self._heartbeats.values() if each.service == "binder"} - {""}
        return next((mode for mode in (REAL, DRY_RUN) if mode in modes), "; ".join(sorted(modes)))

    def _campaign(self) -> str:
        """The running campaign, as the binder whose heartbeat is the newest has read it."""
        heartbeats = [each for _, each in self._heartbeats.values() if each.service == "binder"]
        return max(heartbeats, key=lambda each: each.at).campaign if heartbeats else ""

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


_PARTS = {PlanRow: "plan", SavingsRow: "savings", LimitsRow: "limits", Connection: "connection"}
