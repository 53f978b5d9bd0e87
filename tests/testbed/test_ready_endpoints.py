"""Shortages of ready endpoints, from a hand-written audit log."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from equipoise.testbed.audit import WrittenSlice, written_slices
from equipoise.testbed.ready_endpoints import Shortage, ready_endpoints

WEB = "shop/web"


def written(at: float, *ready: str, name: str = "web-1", service: str = WEB) -> WrittenSlice:
    return WrittenSlice(service=service, name=name, ready=frozenset(ready), time=datetime.fromtimestamp(at, UTC))


def shortages(*slices: WrittenSlice, wanted: int = 1, until: float = 100.0) -> list[tuple[float, float, int]]:
    found = ready_endpoints(slices, {WEB: wanted}, until).shortages
    return [(each.since, each.until, each.fewest) for each in found]


def test_a_pod_that_leaves_before_its_replacement_is_ready_is_a_shortage() -> None:
    """From the first write without it until the write with the replacement."""
    assert shortages(written(1, "a"), written(5), written(8.5, "b")) == [(5.0, 8.5, 0)]


def test_a_replacement_that_is_ready_first_is_none() -> None:
    """Also if both are exchanged in one write."""
    assert shortages(written(1, "a"), written(5, "a", "b"), written(8, "b")) == []
    assert shortages(written(1, "a"), written(5, "b")) == []


def test_a_shortage_of_no_length_is_one() -> None:
    """Two writes may be logged within the same microsecond."""
    assert shortages(written(1, "a"), written(5), written(5, "b")) == [(5.0, 5.0, 0)]


def test_a_shortage_has_its_fewest_endpoints() -> None:
    slices = [written(at, *ready) for at, ready in ((1, "abc"), (2, "ab"), (3, "a"), (4, "ab"), (6, "abd"))]

    assert shortages(*slices, wanted=3) == [(2.0, 6.0, 1)]


def test_a_service_counts_once_it_was_complete() -> None:
    """Its pods start one after the other."""
    incomplete = ready_endpoints([written(1), written(2, "a")], {WEB: 2, "shop/other": 1}, 100.0)
    complete = ready_endpoints([written(1), written(2, "a"), written(3, "a", "b")], {WEB: 2}, 100.0)

    assert (incomplete.complete, incomplete.shortages) == (frozenset(), ())
    assert (complete.complete, complete.shortages) == ({WEB}, ())


def test_the_endpoints_of_all_slices_count_each_pod_once() -> None:
    """A pod may be in two slices while it is moved from one to the other; a deleted slice has none."""
    assert (
        shortages(
            written(1, "a"), written(1, "b", name="web-2"), written(2, "a", "b"), written(3, name="web-2"), wanted=2
        )
        == []
    )
    assert shortages(written(1, "a"), written(1, "b", name="web-2"), written(3, name="web-2"), wanted=2) == [
        (3.0, 100.0, 1)
    ]


def test_a_shortage_that_lasts_is_cut_at_the_end() -> None:
    """What is written after the end does not count."""
    slices = [written(1, "a"), written(5), written(200, "b")]

    assert ready_endpoints(slices, {WEB: 1}, 50.0).seconds == 45.0
    assert ready_endpoints(slices, {WEB: 1}, 50.0).shortages == (
        Shortage(service=WEB, since=5.0, until=50.0, fewest=0),
    )


def test_other_services_do_not_count() -> None:
    assert shortages(written(1, "a"), written(2, service="shop/other")) == []


def a_line(verb: str, at: float, ready: dict[str, Any], *, name: str = "web-1", code: int = 200) -> str:
    labels = {"kubernetes.io/service-name": "web"}
    endpoints = [
        {"addresses": [f"10.0.0.{number}"], "conditions": conditions, "targetRef": {"uid": uid}}
        for number, (uid, conditions) in enumerate(ready.items())
    ]
    event = {
        "stage": "ResponseComplete",
        "verb": verb,
        "objectRef": {
            "resource": "endpointslices",
            "namespace": "shop",
            **({} if verb == "create" else {"name": name}),
        },
        "responseStatus": {"code": code},
        "requestReceivedTimestamp": datetime.fromtimestamp(at, UTC).isoformat(),
        "responseObject": {"metadata": {"name": name, "labels": labels}, "endpoints": endpoints},
    }
    return json.dumps(event if verb != "delete" else event | {"responseObject": {"kind": "Status"}})


def test_slices_are_read_from_the_audit_log(tmp_path: Path) -> None:
    """The name that the API server generated is in its response. A refused write changes nothing."""
    lines = [
        a_line("create", 1, {"a": {"ready": True}, "b": {"ready": False}}),
        a_line("update", 2, {"a": {}, "b": {"ready": True}}, name="web-1"),
        a_line("update", 3, {}, name="web-1", code=409),
        a_line("delete", 4, {}, name="web-1"),
    ]
    log = tmp_path / "audit.log"
    log.write_text("\n".join(lines) + "\n")

    assert written_slices(log) == [written(1, "a"), written(2, "a", "b"), written(4)]


@pytest.mark.parametrize("line", [a_line("delete", 4, {}, name="unknown"), a_line("create", 1, {}).replace("web", "")])
def test_a_slice_of_no_service_is_none(line: str, tmp_path: Path) -> None:
    """Nor one whose Service the log does not have."""
    log = tmp_path / "audit.log"
    log.write_text(line + "\n")

    assert written_slices(log) == []
