"""What one plan has that another had not; and where the last one shown is kept."""

import hashlib
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import msgspec

from equipoise.contracts.messages.descheduling import RefusedMove
from equipoise.contracts.messages.plan import PlannedMove, PlannedNode, PlanResponse


class Redirected(msgspec.Struct, frozen=True, kw_only=True):
    """A move that goes to another node than before."""

    move: PlannedMove
    target_before: str


class NodeChange(msgspec.Struct, frozen=True, kw_only=True):
    """A node of which something else is told; None where the plan does not name it."""

    node: str
    strategy: str
    before: PlannedNode | None
    now: PlannedNode | None


class PlanChanges(msgspec.Struct, frozen=True, kw_only=True):
    """From one plan to a later one."""

    since: float
    until: float
    new: list[PlannedMove]
    gone: list[PlannedMove]
    redirected: list[Redirected]
    nodes: list[NodeChange]
    newly_refused: list[RefusedMove]
    no_longer_refused: list[RefusedMove]
    evictions_before: str
    evictions: str

    @property
    def none(self) -> bool:
        """Nothing is told differently."""
        lists = (self.new, self.gone, self.redirected, self.nodes, self.newly_refused, self.no_longer_refused)
        return not any(lists) and self.evictions == self.evictions_before


def changes(before: PlanResponse, now: PlanResponse) -> PlanChanges:
    """Loads and samples alone make no change: they differ every few seconds."""
    old = {(move.strategy, move.namespace, move.pod, move.node): move for move in before.moves}
    new = {(move.strategy, move.namespace, move.pod, move.node): move for move in now.moves}
    return PlanChanges(
        since=before.planned_at,
        until=now.planned_at,
        new=[move for key, move in new.items() if key not in old],
        gone=[move for key, move in old.items() if key not in new],
        redirected=[
            Redirected(move=move, target_before=old[key].target)
            for key, move in new.items()
            if key in old and old[key].target != move.target
        ],
        nodes=_nodes(before, now),
        newly_refused=[each for each in now.refused if each not in before.refused],
        no_longer_refused=[each for each in before.refused if each not in now.refused],
        evictions_before=before.evictions,
        evictions=now.evictions,
    )


def _nodes(before: PlanResponse, now: PlanResponse) -> list[NodeChange]:
    old = {(node.strategy, node.node): node for node in before.nodes}
    new = {(node.strategy, node.node): node for node in now.nodes}
    return [
        NodeChange(strategy=key[0], node=key[1], before=old.get(key), now=new.get(key))
        for key in sorted(old.keys() | new.keys())
        if _telling(old.get(key)) != _telling(new.get(key))
    ]


def _telling(node: PlannedNode | None) -> tuple[str, int] | None:
    return None if node is None else (node.state, node.missing_evaluations)


class LastPlans:
    """A file per cluster in the user's cache: the Lease of the descheduler tells clusters apart, whatever the URL."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        """`environment`: XDG_CACHE_HOME and HOME; a path that is not absolute is ignored, as XDG asks."""
        base = environment.get("XDG_CACHE_HOME", "")
        root = Path(base) if os.path.isabs(base) else Path(environment.get("HOME") or Path.home()) / ".cache"
        self._folder = root / "equipoise" / "plans"

    def last(self, plan: PlanResponse) -> PlanResponse | None:
        """The plan of this cluster that was shown before; None when none is kept, or it cannot be read."""
        try:
            return msgspec.json.decode(self._file(plan).read_bytes(), type=PlanResponse)
        except (OSError, msgspec.MsgspecError):
            return None

    def keep(self, plan: PlanResponse) -> None:
        """For the next time. Raises OSError when it cannot be kept."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        file = self._file(plan)
        fresh = file.with_suffix(f".{os.getpid()}")
        try:
            fresh.write_bytes(msgspec.json.encode(plan))
            fresh.replace(file)
        finally:
            with suppress(OSError):
                fresh.unlink()

    def _file(self, plan: PlanResponse) -> Path:
        name = hashlib.sha256(plan.leader.lease_uid.encode()).hexdigest()[:16]
        return self._folder / f"{name}.json"
