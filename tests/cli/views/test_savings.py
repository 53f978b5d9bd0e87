"""What the nodes cost and what could be saved, on the live page."""

import msgspec
import pytest

from equipoise.cli.views.rows import SavingsRow
from equipoise.cli.views.savings import savings_row
from equipoise.contracts.configuration.prices import NO_CURRENCY
from equipoise.contracts.messages.consolidation import CONSOLIDATION_RESPONSE


def test_costs_are_those_of_a_month() -> None:
    assert savings_row(CONSOLIDATION_RESPONSE) == SavingsRow(
        planned_at=CONSOLIDATION_RESPONSE.planned_at,
        considered=2,
        emptiable=1,
        pods=6,
        currency="EUR",
        cost=pytest.approx(175.2),
        saved=pytest.approx(87.6),
        hottest_before=0.52,
        hottest_after=0.575,
    )


def test_what_is_not_known_is_not_zero() -> None:
    unknown = {"per_hour": None, "cluster_per_hour": None, "hottest_before": None, "hottest_after": None}
    row = savings_row(msgspec.structs.replace(CONSOLIDATION_RESPONSE, **unknown, cluster_unpriced=2))
    assert (row.cost, row.saved, row.hottest_before, row.hottest_after) == (None, None, None, None)
    assert row.without_price == 2


def test_prices_without_a_currency_have_none() -> None:
    assert savings_row(msgspec.structs.replace(CONSOLIDATION_RESPONSE, currency=NO_CURRENCY)).currency == ""
