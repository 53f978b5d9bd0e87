"""What a response of the eviction API means, and what becomes of the intent: its outcome, or another attempt."""

from typing import Literal

import msgspec

from equipoise.binder.decisions.result import (
    Finish,
    Reservation,
    Retry,
    fresh_at,
    pod_left,
    retry,
    retry_while_fresh,
)
from equipoise.contracts.eviction.approval import NOT_APPROVED
from equipoise.contracts.messages.eviction import EvictionIntent, Outcome

_RETRY_AFTER = 1.0
"""Seconds to wait when the API server throttles and sends no Retry-After."""

_NO_PERMISSION = 'cannot create resource "pods/eviction"'
"""The text of role-based access control; admission has others."""

_NOT_CHECKED = "the permission to `create` `pods/eviction` is missing, so budgets and admission were not checked"
"""The detail of a dry run without this permission. It is no failure: a user who only observes does not grant it."""

_FIRST_APPROVAL_RETRY = 1.0
"""Seconds: an API server applies an approval that was written through another one with a delay."""

Meaning = Literal["accepted", "refused", "blocked", "throttled", "not_approved", "not_now", "unknown", "unexpected"]


class EvictionResponse(msgspec.Struct, frozen=True, kw_only=True):
    """A response, interpreted.

    accepted: the pod is evicted. refused: it is not, and never will be. blocked: a disruption budget allows nothing
    now. throttled: the API server limits requests. not_approved: it has no approval, or not yet. not_now: refused for
    another reason that ends. unknown: read whether the pod was evicted, and retry. unexpected: read whether it was, and
    do not retry.
    """

    meaning: Meaning
    finish: Finish | None = None
    """The outcome if the intent is not tried again; set when accepted, refused, blocked or not approved.
    `after_response` tries the latter two again while the samples are fresh."""

    why: str = ""
    retry_after: float = 0.0
    budget: str = ""
    """The blocking budget, if the response names it."""

    operator_action: str = ""
    """What an operator has to change."""


def _refused(outcome: Outcome, detail: str, operator_action: str = "") -> EvictionResponse:
    finish = Finish(outcome=outcome, detail=detail)
    return EvictionResponse(meaning="refused", finish=finish, operator_action=operator_action)


def read_response(
    status: int,
    message: str,
    *,
    disruption_budget: bool = False,
    budget: str = "",
    retry_after: float | None = None,
    dry_run: bool = False,
) -> EvictionResponse:
    """`status` 0: there was no response.

    Source of the cases: kubernetes v1.36, pkg/registry/core/pod/storage/eviction.go, and API priority
    and fairness.
    """
    if status in (200, 201):
        return EvictionResponse(
            meaning="accepted", finish=Finish(outcome=Outcome.DRY_RUN if dry_run else Outcome.EVICTED)
        )
    if status == 404:
        return _refused(Outcome.ALREADY_GONE, "the pod was gone")
    if status == 409 and "precondition" in message:
        return _refused(Outcome.UID_CHANGED, "another pod has its name")
    if status == 409:
        return EvictionResponse(meaning="not_now", why=f"conflict: {message}")
    if status == 429 and disruption_budget and not retry_after:  # with Retry-After the budget is not processed yet
        blocked = Finish(outcome=Outcome.BLOCKED_PDB, detail=message)
        return EvictionResponse(meaning="blocked", finish=blocked, why=message, budget=budget)
    if status == 429 and disruption_budget:
        return EvictionResponse(meaning="not_now", why=message, retry_after=retry_after or _RETRY_AFTER)
    if status == 429:
        why = message or "too many requests"
        return EvictionResponse(meaning="throttled", why=why, retry_after=retry_after or _RETRY_AFTER)
    if status == 403 and dry_run and _NO_PERMISSION in message:
        return EvictionResponse(meaning="accepted", finish=Finish(outcome=Outcome.DRY_RUN, detail=_NOT_CHECKED))
    if status in (403, 422) and NOT_APPROVED in message:
        why = f"{NOT_APPROVED} (`equipoise doctor` finds the cause)"
        unapproved = Finish(outcome=Outcome.FAILED, detail=why)
        return EvictionResponse(meaning="not_approved", finish=unapproved, why=why)
    if status == 403:
        action = f"may not evict: {message}. Grant `create` on `pods/eviction`, or see which admission policy denies it"
        return _refused(Outcome.FAILED, message, action)
    if status >= 500 and "more than one PodDisruptionBudget" in message:
        finish = Finish(outcome=Outcome.REJECTED_POLICY, detail=message, owner_must_act=True)
        return EvictionResponse(meaning="refused", finish=finish)
    if 400 <= status < 500:
        return _refused(Outcome.FAILED, f"{status}: {message}", f"the API server refused: {status} {message}")
    why = f"{status or 'no response'}: {message}"
    return EvictionResponse(meaning="unknown" if status == 0 or status >= 500 else "unexpected", why=why)


def after_response(
    intent: EvictionIntent,
    response: EvictionResponse,
    *,
    now: float,
    wait: float,
    sample_lifetime: float,
    left: bool = False,
    dry_run: bool = False,
    taken_over: bool = False,
) -> Finish | Retry:
    """What becomes of the intent. Only a definite refusal of this POST returns the reservation.

    `wait`: least seconds until the next attempt; `sample_lifetime`: seconds for which a sample is fresh enough for an
    eviction; `left`: after an unknown or unexpected response, the pod was read and has left; `taken_over`: another
    binder may have sent a POST for this reservation, so no response to ours returns it.
    """
    refused = response.meaning in ("refused", "blocked", "throttled", "not_approved", "not_now")
    reservation: Reservation = "returned" if refused and not taken_over else "kept"
    finish = response.finish
    gone = finish is not None and finish.outcome in (Outcome.ALREADY_GONE, Outcome.UID_CHANGED)
    if left or (taken_over and gone):
        return pod_left(dry_run=dry_run)
    again = retry(intent, response.why, at_least=wait, reservation=reservation)
    if response.meaning == "not_approved":
        # Soon at first, then later and later: after as much time as has passed since the decision.
        again = msgspec.structs.replace(again, after=max(_FIRST_APPROVAL_RETRY, now - intent.decided_at))
    if response.meaning in ("blocked", "not_approved") and fresh_at(now + again.after, intent, sample_lifetime):
        return again
    if finish is not None:
        return msgspec.structs.replace(finish, reservation=reservation)
    if response.meaning == "unexpected" or now + again.after >= intent.expires_at:
        detail = f"not carried out within its lifetime: {response.why}"
        return Finish(outcome=Outcome.FAILED, detail=detail, reservation=reservation)
    return again


def blocked_text(budget: str, wait: float) -> str:
    """The reason while no eviction is requested again that a budget has refused."""
    return f"PodDisruptionBudget {budget} refused lately and is tried again in {wait:.0f} s"


def while_blocked(
    intent: EvictionIntent, budget: str, *, now: float, wait: float, sample_lifetime: float
) -> Finish | Retry:
    """What becomes of an intent whose disruption budget refused lately and is tried again in `wait` seconds."""
    why = blocked_text(budget, wait)
    return retry_while_fresh(intent, why, Outcome.BLOCKED_PDB, now=now, sample_lifetime=sample_lifetime, at_least=wait)
