"""The amount in a node's status: floor, growth, rounding, and when it is written."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.reclaimer.decisions.offer import Offer, OfferSettings, offer, requested_amount

DEFAULTS: dict[str, Any] = {
    "existing": 4_000,
    "reclaimed": 4_000.0,
    "requested": 0.0,
    "capacity": 10_000.0,
    "since_write": 0.0,
    "settings": OfferSettings(),
}


def offered(**fields: Any) -> Offer:
    return offer(**{**DEFAULTS, **fields})


@pytest.mark.parametrize(
    ("about", "fields", "amount", "due"),
    [
        ("nothing changed", {}, 4_000, False),
        ("nothing changed for long", {"since_write": 9e9}, 4_000, False),
        ("it shrinks at once", {"reclaimed": 0.0}, 0, True),
        ("it grows by a tenth of the node", {"reclaimed": 9_000.0}, 5_000, True),
        ("a small change waits", {"reclaimed": 3_700.0}, 3_700, False),
        ("a small change is written later", {"reclaimed": 3_700.0, "since_write": 300.0}, 3_700, True),
        ("it is a whole number", {"reclaimed": 3_700.9}, 3_700, False),
        ("bound pods keep what they request", {"reclaimed": 0.0, "requested": 2_499.1}, 2_500, True),
        (
            "pods that request more than exists",
            {"existing": 1_000, "reclaimed": 0.0, "requested": 1_050.0},
            1_050,
            True,
        ),
        ("a key that is missing is written", {"existing": None, "reclaimed": 0.0}, 0, True),
        ("a key that a kubelet set to 0", {"existing": 0, "requested": 2_000.0}, 2_000, True),
        ("not more than the node has", {"existing": 9_900, "reclaimed": 20_000.0}, 10_000, False),
        ("an unchangeable amount remains", {"existing": 12_000, "requested": 11_000.0}, 12_000, False),
        ("requests above a smaller node", {"existing": 3_000, "requested": 11_000.0}, 10_000, True),
    ],
)
def test_the_offer(about: str, fields: dict[str, Any], amount: int, due: bool) -> None:
    """One rule each."""
    assert offered(**fields) == Offer(amount=amount, due=due), about


@given(
    existing=st.none() | st.integers(0, 20_000),
    reclaimed=st.floats(0, 1e6),
    requested=st.floats(0, 10_000),
)
def test_bound_pods_always_fit(existing: int | None, reclaimed: float, requested: float) -> None:
    """Whatever is idle, the amount covers what they request, as long as the node has it."""
    found = offered(existing=existing, reclaimed=reclaimed, requested=requested)

    assert found.amount >= requested
    assert found.due or existing is not None


@given(
    existing=st.none() | st.integers(0, 20_000),
    reclaimed=st.floats(0, 1e6),
    running=st.floats(0, 10_000),
    waiting=st.floats(0, 10_000),
)
def test_pods_that_do_not_run_yet_keep_an_offer_and_raise_none(
    existing: int | None, reclaimed: float, running: float, waiting: float
) -> None:
    """kube-scheduler binds pods to what is offered only; whoever else binds them waits for the kubelet."""
    bound = running + waiting
    needed = requested_amount(existing=existing, running=running, bound=bound)
    without = offered(existing=existing, reclaimed=reclaimed, requested=running).amount
    amount = offered(existing=existing, reclaimed=reclaimed, requested=needed).amount

    assert running <= needed <= bound
    assert amount >= min(bound, existing or 0, 10_000)
    assert amount <= max(without, existing or 0)
