"""When the hints of a namespace are written."""

from typing import Any

import pytest

from equipoise.annotator.decisions.hint_write import HintWriteThreshold, WrittenHints, decide_hints, hint_change
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.messages.placement import WeightedNodes, WorkloadHint

NOW = 1_800_000_000.0
THRESHOLD = HintWriteThreshold()


def nodes(weight: int, *names: str) -> WeightedNodes:
    return WeightedNodes(weight=weight, hostnames=names)


HINT = WorkloadHint(prefer=(nodes(50, "a", "b"), nodes(25, "c")), avoid=nodes(50, "d"))


def written(until: float, hint: WorkloadHint | None = HINT, **fields: Any) -> WrittenHints:
    hints = {} if hint is None else {"Deployment.web": hint}
    return WrittenHints(**{"until": NOW + until, "hints": hints, "owner": "uid-1"} | fields)


OTHER = WorkloadHint(prefer=(nodes(50, "x", "y"),))

CASES = {
    "first": (None, written(300), "not written before"),
    "first, but expired": (None, written(-1), None),
    "nothing to write": (None, written(300, None), None),
    "nothing as before": (written(-100, None), written(300, None), None),
    "the same": (written(290), written(300), None),
    "half is over": (written(150), written(300), "half of 5m is over"),
    "nothing newer": (written(100), written(100), None),
    "older than what is written": (written(200), written(100, OTHER), None),
    "expired": (written(-200), written(-100), None),
    "changed": (written(285), written(300, OTHER), "Deployment.web changed by 100%"),
    "changed within the minimum interval": (written(295), written(300, OTHER), None),
    "no hints any more": (written(285), written(300, None), "Deployment.web changed by 100%"),
    "a forged time": (written(10_000), written(300), "somebody else made the hints valid for longer"),
    "another policy": (written(299), written(300, owner="uid-2"), "the policy was created again"),
}


@pytest.mark.parametrize("case", CASES)
def test_hints_are_written_when_they_changed_or_half_of_their_time_is_over(case: str) -> None:
    before, wanted, expected = CASES[case]
    due = decide_hints(before, wanted, now=NOW, threshold=THRESHOLD)

    assert expected == (due and due.why)


CHANGES = {
    "the same": (HINT, 0.0),
    "other order": (WorkloadHint(prefer=(nodes(25, "c"), nodes(50, "b", "a")), avoid=nodes(50, "d")), 0.0),
    "one of four nodes": (WorkloadHint(prefer=(nodes(50, "a", "x"), nodes(25, "c")), avoid=nodes(50, "d")), 100 / 225),
    "a lower weight": (WorkloadHint(prefer=(nodes(50, "a", "b"), nodes(12, "c")), avoid=nodes(50, "d")), 13 / 175),
    "split over two terms": (
        WorkloadHint(prefer=(nodes(30, "a", "b"), nodes(20, "a", "b"), nodes(25, "c")), avoid=nodes(50, "d")),
        0.0,
    ),
    "best becomes worst": (WorkloadHint(prefer=(nodes(50, "d"),), avoid=nodes(50, "a", "b")), 1.0),
    "none": (WorkloadHint(), 1.0),
}


@pytest.mark.parametrize("case", CHANGES)
def test_a_change_is_the_part_of_the_weight_that_is_on_other_nodes(case: str) -> None:
    after, expected = CHANGES[case]

    assert expected == pytest.approx(hint_change(HINT, after))
    assert expected == pytest.approx(hint_change(after, HINT))


@pytest.mark.parametrize(
    ("fields", "message"),
    [({"validity": 700}, "validity"), ({"validity": 0}, "validity"), ({"min_interval": 100}, "minInterval")],
)
def test_settings_that_could_not_work_are_refused(fields: dict[str, float], message: str) -> None:
    """The admission policy of the account refuses hints for more than ten minutes."""
    with pytest.raises(ValueError, match=message):
        HintWriteThreshold(**{name: Duration(seconds) for name, seconds in fields.items()})
