"""The taint of nodes that are being emptied contains since when."""

import re

import pytest
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.bounds import LATEST
from equipoise.contracts.kubernetes.nodes.consolidation_taint import (
    CONSOLIDATION,
    consolidation_taint,
    emptied_since,
    is_consolidation,
)
from equipoise.contracts.kubernetes.objects.node import Taint

OTHER = Taint(key="dedicated", value="db", effect="NoSchedule")


@given(since=st.floats(min_value=0, max_value=LATEST))
def test_the_taint_contains_the_second_since_when(since: float) -> None:
    """In a value that the API server accepts."""
    taint = consolidation_taint(since)

    assert emptied_since([OTHER, taint]) == int(since)
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", taint.value)


def test_a_node_without_the_taint_is_not_being_emptied() -> None:
    assert emptied_since([OTHER]) is None


@pytest.mark.parametrize("value", ["", "yes", "20270115T080000", "99999999T999999Z"])
def test_a_taint_whose_value_is_no_time_has_an_unknown_time(value: str) -> None:
    assert emptied_since([Taint(key=CONSOLIDATION, value=value, effect="PreferNoSchedule")]) is None


@pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute", ""])
def test_a_taint_with_another_effect_is_not_of_equipoise(effect: str) -> None:
    taint = Taint(key=CONSOLIDATION, value=consolidation_taint(NOW).value, effect=effect)

    assert not is_consolidation(taint)
    assert emptied_since([taint]) is None
