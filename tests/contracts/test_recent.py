"""Whether something began lately."""

import pytest
from builders import NOW

from equipoise.contracts.recent import is_recent


@pytest.mark.parametrize(("ago", "recent"), [(0, True), (299, True), (300, False), (-5, True), (-299, True)])
def test_what_began_within_the_period_is_recent(ago: float, recent: bool) -> None:
    """Clocks differ by some seconds, so also what began a little ahead."""
    assert is_recent(NOW - ago, NOW, 300) is recent


@pytest.mark.parametrize("ahead", [300, 86_400, 31_536_000])
def test_a_time_of_the_far_future_is_not_waited_for(ahead: float) -> None:
    assert not is_recent(NOW + ahead, NOW, 300)
