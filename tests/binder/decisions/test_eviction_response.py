"""What each response of the eviction API means, and what becomes of the intent."""

from typing import Any

import pytest
from builders import NOW, an_intent

from equipoise.binder.decisions.eviction_response import after_response, read_response, while_blocked
from equipoise.binder.decisions.result import Finish, Retry
from equipoise.contracts.eviction.approval import NOT_APPROVED
from equipoise.contracts.messages.eviction import Outcome

TWO_BUDGETS = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
WRONG_UID = "the UID in the precondition (a) does not match the UID in record (b)"

NO_RIGHT = 'pods "a" is forbidden: User "b" cannot create resource "pods/eviction" in API group "" in the namespace "c"'

FENCE = "ValidatingAdmissionPolicy 'equipoise-binder-fence' with binding 'equipoise-binder-fence' denied request: "


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
        (422, FENCE + NOT_APPROVED, {}, "not_approved", Outcome.FAILED),
        (422, FENCE + "the binder may not change the grace period of a pod", {}, "refused", Outcome.FAILED),
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
    response = read_response(status, message, **more)  # type: ignore[arg-type]
    assert response.meaning == meaning
    assert (response.finish.outcome if response.finish else None) == outcome


def test_a_missing_right_is_named() -> None:
    assert "pods/eviction" in read_response(403, "forbidden").operator_action
    assert read_response(201, "").operator_action == ""


def test_a_dry_run_without_the_right_to_evict_reports_it() -> None:
    """Its detail names what was not checked; no action is required."""
    response = read_response(403, NO_RIGHT, dry_run=True)
    assert response.finish is not None
    assert "pods/eviction" in response.finish.detail
    assert response.operator_action == ""


def test_the_wait_is_that_of_the_server() -> None:
    """Without one it is a second."""
    assert read_response(429, "", retry_after=7.0).retry_after == 7.0
    assert read_response(429, "").retry_after == 1.0


NOT_NOW = read_response(409, "the object has been modified")
THROTTLED = read_response(429, "too many requests")
BLOCKED = read_response(429, "needs 2 healthy pods", disruption_budget=True, budget="one")
UNKNOWN = read_response(504, "")
UNEXPECTED = read_response(302, "elsewhere")
GONE = read_response(404, "")
UNAPPROVED = read_response(422, FENCE + NOT_APPROVED)


def after(response: Any, *, wait: float = 0.0, now: float = NOW, **fields: Any) -> Finish | Retry:
    return after_response(an_intent(), response, now=now, wait=wait, sample_lifetime=120.0, **fields)


@pytest.mark.parametrize("response", [NOT_NOW, THROTTLED, BLOCKED])
def test_after_a_temporary_refusal_the_intent_is_retried_without_its_reservation(response: Any) -> None:
    """Attempts are a fifth of the lifetime apart, or as far as the API server requests."""
    assert after(response) == Retry(after=36.0, why=response.why, reservation="returned")
    assert after(response, wait=50.0) == Retry(after=50.0, why=response.why, reservation="returned")


def test_an_eviction_without_approval_is_retried_soon_and_then_ever_later() -> None:
    """An API server may not have applied the approval yet. It ends before its samples are too old, as when blocked."""
    ages, result = [0.1], after(UNAPPROVED, now=NOW + 0.1)
    while isinstance(result, Retry):
        assert result.reservation == "returned"
        ages.append(ages[-1] + result.after)
        result = after(UNAPPROVED, now=NOW + ages[-1])
    assert [round(age, 1) for age in ages] == [0.1, 1.1, 2.2, 4.4, 8.8, 17.6, 35.2, 70.4]
    assert (result.outcome, result.reservation) == (Outcome.FAILED, "returned")
    assert NOT_APPROVED in result.detail


@pytest.mark.parametrize("response", [NOT_NOW, THROTTLED, BLOCKED, UNAPPROVED, GONE, read_response(403, "forbidden")])
def test_no_response_returns_the_reservation_of_another_binder(response: Any) -> None:
    """Its POST may still be carried out."""
    assert after(response, taken_over=True).reservation == "kept"


@pytest.mark.parametrize("response", [read_response(201, ""), UNKNOWN, UNEXPECTED])
def test_only_a_definite_refusal_returns_the_reservation(response: Any) -> None:
    assert after(response).reservation == "kept"


def test_a_definite_refusal_ends_the_intent_and_returns_the_reservation() -> None:
    result = after(GONE)

    assert result == Finish(outcome=Outcome.ALREADY_GONE, detail="the pod was gone", reservation="returned")


def test_a_blocked_intent_ends_before_its_samples_are_too_old() -> None:
    """They are 5 s old and valid for 120 s; the next attempt would be in 36 s."""
    assert isinstance(after(BLOCKED, now=NOW + 78), Retry)
    result = after(BLOCKED, now=NOW + 79)

    expected = Finish(outcome=Outcome.BLOCKED_PDB, detail="needs 2 healthy pods", reservation="returned")
    assert result == expected


def test_an_intent_that_waits_for_its_budget_ends_before_its_samples_are_too_old() -> None:
    """It has no reservation yet."""
    result = while_blocked(an_intent(), "shop/one", now=NOW, wait=60.0, sample_lifetime=120.0)
    assert isinstance(result, Retry)
    assert (result.after, result.reservation) == (60.0, "none")
    result = while_blocked(an_intent(), "shop/one", now=NOW, wait=115.0, sample_lifetime=120.0)
    assert isinstance(result, Finish)
    assert result.outcome == Outcome.BLOCKED_PDB
    assert "shop/one" in result.detail


@pytest.mark.parametrize("response", [UNKNOWN, UNEXPECTED])
def test_after_an_unknown_response_a_pod_that_left_was_evicted(response: Any) -> None:
    """Unless the POST was a dry run."""
    for dry_run, outcome in ((False, Outcome.EVICTED), (True, Outcome.ALREADY_GONE)):
        result = after(response, left=True, dry_run=dry_run)
        assert isinstance(result, Finish)
        assert (result.outcome, result.reservation) == (outcome, "kept")


def test_a_pod_that_is_gone_was_evicted_by_the_binder_that_reserved_it() -> None:
    """A second binder finds it gone after its own POST."""
    result = after(GONE, taken_over=True)

    assert isinstance(result, Finish)
    assert (result.outcome, result.reservation) == (Outcome.EVICTED, "kept")


def test_an_unknown_response_is_retried_while_the_intent_lives() -> None:
    """Afterwards it has failed, and it counts."""
    assert isinstance(after(UNKNOWN, now=NOW + 143), Retry)
    result = after(UNKNOWN, now=NOW + 144)
    assert isinstance(result, Finish)
    assert (result.outcome, result.reservation) == (Outcome.FAILED, "kept")


def test_an_unexpected_response_is_not_retried() -> None:
    result = after(UNEXPECTED)

    assert isinstance(result, Finish)
    assert (result.outcome, result.reservation) == (Outcome.FAILED, "kept")
