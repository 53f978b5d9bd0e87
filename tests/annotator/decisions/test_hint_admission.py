"""The hint of a new pod, decided from the pod and the hints of its namespace.

tests/e2e/test_hints_webhook.py compares the result with the admission policy, in the real API server.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from annotator.reviews import a_review
from e2e.hinted_pods import AFFINITIES, HINTED_KEYS, Document

from equipoise.annotator.decisions.hint_admission import Admission, NewPod, admit
from equipoise.contracts.hints.hints_object import HintsObject

AT = datetime(2026, 11, 27, 9, tzinfo=UTC)
HINT = {"prefer": [{"weight": 50, "nodes": [0, 1]}], "avoid": {"weight": 30, "nodes": [2]}}


def stored(hints: Document, *, until: datetime = AT + timedelta(minutes=5)) -> HintsObject:
    """With hints as earlier versions wrote them, which have the same effect."""
    document = {
        "metadata": {"name": "equipoise-hints", "namespace": "shop", "resourceVersion": "17"},
        "until": until.isoformat(),
        "hostnames": ["alpha", "beta", "gamma"],
        "hints": hints,
    }
    return msgspec.json.decode(msgspec.json.encode(document), type=HintsObject)


def admission(hints: HintsObject | None, **fields: Any) -> Admission:
    pod = a_review(at=AT.isoformat(), **fields)["request"]["object"]
    return admit(msgspec.json.decode(msgspec.json.encode(pod), type=NewPod), hints)


def paths(found: Admission) -> list[str]:
    return [each.path.rpartition("/")[2] for each in found.patch]


@pytest.mark.parametrize("key", HINTED_KEYS)
def test_a_pod_gets_the_hint_of_its_workload_only(key: str) -> None:
    found = admission(stored({key: HINT}), **HINTED_KEYS[key])
    other = admission(stored({"Deployment.other": HINT}), **HINTED_KEYS[key])

    assert "hinted" == found.result
    assert f"{key}@17" == found.patch[-1].value
    assert ("no_hint_of_workload", ()) == (other.result, other.patch)


def with_text(hints: HintsObject, *texts: str, index: int = 0) -> HintsObject:
    """With these hints beside those of an earlier version; StatefulSet.db has that with this index."""
    return msgspec.structs.replace(
        hints, nodes="alpha beta gamma", distinct_hints=texts, workloads={"StatefulSet.db": index}
    )


def test_a_hint_of_an_earlier_version_counts_before_one_of_this_version() -> None:
    earlier = stored({"StatefulSet.db": HINT})

    assert admission(earlier, owner="StatefulSet/db") == admission(with_text(earlier, "1:0"), owner="StatefulSet/db")


@pytest.mark.parametrize(("text", "index"), [("1:3", 0), ("-1:0,-1", 0), ("1:0", 1)])
def test_a_hint_that_is_not_listed_or_names_such_a_node_is_not_given(text: str, index: int) -> None:
    found = admission(with_text(stored({}), text, index=index), owner="StatefulSet/db")

    assert Admission(result="unlisted_node") == found


@pytest.mark.parametrize("hints", [stored({"StatefulSet.db": HINT}), with_text(stored({}), "50:0,1 -30:2")])
def test_terms_name_the_nodes_of_the_hint(hints: HintsObject) -> None:
    terms = [
        (each.value["weight"], *each.value["preference"]["matchExpressions"][0].values())
        for each in admission(hints, owner="StatefulSet/db").patch
        if each.path.endswith("/-")
    ]

    assert terms == [
        (50, "kubernetes.io/hostname", "In", ("alpha", "beta")),
        (30, "kubernetes.io/hostname", "NotIn", ("gamma",)),
    ]


PARENTS = {
    "none": ["affinity", "nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"],
    "empty": ["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"],
    "required": ["preferredDuringSchedulingIgnoredDuringExecution"],
    "preferred": [],
    "both": [],
    "no preferred term": [],
    "of pods": ["nodeAffinity", "preferredDuringSchedulingIgnoredDuringExecution"],
}


@pytest.mark.parametrize("affinity", AFFINITIES)
def test_what_the_user_wrote_is_not_replaced(affinity: str) -> None:
    """Only parents that the pod lacks are added, and terms after its own."""
    found = admission(stored({"StatefulSet.db": HINT}), owner="StatefulSet/db", affinity=AFFINITIES[affinity])

    assert [*PARENTS[affinity], "-", "-", "equipoise.dev~1hint"] == paths(found)


@pytest.mark.parametrize(("left", "result"), [(1, "hinted"), (0, "expired"), (-1, "expired")])
def test_hints_expire_by_the_time_of_the_request(left: int, result: str) -> None:
    """Which the API server writes into the managedFields of the pod: the clock of the webhook does not matter."""
    hints = stored({"StatefulSet.db": HINT}, until=AT + timedelta(seconds=left))

    assert result == admission(hints, owner="StatefulSet/db").result


@pytest.mark.parametrize("times", [[], [None], [AT.isoformat(), None], [AT.isoformat(), "2040-01-01T00:00:00Z"]])
def test_a_pod_whose_time_is_not_known_gets_no_hint(times: list[str | None]) -> None:
    """Nor one whose client claims a time after the hints."""
    pod = a_review(owner="StatefulSet/db")["request"]["object"]
    pod["metadata"]["managedFields"] = [{"time": time} for time in times]
    decoded = msgspec.json.decode(msgspec.json.encode(pod), type=NewPod)

    assert "expired" == admit(decoded, stored({"StatefulSet.db": HINT})).result


def test_a_hint_that_names_an_unlisted_node_is_not_given() -> None:
    """As by the policy, whose expression fails. A negative place is no place from the end."""
    for place in (3, -1):
        hints = stored({"StatefulSet.db": {"prefer": [{"weight": 1, "nodes": [0, place]}]}})

        assert Admission(result="unlisted_node") == admission(hints, owner="StatefulSet/db")


def test_a_pod_without_a_controller_or_hints_in_its_namespace_gets_none() -> None:
    hints = stored({"StatefulSet.db": HINT})

    assert "no_controller" == admission(hints, owner="StatefulSet/db", controller=False).result
    assert "no_hints_in_namespace" == admission(None, owner="StatefulSet/db").result
    assert "no_hints_in_namespace" == admission(stored({}), owner="StatefulSet/db").result
