"""What the nodes cost, and which of them the cluster could do without, for the live views."""

from equipoise.cli.consolidate.run import per_month
from equipoise.cli.views.rows import SavingsRow
from equipoise.contracts.configuration.prices import NO_CURRENCY
from equipoise.contracts.messages.consolidation import ConsolidationResponse, NodeHour


def savings_row(answer: ConsolidationResponse) -> SavingsRow:
    return SavingsRow(
        planned_at=answer.planned_at,
        considered=answer.considered,
        emptiable=answer.emptiable,
        pods=answer.pods,
        currency="" if answer.currency == NO_CURRENCY else answer.currency,
        cost=per_month(answer.cluster_per_hour),
        without_price=answer.cluster_unpriced,
        saved=per_month(answer.per_hour),
        hottest_before=_load(answer.hottest_before),
        hottest_after=_load(answer.hottest_after),
    )


def _load(hottest: NodeHour | None) -> float | None:
    return None if hottest is None else hottest.load
