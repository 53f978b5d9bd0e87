"""The differences between two plans, and the file that holds the last plan shown."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.contracts.messages.plan import PlannedMove, PlannedNode, PlanResponse
from equipoise.runtime.process.bounded_files import read_bounded


class RetargetedMove(msgspec.Struct, frozen=True, kw_only=True):
    """A move whose target changed."""

    move: PlannedMove
    previous_target: str


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A node whose state changed."""

    node: str
    strategy: str
    before: PlannedNode | None
    """The node in the earlier plan; None if that plan does not contain it."""

    now: PlannedNode | None
    """The node in the later plan; None if that plan does not contain it."""


class PlanChanges(msgspec.Struct, frozen=True, kw_only=True):
    """The changes from one plan to a later one."""

    since: float
    until: float
    added: list[PlannedMove]
    removed: list[PlannedMove]
    retargeted: list[RetargetedMove]
    nodes: list[NodeChange]
    refused_added: list[RefusedMove]
    refused_removed: list[RefusedMove]
    evictions_before: str
    evictions: str

    @property
    def empty(self) -> bool:
        lists = (self.added, self.removed, self.retargeted, self.nodes, self.refused_added, self.refused_removed)
        return not any(lists) and self.evictions == self.evictions_before


def plan_changes(before: PlanResponse, now: PlanResponse) -> PlanChanges:
    """The changes from plan to plan. Loads and samples are not compared, because they differ every few seconds."""
    old = {(move.strategy, move.namespace, move.pod, move.node): move for move in before.moves}
    new = {(move.strategy, move.namespace, move.pod, move.node): move for move in now.moves}
    return PlanChanges(
        since=before.planned_at,
        until=now.planned_at,
        added=[move for key, move in new.items() if key not in old],
        removed=[move for key, move in old.items() if key not in new],
        retargeted=[
            RetargetedMove(move=move, previous_target=old[key].target)
            for key, move in new.items()
            if key in old and old[key].target != move.target
        ],
        nodes=_node_changes(before, now),
        refused_added=[refused for refused in now.refused if refused not in before.refused],
        refused_removed=[refused for refused in before.refused if refused not in now.refused],
        evictions_before=before.evictions,
        evictions=now.evictions,
    )


def _node_changes(before: PlanResponse, now: PlanResponse) -> list[NodeChange]:
    old = {(node.strategy, node.node): node for node in before.nodes}
    new = {(node.strategy, node.node): node for node in now.nodes}
    return [
        NodeChange(strategy=key[0], node=key[1], before=old.get(key), now=new.get(key))
        for key in sorted(old.keys() | new.keys())
        if _state(old.get(key)) != _state(new.get(key))
    ]


def _state(node: PlannedNode | None) -> tuple[str, int] | None:
    return None if node is None else (node.state, node.missing_evaluations)


class LastPlans:
    """One file per cluster in the user's cache. The UID of the descheduler's Lease identifies the cluster."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment` has XDG_CACHE_HOME and HOME. A relative path is ignored, as the XDG specification requires."""
        base = environment.get("XDG_CACHE_HOME", "")
        root = Path(base) if os.path.isabs(base) else Path(environment.get("HOME") or Path.home()) / ".cache"
        self._folder = root / "equipoise" / "plans"

    def last(self, plan: PlanResponse) -> PlanResponse | None:
        """The plan that was last shown for the cluster of this plan; None if there is none or it cannot be read."""
        try:
            return msgspec.json.decode(read_bounded(self._file(plan)), type=PlanResponse)
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def save(self, plan: PlanResponse) -> None:
        """Replace the last plan of the cluster. Raises OSError."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(plan)
        new = file.with_suffix(f".{os.getpid()}")
        try:
            new.write_bytes(msgspec.json.encode(plan))
            new.replace(file)
        finally:
            with suppress(OSError):
                new.unlink()

    def _file(self, plan: PlanResponse) -> Path:
        name = hashlib.sha256(plan.leader.lease_uid.encode()).hexdigest()[:16]
        return self._folder / f"{name}.json"
