"""Amounts of a node whose usage is not known any more."""

import pytest

from equipoise.contracts.configuration.duration import Duration
from equipoise.reclaimer.decisions.degradation import DegradeSettings, share_kept


@pytest.mark.parametrize(
    ("age", "share"), [(0.0, 1.0), (-5.0, 1.0), (300.0, 1.0), (600.0, 0.5), (900.0, 0.0), (9_000.0, 0.0), (None, 0.0)]
)
def test_amounts_fall_evenly_between_two_ages(age: float | None, share: float) -> None:
    """Kept for 5 minutes, gone after 15; a node that was never measured has none."""
    assert share_kept(age, DegradeSettings()) == share


@pytest.mark.parametrize(("keep", "expire"), [(0, 900), (900, 900), (901, 900)])
def test_ages_in_another_order_are_refused(keep: float, expire: float) -> None:
    """Amounts cannot fall before they are kept."""
    with pytest.raises(ValueError, match="keep must be"):
        DegradeSettings(keep=Duration(keep), expire=Duration(expire))
