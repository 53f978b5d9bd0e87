"""The binder's metrics of the ledger, which are the same for all binders, and of its own outcomes."""

from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge

from equipoise.binder.decisions.limits import Limits
from equipoise.binder.decisions.status import ledger_status
from equipoise.binder.state.campaign import Campaign, CampaignState
from equipoise.binder.state.ledger import Ledger, LedgerClosed
from equipoise.contracts.messages.eviction import Outcome

LEDGER_STATES = ("allowed", "paused", "closed", "unreadable")


class BinderMetrics:
    """The metrics of a binder. All values of a label exist from the start, because `increase()` does not see the first
    increment of a new series.
    """

    def __init__(self, limits: Limits, registry: CollectorRegistry) -> None:
        self._limits = limits
        self._outcomes = Counter(
            "equipoise_binder_outcomes", "Outcomes of intents, by outcome.", ["outcome"], registry=registry
        )
        self._rejections = Counter(
            "equipoise_binder_limit_rejections", "Intents that a limit rejected, by limit.", ["limit"],
            registry=registry,
        )  # fmt: skip
        self._ledger = Gauge(
            "equipoise_binder_ledger",
            "1 for the state of the ledger: allowed, paused, closed (missing or invalid) or unreadable.",
            ["state"],
            registry=registry,
        )
        self._limit_used = Gauge(
            "equipoise_binder_limit_used",
            "What a limit counts now, for the object with the highest count. Of dry runs while there are no evictions.",
            ["limit"],
            registry=registry,
        )
        self._detached = Gauge(
            "equipoise_binder_detached_pods",
            "Pods that moves without a gap keep detached. late: the replacement was not ready in time.",
            ["late"],
            registry=registry,
        )
        self._oldest_detached = Gauge(
            "equipoise_binder_detached_pods_oldest_seconds",
            "Time since the oldest of these moves was reserved in the ledger. 0 if there is none.",
            ["late"],
            registry=registry,
        )
        self._campaign = Gauge(
            "equipoise_binder_campaign",
            "1 for the state of the last campaign: running, paused, ended, or stopped because the cluster became worse "
            "than planned. 0 for all without one.",
            ["state"],
            registry=registry,
        )
        self._campaign_moves = Gauge(
            "equipoise_binder_campaign_moves",
            "Moves of the last campaign: used (made or reserved), and its budget.",
            ["count"],
            registry=registry,
        )
        for outcome in Outcome:
            self._outcomes.labels(outcome.value)
        for limit in limits.table:
            self._rejections.labels(limit)
        for state in LEDGER_STATES:
            # 0 until the first read: while the binder waits for its fence, the state is unknown.
            self._ledger.labels(state)

    def on_outcome(self, outcome: Outcome, limit: str) -> None:
        """`limit`: the limit that rejected the intent, or ""."""
        self._outcomes.labels(outcome.value).inc()
        if limit:
            self._rejections.labels(limit).inc()

    def on_ledger(self, ledger: Ledger | LedgerClosed | None, now: float) -> None:
        """Sets the metrics of the ledger, read at API server time `now`; None: unreadable, every count is unknown."""
        state = "unreadable"
        for gauge in (self._limit_used, self._detached, self._oldest_detached, self._campaign, self._campaign_moves):
            gauge.clear()  # an old count would look like a current one
        if isinstance(ledger, LedgerClosed):
            state = "unreadable" if ledger.unreadable else "closed"
        elif ledger is not None:
            status = ledger_status(ledger, self._limits, now)
            state = status.evictions
            for limit in self._limits.table:
                counts = [usage.counted for usage in status.usage if usage.limit == limit]
                self._limit_used.labels(limit).set(max(counts, default=0))
            self._set_detached(ledger, now)
            self._set_campaign(ledger.campaign)
        for name in LEDGER_STATES:
            self._ledger.labels(name).set(name == state)

    def _set_campaign(self, campaign: Campaign | None) -> None:
        for state in get_args(CampaignState):
            self._campaign.labels(state).set(campaign is not None and campaign.state == state)
        used, budget = (0, 0) if campaign is None else (campaign.used, campaign.budget)
        self._campaign_moves.labels("used").set(used)
        self._campaign_moves.labels("budget").set(budget)

    def _set_detached(self, ledger: Ledger, now: float) -> None:
        """Counts every open move: one that is only reserved has perhaps detached its pod."""
        begun = {entry.intent_id: entry.reserved_at for entry in ledger.entries}
        for late, label in ((False, "false"), (True, "true")):
            moves = [move for move in ledger.surge_moves if (now > move.ready_by) == late]
            ages = [now - begun.get(move.intent.id, now) for move in moves]
            self._detached.labels(label).set(len(moves))
            self._oldest_detached.labels(label).set(max(ages, default=0.0))
