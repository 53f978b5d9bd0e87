"""A campaign: one supervised rebalance, with a budget of moves and an end, as the ledger holds it."""

import re
from typing import Any, Literal

import msgspec

from equipoise.contracts.bounds import Count, Points, Time

DAY = 86_400.0

MAX_DURATION = 7 * DAY
"""Seconds that a campaign lasts at most. One that expires later was written with a wrong clock, or by hand."""

MAX_BUDGET = 500
"""Moves of one campaign: a plan has no more."""

MAX_EXPECTED = 50
"""Points of the expected course of the spread that are kept: the document is limited."""

MAX_STARTED_BY = 200
"""Characters of the name of who started a campaign."""

SUPERVISED = 1_800.0
"""Seconds for which a campaign may make moves after an evaluation was compared with its plan."""

EXPIRY_TOLERANCE = 4.0
"""Seconds by which a campaign ends early, because API servers may differ by as much: it never ends late."""

EXHAUSTED = "nothing more to gain"
"""A finding that ends a campaign and is no reason against one more move."""

STOPPED = "stopped: "
"""The begin of the reason of a campaign that has ended because the cluster became worse than planned."""

CampaignState = Literal["running", "paused", "ended", "stopped"]

_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

_replace = msgspec.structs.replace


class ExpectedSpread(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """What the plan expects once this many pods have moved."""

    moves: Count
    spread: Points
    """The load (0..1) of the most loaded node minus that of the least loaded one."""


class Campaign(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The last campaign. Until it ends, its budget replaces the limits of evictions in the cluster and in a namespace
    per window. Times are the API server's."""

    name: str
    started_by: str = ""
    """The user who started it; empty if the API server does not state it."""

    started_at: Time
    expires_at: Time
    budget: Count
    """The moves that it may make."""

    used: Count = 0
    """The moves that are reserved or made. Only a definite refusal returns one."""

    resource: str = "cpu"
    """The resource whose spread is compared with the plan."""

    expected: tuple[ExpectedSpread, ...] = ()
    """The expected course, in the order of its moves. The first point is the start."""

    target_spread: Points | None = None
    """The spread (0..1) at which it ends; None: it has no target."""

    unscheduled: Count | None = None
    """Pods without a node at its start; None: not known."""

    nodes: Count = 0
    """Nodes at its start; 0: not known."""

    fills: Count = 0
    """Nodes to which the plan moves pods."""

    paused: bool = False
    observed_at: Time = 0.0
    """The time of the last evaluation that it was compared with."""

    spread: Points | None = None
    """The spread at that evaluation, with all pending moves done."""

    finding: str = ""
    """What that evaluation found to be worse than planned, or EXHAUSTED; empty if it goes as planned."""

    detail: str = ""
    """The finding with its numbers, for people."""

    found: Count = 0
    """Evaluations in a row with this finding."""

    ended_at: Time | None = None
    ended: str = ""
    """Why it has ended."""

    unknown_fields: dict[str, Any] = {}
    """Fields of a later version, as in an entry of the ledger."""

    def permits(self, now: float, *, reserved: bool = False) -> bool:
        """Whether one more move may be made by its budget. `reserved`: the move is a part of `used` already.

        None without a recent evaluation: nobody would notice that the cluster becomes worse.
        """
        return (
            self.ended_at is None
            and not self.paused
            and now - self.observed_at < SUPERVISED
            and self.finding in ("", EXHAUSTED)
            and self.started_at <= now + EXPIRY_TOLERANCE
            and now < self.expires_at - EXPIRY_TOLERANCE
            and self.used - reserved < self.budget
        )

    @property
    def stopped(self) -> bool:
        """Whether it has ended because the cluster became worse than planned."""
        return self.ended_at is not None and self.ended.startswith(STOPPED)

    @property
    def state(self) -> CampaignState:
        if self.ended_at is not None:
            return "stopped" if self.stopped else "ended"
        return "paused" if self.paused else "running"

    def taking_one(self) -> "Campaign":
        """One more move is reserved. Raises ValueError if the budget has none left."""
        if self.used >= self.budget:
            raise ValueError(f"campaign {self.name} has used its budget of {self.budget} moves")
        return _replace(self, used=self.used + 1)

    def returning_one(self) -> "Campaign":
        """A reservation was returned: its pod was surely not moved."""
        return _replace(self, used=max(0, self.used - 1))

    def ending(self, why: str, now: float) -> "Campaign":
        return _replace(self, ended_at=now, ended=why)

    def expected_spread(self) -> float | None:
        """The spread that the plan expects after the moves so far; None without a plan."""
        reached = [point.spread for point in self.expected if point.moves <= self.used]
        return reached[-1] if reached else None


def name_problem(name: str) -> str:
    """Why a campaign cannot have this name; empty if it can."""
    if _NAME.fullmatch(name):
        return ""
    return (
        f"{name!r} is no name of a Kubernetes object: use at most 63 lower-case letters, digits and -, "
        "and begin and end with a letter or digit"
    )
