"""The base classes of limits. A limit has settings, counts evictions, and may refuse one more."""

import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from equipoise.binder.state.ledger import LedgerView, clock_tolerance
from equipoise.binder.state.ledger_entry import LedgerEntry
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Section
from equipoise.contracts.kubernetes.workload import Workload

UNLIMITED: Literal["unlimited"] = "unlimited"

Count = Annotated[int, Meta(ge=0)] | Literal["unlimited"]
"""A number, or "unlimited". 0: no pod may be evicted."""

ShareOrCount = (
    Annotated[int, Meta(ge=0)]
    | Annotated[
        str,
        Meta(
            pattern=r"^(unlimited|(100|[0-9]{1,2})(\.[0-9]{1,3})?%)$",
            description="a percentage such as 1% (without a space), a whole number, or unlimited",
        ),
    ]
)
"""A number, a share such as "10%" (rounded down, but at least 1), or "unlimited". 0 and "0%": no pod may be evicted."""

LimitScope = Literal["pod", "workload", "namespace", "cluster"]

CLUSTER = "the cluster"


class ProposedEviction(msgspec.Struct, frozen=True, kw_only=True):
    """The eviction that limits are checked for. Built by `shell/validation.py`."""

    namespace: str
    node: str
    workload: Workload | None
    replicas: int
    """Desired replicas of the workload."""

    unready: int
    """Replicas of the workload that are missing or not ready, including this pod and migrating pods."""

    cluster_pods: int
    """Pods on all known nodes. A number that is too low makes limits stricter."""


class Limit(Section, frozen=True, kw_only=True):
    """A limit for evictions. It never becomes less strict when more entries are counted."""

    scope: ClassVar[LimitScope] = "pod"
    """The pods to which a refusal applies: the descheduler proposes none of them until the limit may permit it. With
    "pod", other pods of the same workload may still be evicted."""

    replaced_by_campaign: ClassVar[bool] = False
    """Whether the budget of a campaign holds instead of it."""

    delays: ClassVar[bool] = False
    """Whether an eviction waits until the limit permits it, instead of being refused."""

    @property
    def retention(self) -> float:
        """Seconds after the end of its migration for which the ledger must keep an eviction for this limit."""
        return 0.0

    def holds(self, eviction: ProposedEviction, view: LedgerView) -> bool:
        """Whether no campaign replaces the limit now."""
        return not (view.campaign and self.replaced_by_campaign)

    def refusal(self, eviction: ProposedEviction, view: LedgerView) -> str:
        """Why the pod may not be evicted, for people; "" when it may be."""
        raise NotImplementedError

    def usage(self, view: LedgerView) -> Mapping[str, int]:
        """The number of entries counted now for each object, such as "node node-a". For `equipoise status`."""
        return {}

    @property
    def maximum_text(self) -> str:
        """The configured maximum. For `equipoise status`."""
        return ""

    def retry_at(self, eviction: ProposedEviction, view: LedgerView) -> float | None:
        """The time at which the limit permits the eviction if nothing else happens; None if waiting is not enough."""
        if not self.retention:
            return None
        # One millisecond is added because a window includes its end, and times are floats.
        after = self.retention + clock_tolerance(self.retention) + 0.001
        ends = sorted(entry.latest + after for entry in view.entries)
        later = (msgspec.structs.replace(view, now=end) for end in ends if end > view.now)
        return next((view.now for view in later if not self.refusal(eviction, view)), None)


class CountingLimit(Limit, frozen=True, kw_only=True):
    """Refuses when `max` entries of the ledger are counted."""

    per: ClassVar[Literal["node", "workload", "namespace", "cluster"]] = "cluster"
    """The kind of the object for which entries are counted. An eviction counts with those of the same object."""

    counts: ClassVar[str]
    """The counted evictions in the text of a refusal: a format string with `limit` and `eviction`."""

    max: Count | ShareOrCount | None

    def entries(self, view: LedgerView) -> Sequence[LedgerEntry]:
        """The entries that count."""
        raise NotImplementedError

    def key(self, of: ProposedEviction | LedgerEntry) -> Hashable:
        """The object for which the eviction is counted."""
        match self.per:
            case "workload":
                return of.workload
            case "namespace":
                return f"namespace {of.namespace}"
            case "node":
                return f"node {of.node}"
            case "cluster":
                return CLUSTER

    def count(self, eviction: ProposedEviction, view: LedgerView) -> int:
        key = self.key(eviction)
        return sum(self.key(entry) == key for entry in self.entries(view))

    def maximum(self, eviction: ProposedEviction, view: LedgerView) -> float:
        assert self.max is not None, "a limit without a configured maximum computes its own"
        return amount(self.max, 0)

    def holds(self, eviction: ProposedEviction, view: LedgerView) -> bool:
        """No campaign permits what a maximum of 0 forbids."""
        return super().holds(eviction, view) or self.maximum(eviction, view) == 0

    def describe(self, eviction: ProposedEviction, view: LedgerView) -> str:
        return self.counts.format(limit=self, eviction=eviction)

    def refusal(self, eviction: ProposedEviction, view: LedgerView) -> str:
        counted, maximum = self.count(eviction, view), self.maximum(eviction, view)
        allowed = halved(maximum) if view.halved else maximum
        if counted < allowed:
            return ""
        reached = "no pod may be evicted" if allowed == 0 else f"{counted} of {math.floor(allowed)} allowed"
        half = ", half of the limit after a start or an outage" if view.halved and allowed else ""
        return f"{self.describe(eviction, view)}: {reached}{half}"

    def usage(self, view: LedgerView) -> Mapping[str, int]:
        counts = Counter(str(self.key(entry)) for entry in self.entries(view))
        return {CLUSTER: 0, **counts} if self.per == "cluster" else counts

    @property
    def maximum_text(self) -> str:
        return "default" if self.max is None else str(self.max)


class WindowedLimit(CountingLimit, frozen=True, kw_only=True):
    """Counts the evictions that may have happened in the last `window` seconds."""

    window: Duration

    @property
    def retention(self) -> float:
        return self.window

    def entries(self, view: LedgerView) -> Sequence[LedgerEntry]:
        return view.within(self.window)


def amount(setting: int | str, of: int) -> float:
    """The number for a setting: infinite for "unlimited", and for a share, that share of the number `of`."""
    if isinstance(setting, int):
        return setting
    if setting == UNLIMITED:
        return math.inf
    share = Fraction(setting.removesuffix("%")) / 100
    return max(1, math.floor(share * of)) if share else 0


def replicas_amount(setting: int | str | None, replicas: int) -> float:
    """The number of a workload's replicas for a setting. Of two or more replicas it is never all of them.

    The default (None) is a tenth of more than 10 replicas, rounded down; 2 of 4 to 10 replicas; and 1 of fewer. Source:
    koordinator, GetMaxUnavailable.
    """
    if setting is None:
        maximum: float = replicas // 10 if replicas > 10 else 2 if replicas >= 4 else 1
    else:
        maximum = amount(setting, replicas)
    return maximum if maximum == math.inf else min(maximum, max(1, replicas - 1))


def halved(maximum: float) -> float:
    """Half of the maximum, rounded up. Infinity is not halved."""
    return maximum if maximum == math.inf else math.ceil(maximum / 2)
