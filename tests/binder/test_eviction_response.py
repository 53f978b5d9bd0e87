"""What each answer of the eviction API means."""

import pytest

from equipoise.binder.decisions.eviction_response import read_response
from equipoise.contracts.messages.eviction import Outcome

TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
WRONG_UID = "the UID in the precondition (a) does not match the UID in record (b)"

NO_RIGHT = 'pods "a" is forbidden: User "b" cannot create resource "pods/eviction" in API group "" in the namespace "c"'


@pytest.mark.parametrize(
    ("status", "message", "more", "meaning", "outcome"),
    [
        (201, "", {}, "accepted", Outcome.EVICTED),
        (200, "", {}, "accepted", Outcome.EVICTED),
        (201, "", {"dry_run": True}, "accepted", Outcome.DRY_RUN),
        (404, "", {}, "refused", Outcome.ALREADY_GONE),
        (409, WRONG_UID, {}, "refused", Outcome.UID_CHANGED),
        (409, "the object has been modified", {}, "not_now", None),
        (429, "needs 2 healthy pods", {"disruption_budget": True}, "blocked", Outcome.BLOCKED_PDB),
        (429, "still being processed", {"disruption_budget": True, "retry_after": 10.0}, "not_now", None),
        (429, "Too many requests, please try again later.", {"retry_after": 1.0}, "throttled", None),
        (429, "", {}, "throttled", None),
        (403, "forbidden", {}, "refused", Outcome.FAILED),
        (403, NO_RIGHT, {}, "refused", Outcome.FAILED),
        (403, NO_RIGHT, {"dry_run": True}, "accepted", Outcome.DRY_RUN),
        (403, "denied by a policy", {"dry_run": True}, "refused", Outcome.FAILED),
        (400, "bad", {}, "refused", Outcome.FAILED),
        (422, "invalid", {}, "refused", Outcome.FAILED),
        (500, TWO_BUDGETS, {}, "refused", Outcome.REJECTED_POLICY),
        (500, "etcd", {}, "unknown", None),
        (504, "", {}, "unknown", None),
        (0, "connection reset", {}, "unknown", None),
        (302, "elsewhere", {}, "unexpected", None),
        (202, "", {}, "unexpected", None),
    ],
)
def test_the_meaning_of_every_response(
    status: int, message: str, more: dict[str, object], meaning: str, outcome: Outcome | None
) -> None:
    """Only a definite refusal is one; what may have happened is read."""
    reading = read_response(status, message, **more)  # type: ignore[arg-type]
    assert reading.meaning == meaning
    assert (reading.finish.outcome if reading.finish else None) == outcome


def test_a_missing_right_is_named() -> None:
    assert "pods/eviction" in read_response(403, "forbidden").operator_action
    assert read_response(201, "").operator_action == ""


def test_a_dry_run_without_the_right_to_evict_reports_it() -> None:
    """Its detail names what was not checked; no action is required."""
    reading = read_response(403, NO_RIGHT, dry_run=True)
    assert reading.finish is not None
    assert "pods/eviction" in reading.finish.detail
    assert reading.operator_action == ""


def test_the_wait_is_that_of_the_server() -> None:
    """Without one it is a second."""
    assert read_response(429, "", retry_after=7.0).retry_after == 7.0
    assert read_response(429, "").retry_after == 1.0
