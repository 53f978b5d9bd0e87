"""A soak checks each period on the evidence that it needs, and its report says how close the limits were."""

from typing import Any

import msgspec
import pytest

from faults.actions import ACTIONS, Action
from faults.history import Guarantees, History, Window
from faults.soak import Report, judge, most_in, oldest_data, recent
from faults.test_invariants import change, post, published, sampled, started

WORKLOAD = Window(scope="workload", max=1, seconds=10)


def test_the_evidence_of_pods_that_exist_is_kept() -> None:
    """And nothing about pods that were gone before; a StatefulSet's pod of the same name exists again."""
    pods = (*started("web-1", 1), *started("web-2", 1), change("web-3", 1, "ready"), change("web-3", 50, "deleted"))
    history = History(posts=(post("web-1", 40), post("web-2", 120)), pods=(*pods, *started("web-1", 60)))
    kept = recent(history, 100)
    assert [each.at for each in kept.posts] == [120]
    assert [(each.pod, each.at) for each in kept.pods] == [
        ("web-2", 1), ("web-2", 1.1), ("web-1", 60), ("web-1", 60.1),
    ]  # fmt: skip


def test_a_window_across_two_periods_is_checked() -> None:
    """The first eviction belongs to the period before; the violation is reported once."""
    history = History(
        since=100,
        posts=(post("web-1", 95), post("web-2", 104)),
        intents=(published("web-1", 90), published("web-2", 99)),
    )
    report = Report(seed=1)
    lines = [judge(history, Guarantees(windows=(WORKLOAD,)), report) for _ in range(2)]
    assert [len(each) for each in lines] == [1, 0]
    assert lines[0][0].startswith("I1: web-2")
    assert report.violated == 1
    assert report.exit_code == 1
    assert report.most == {"evictions per workload in 10 s": 2}


def test_the_fullest_window() -> None:
    posts = [post("web-1", 1), post("web-2", 5), post("db-1", 6), post("web-3", 20)]
    assert most_in(WORKLOAD, posts) == 2
    assert most_in(Window(scope="cluster", max=1, seconds=10), posts) == 3


def test_the_age_of_data_is_that_of_the_newest_intent_that_may_have_caused_the_eviction() -> None:
    """In seconds; nothing was evicted: 0."""
    intents = (published("web-1", 100, sampled_at=96), published("web-1", 101, sampled_at=99))
    assert oldest_data(History(posts=(post("web-1", 102),), intents=intents)) == 3
    assert oldest_data(History()) == 0


def test_growth_per_hour() -> None:
    """Of the process of a program that ran for longest, if it ran long enough."""
    processes = sampled(300, resident=lambda at: int((80 + at / 60) * 2**20))
    started_again = tuple(msgspec.structs.replace(sample, pid=8) for sample in sampled(120))
    assert "| binder-0 | 5 | 85 | +60.0 |" in Report(seed=1, processes=(*processes, *started_again)).text()
    assert "| binder-0 | 2 | 80 | too short |" in Report(seed=1, processes=sampled(120)).text()


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"intents": 50, "evictions": 3}, 0),
        ({"intents": 49, "evictions": 3}, 2),
        ({"intents": 50}, 2),
        ({"intents": 50, "evictions": 3, "inconclusive": ["binder-0 had ended"]}, 2),
        ({"violations": {"I1": ["web-1"]}, "inconclusive": ["binder-0 had ended"]}, 1),
    ],
)
def test_exit_codes(fields: dict[str, Any], code: int) -> None:
    """Ten minutes: fewer than five intents per minute prove nothing."""
    report = Report(seed=1, seconds=600, **fields)
    assert report.exit_code == code
    assert ("passed", "VIOLATED", "inconclusive")[code] in report.text()


def test_actions_that_break_the_same_thing_do_not_overlap() -> None:
    """Nor one that delays requests with one during which none may arrive."""
    of: dict[str, Action] = {action.name: action for action in ACTIONS}
    assert len(of) == len(ACTIONS)
    assert of["binder-0 killed"].may_overlap(of["NATS restarted"])
    assert not of["binder-0 killed"].may_overlap(of["binder-0 suspended"])
    assert not of["pause and resume"].may_overlap(of["slow evictions"])
    assert not of["slow evictions"].may_overlap(of["frozen metrics"])
    assert not any(action.may_overlap(action) for action in ACTIONS)
